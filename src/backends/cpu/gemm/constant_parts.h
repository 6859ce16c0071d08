#pragma once

#include <cstdint>
#include <functional>

#include "backends/cpu/gemm/gemm_i8.h"

namespace smelt {

/// Calls f(part, first column of it) for parts of a constant b that are whole panels of `gemm`, on all PackingThreads.
/// A large b whose columns lie one behind the other in a mapped file is read from it, a part at a time that a near
/// cache holds: its pages need not be mapped; so are deferred bytes. Else the only part is b itself.
void for_each_part(const GemmI8& gemm, const BytesOfB& b,
                   const std::function<void(const BytesOfB& part, int64_t first)>& f);

/// gemm.pack_bytes() of a constant by such parts.
void pack_constant_bytes(const GemmI8& gemm, const BytesOfB& b, const int32_t* bias, int32_t a_zero, void* packed);

}  // namespace smelt
