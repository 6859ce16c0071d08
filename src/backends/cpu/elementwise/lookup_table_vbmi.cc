// Tables of bytes by AVX-512 VBMI.
#if defined(__x86_64__)
#include "backends/cpu/elementwise/lookup_table_vbmi.h"

#include <algorithm>

#include "backends/cpu/core/vnni-inl.h"

HWY_PUSH_ATTRIBUTES("avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")
namespace smelt {

void look_up_8_vbmi(const uint8_t* table, const uint8_t* x, int64_t n, uint8_t* y) {
  constexpr int64_t kLanes = 64;
  const __m512i quarters[4] = {_mm512_loadu_si512(table), _mm512_loadu_si512(table + kLanes),
                               _mm512_loadu_si512(table + 2 * kLanes), _mm512_loadu_si512(table + 3 * kLanes)};
  for (int64_t i = 0; i < n; i += kLanes) {
    const __mmask64 here = ~uint64_t{0} >> (kLanes - std::min(kLanes, n - i));
    const __m512i index = _mm512_maskz_loadu_epi8(here, x + i);
    const __m512i low = _mm512_permutex2var_epi8(quarters[0], index, quarters[1]);
    const __m512i high = _mm512_permutex2var_epi8(quarters[2], index, quarters[3]);
    _mm512_mask_storeu_epi8(y + i, here, _mm512_mask_blend_epi8(_mm512_movepi8_mask(index), low, high));
  }
}

}  // namespace smelt
HWY_POP_ATTRIBUTES
#endif
