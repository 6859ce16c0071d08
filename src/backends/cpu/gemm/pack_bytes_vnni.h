#pragma once

#include <cstdint>

#include "backends/cpu/gemm/gemm_i8.h"

namespace smelt {

// By AVX-512 VNNI, for gemm_i8() of that level.

/// GemmI8::pack() in the byte form, `packed` aligned to 64 bytes.
void pack_bytes_vnni(const GemmI8& gemm, const BytesOfB& b, const int32_t* bias, int32_t a_zero, void* packed);
/// The sum of n bytes, int8 or uint8.
int32_t sum_bytes_vnni(const uint8_t* x, int64_t n, bool is_signed);
/// Adds addends[r] to the n accumulators of row r, and to those up to the next multiple of 16: rows `stride` apart.
void add_to_rows_vnni(const int32_t* addends, int64_t rows, int64_t stride, int64_t n, int32_t* acc);

}  // namespace smelt
