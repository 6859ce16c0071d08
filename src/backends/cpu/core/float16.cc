#include "backends/cpu/core/float16.h"

#include "tensor/numeric.h"

#if defined(__x86_64__)
#include <hwy/base.h>
#include <immintrin.h>
#endif

namespace smelt {
namespace {

void from_f16(const uint16_t* x, int64_t n, float* y) {
  for (int64_t i = 0; i < n; ++i) y[i] = f16_to_f32(x[i]);
}
void to_f16(const float* x, int64_t n, uint16_t* y) {
  for (int64_t i = 0; i < n; ++i) y[i] = f32_to_f16(x[i]);
}
void from_bf16(const uint16_t* x, int64_t n, float* y) {
  for (int64_t i = 0; i < n; ++i) y[i] = bf16_to_f32(x[i]);
}
void to_bf16(const float* x, int64_t n, uint16_t* y) {
  for (int64_t i = 0; i < n; ++i) y[i] = f32_to_bf16(x[i]);
}

}  // namespace
}  // namespace smelt

#if defined(__x86_64__)
HWY_PUSH_ATTRIBUTES("avx,f16c")
namespace smelt {
namespace {

void from_f16_f16c(const uint16_t* x, int64_t n, float* y) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(y + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x + i))));
  from_f16(x + i, n - i, y + i);
}
void to_f16_f16c(const float* x, int64_t n, uint16_t* y) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(y + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  to_f16(x + i, n - i, y + i);
}

}  // namespace
}  // namespace smelt
HWY_POP_ATTRIBUTES
#endif

namespace smelt {

const Converter& converter([[maybe_unused]] Isa isa) {
  static const Converter unquantized{from_f16, to_f16, from_bf16, to_bf16};
#if defined(__x86_64__)
  static const Converter f16c{from_f16_f16c, to_f16_f16c, from_bf16, to_bf16};
  if (isa.has(IsaFeature::kAvx2)) return f16c;
#endif
  return unquantized;
}

}  // namespace smelt
