#pragma once

#include <cstdint>

namespace smelt {

#if defined(__x86_64__)
/// y[i] = table[x[i]] for i < n, of 256 entries. Precondition: the processor has AVX-512 VBMI.
void look_up_8_vbmi(const uint8_t* table, const uint8_t* x, int64_t n, uint8_t* y);
#endif

}  // namespace smelt
