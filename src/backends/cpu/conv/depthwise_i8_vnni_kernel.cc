#if defined(__x86_64__)
#include <algorithm>

#include "backends/cpu/conv/depthwise_i8_vnni.h"
#include "backends/cpu/core/vnni-inl.h"

SMELT_BEFORE_VNNI
namespace smelt {
namespace {

using Rule = DepthwiseRow::Rule;

inline __m512i load(const char* from, int64_t vector) { return _mm512_load_si512(from + vector * 64); }

/// Rescaling of the accumulators of one block: see requantize_params.cc, whose steps these are.
template <Rule R>
struct Rescale {
  __m512i multiplier[4], odd_multiplier[4], shift[4], even[4], odd[4];
  __mmask16 shifted[4];
  Rescale(const char* from, int32_t) {
    for (int v = 0; v < 4; ++v) {
      multiplier[v] = load(from, v);
      odd_multiplier[v] = load(from, 4 + v);
      shift[v] = load(from, 8 + v);
      even[v] = load(from, 12 + v);
      odd[v] = load(from, 16 + v);
      shifted[v] = _mm512_test_epi32_mask(shift[v], shift[v]);
    }
  }
  __m512i operator()(__m512i sum, int v) const {
    const __m512i twice = _mm512_add_epi32(sum, sum);
    const __m512i e = _mm512_add_epi64(_mm512_mul_epi32(twice, multiplier[v]), even[v]);
    const __m512i o = _mm512_add_epi64(_mm512_mul_epi32(_mm512_srli_epi64(twice, 32), odd_multiplier[v]), odd[v]);
    __m512i q = _mm512_mask_shuffle_epi32(o, 0x5555, e, _MM_PERM_DDBB);
    if constexpr (R == Rule::kDouble) q = _mm512_mask_add_epi32(q, shifted[v], q, _mm512_srai_epi32(sum, 31));
    return _mm512_srav_epi32(q, shift[v]);
  }
};

template <>
struct Rescale<Rule::kFloat> {
  __m512 factor[4];
  __m512i zero;
  Rescale(const char* from, int32_t zero_point) : zero(_mm512_set1_epi32(zero_point)) {
    for (int v = 0; v < 4; ++v) factor[v] = _mm512_castsi512_ps(load(from, v));
  }
  __m512i operator()(__m512i sum, int v) const {
    return _mm512_add_epi32(_mm512_cvtps_epi32(_mm512_mul_ps(_mm512_cvtepi32_ps(sum), factor[v])), zero);
  }
};

/// Adds four taps of 64 channels to their accumulators.
inline void add_taps(__m512i a, __m512i b, __m512i c, __m512i d, const __m512i* w, __m512i* acc) {
  const __m512i ab0 = _mm512_unpacklo_epi8(a, b), ab1 = _mm512_unpackhi_epi8(a, b);
  const __m512i cd0 = _mm512_unpacklo_epi8(c, d), cd1 = _mm512_unpackhi_epi8(c, d);
  acc[0] = _mm512_dpbusd_epi32(acc[0], _mm512_unpacklo_epi16(ab0, cd0), w[0]);
  acc[1] = _mm512_dpbusd_epi32(acc[1], _mm512_unpackhi_epi16(ab0, cd0), w[1]);
  acc[2] = _mm512_dpbusd_epi32(acc[2], _mm512_unpacklo_epi16(ab1, cd1), w[2]);
  acc[3] = _mm512_dpbusd_epi32(acc[3], _mm512_unpackhi_epi16(ab1, cd1), w[3]);
}

template <bool kSigned>
inline __m512i narrow(__m512i a, __m512i b, __m512i c, __m512i d, __m512i low, __m512i high) {
  const __m512i ab = _mm512_packs_epi32(a, b), cd = _mm512_packs_epi32(c, d);
  if constexpr (kSigned) return _mm512_min_epi8(_mm512_max_epi8(_mm512_packs_epi16(ab, cd), low), high);
  return _mm512_min_epu8(_mm512_max_epu8(_mm512_packus_epi16(ab, cd), low), high);
}

/// kGroups: 3 for nine taps, or 0 for any number.
template <Rule R, bool kSigned, int kGroups>
void row(const DepthwiseRow& r) {
  const __m512i low = _mm512_set1_epi8(static_cast<char>(r.low)), high = _mm512_set1_epi8(static_cast<char>(r.high));
  const bool whole = r.channels >= DepthwiseRow::kBlock;
  const __mmask64 used = whole ? ~__mmask64{0} : (__mmask64{1} << r.channels) - 1;
  const char* weights = r.weights;
  const char* rules = r.rules;
  for (int64_t block = 0; block < r.channels; block += DepthwiseRow::kBlock) {
    const int64_t channel = whole ? std::min(block, r.channels - DepthwiseRow::kBlock) : 0;
    const Rescale<R> rescale(rules, r.zero);
    const __m512i addends[4] = {load(weights, 0), load(weights, 1), load(weights, 2), load(weights, 3)};
    __m512i w[12];
    const uint8_t* taps[9];
    if constexpr (kGroups == 3) {
      for (int i = 0; i < 12; ++i) w[i] = load(weights, 4 + i);
      for (int i = 0; i < 9; ++i) taps[i] = r.taps[i];
    }
    for (int64_t i = 0, next = 0; i < r.count; ++i, next += r.step) {
      const int64_t at = std::min(next, r.last) + channel;
      __m512i acc[4] = {addends[0], addends[1], addends[2], addends[3]};
      if constexpr (kGroups == 3) {
        const auto tap = [&](int t) { return _mm512_loadu_si512(taps[t] + at); };
        add_taps(tap(0), tap(1), tap(2), tap(3), w, acc);
        add_taps(tap(4), tap(5), tap(6), tap(7), w + 4, acc);
        const __m512i none = _mm512_setzero_si512();
        add_taps(tap(8), none, none, none, w + 8, acc);
      } else {
        for (int64_t g = 0; g < r.groups; ++g) {
          const auto tap = [&](int t) { return _mm512_loadu_si512(r.taps[4 * g + t] + at); };
          const __m512i here[4] = {load(weights, 4 + 4 * g), load(weights, 5 + 4 * g), load(weights, 6 + 4 * g),
                                   load(weights, 7 + 4 * g)};
          add_taps(tap(0), tap(1), tap(2), tap(3), here, acc);
        }
      }
      const __m512i bytes =
          narrow<kSigned>(rescale(acc[0], 0), rescale(acc[1], 1), rescale(acc[2], 2), rescale(acc[3], 3), low, high);
      if (whole)
        _mm512_storeu_si512(r.out + at, bytes);
      else
        _mm512_mask_storeu_epi8(r.out + at, used, bytes);
    }
    weights += DepthwiseRow::weight_bytes(r.groups);
    rules += DepthwiseRow::rule_bytes(R);
  }
}

template <Rule R>
DepthwiseRowFunction choose(bool is_signed, bool nine) {
  if (is_signed) return nine ? row<R, true, 3> : row<R, true, 0>;
  return nine ? row<R, false, 3> : row<R, false, 0>;
}

void gather(const uint8_t* from, int64_t n, int64_t step, int64_t channels, int flip, uint8_t* to) {
  const __m512i sign = _mm512_set1_epi8(static_cast<char>(flip));
  if (step == channels) {
    channels *= n;
    n = 1;
  }
  for (int64_t i = 0; i < n; ++i, from += step, to += channels)
    for (int64_t c = 0; c < channels; c += 64) {
      const __mmask64 here = channels - c >= 64 ? ~__mmask64{0} : (__mmask64{1} << (channels - c)) - 1;
      _mm512_storeu_si512(to + c, _mm512_xor_si512(_mm512_maskz_loadu_epi8(here, from + c), sign));
    }
}

}  // namespace

DepthwiseRowFunction depthwise_row_vnni(Rule rule, bool is_signed, int64_t taps) {
  switch (rule) {
    case Rule::kDouble:
      return choose<Rule::kDouble>(is_signed, taps == 9);
    case Rule::kPositive:
      return choose<Rule::kPositive>(is_signed, taps == 9);
    case Rule::kFloat:
      break;
  }
  return choose<Rule::kFloat>(is_signed, taps == 9);
}

void gather_pixels_vnni(const uint8_t* from, int64_t n, int64_t step, int64_t channels, uint8_t* to) {
  gather(from, n, step, channels, 0, to);
}
void gather_signed_pixels_vnni(const uint8_t* from, int64_t n, int64_t step, int64_t channels, uint8_t* to) {
  gather(from, n, step, channels, 0x80, to);
}

}  // namespace smelt
SMELT_AFTER_VNNI
#endif
