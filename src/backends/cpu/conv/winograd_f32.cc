#include "backends/cpu/conv/winograd_f32.h"

#include <type_traits>

#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/conv/winograd_f32.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

#include "backends/cpu/core/math-inl.h"
#include "backends/cpu/core/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// F(2, 3) along one dimension.
struct Winograd2 {
  static constexpr int kTile = 2;

  /// G g: 3 taps to 4 numbers.
  template <class D, class V>
  static HWY_INLINE void filter(D d, const V* g, V* u) {
    const V half = hn::Set(d, 0.5f), ends = hn::Add(g[0], g[2]);
    u[0] = g[0];
    u[1] = hn::Mul(half, hn::Add(ends, g[1]));
    u[2] = hn::Mul(half, hn::Sub(ends, g[1]));
    u[3] = g[2];
  }
  /// B' d: 4 pixels to 4 numbers.
  template <class D, class V>
  static HWY_INLINE void input(D, const V* d, V* v) {
    v[0] = hn::Sub(d[0], d[2]);
    v[1] = hn::Add(d[1], d[2]);
    v[2] = hn::Sub(d[2], d[1]);
    v[3] = hn::Sub(d[1], d[3]);
  }
  /// A' m: 4 products to 2 pixels.
  template <class D, class V>
  static HWY_INLINE void output(D, const V* m, V* y) {
    y[0] = hn::Add(hn::Add(m[0], m[1]), m[2]);
    y[1] = hn::Sub(hn::Sub(m[1], m[2]), m[3]);
  }
};

/// F(4, 3) along one dimension, with the points 0, a, -a, b, -b and infinity. a and b make the error least among
/// fractions whose products below float32 holds exactly. A row of B' has the coefficients of the product of (x - q)
/// over the other points q; G divides by that product's value at the row's point.
struct Winograd4 {
  static constexpr int kTile = 4;
  static constexpr float a = 5.0f / 8, b = 3.0f / 2, aa = a * a, bb = b * b;

  /// G g: 3 taps to 6 numbers.
  template <class D, class V>
  static HWY_INLINE void filter(D d, const V* g, V* u) {
    constexpr double kZero = 1.0 / (double{aa} * bb), kA = 0.5 / (double{aa} * (aa - bb)),
                     kB = 0.5 / (double{bb} * (bb - aa));
    const auto set = [d](double value) HWY_ATTR { return hn::Set(d, static_cast<float>(value)); };
    const V even_a = hn::MulAdd(g[2], set(aa * kA), hn::Mul(g[0], set(kA)));
    const V even_b = hn::MulAdd(g[2], set(bb * kB), hn::Mul(g[0], set(kB)));
    u[0] = hn::Mul(g[0], set(kZero));
    u[1] = hn::MulAdd(g[1], set(a * kA), even_a);
    u[2] = hn::NegMulAdd(g[1], set(a * kA), even_a);
    u[3] = hn::MulAdd(g[1], set(b * kB), even_b);
    u[4] = hn::NegMulAdd(g[1], set(b * kB), even_b);
    u[5] = g[2];
  }
  /// B' d: 6 pixels to 6 numbers.
  template <class D, class V>
  static HWY_INLINE void input(D d, const V* x, V* v) {
    const V va = hn::Set(d, a), vb = hn::Set(d, b), vaa = hn::Set(d, aa), vbb = hn::Set(d, bb);
    const V product = hn::Set(d, aa * bb), sum = hn::Set(d, aa + bb);
    const V even_a = hn::NegMulAdd(x[2], vbb, x[4]), odd_a = hn::NegMulAdd(x[1], vbb, x[3]);
    const V even_b = hn::NegMulAdd(x[2], vaa, x[4]), odd_b = hn::NegMulAdd(x[1], vaa, x[3]);
    v[0] = hn::MulAdd(x[0], product, hn::NegMulAdd(x[2], sum, x[4]));
    v[1] = hn::MulAdd(odd_a, va, even_a);
    v[2] = hn::NegMulAdd(odd_a, va, even_a);
    v[3] = hn::MulAdd(odd_b, vb, even_b);
    v[4] = hn::NegMulAdd(odd_b, vb, even_b);
    v[5] = hn::MulAdd(x[1], product, hn::NegMulAdd(x[3], sum, x[5]));
  }
  /// A' m: 6 products to 4 pixels.
  template <class D, class V>
  static HWY_INLINE void output(D d, const V* m, V* y) {
    const V even_a = hn::Add(m[1], m[2]), odd_a = hn::Sub(m[1], m[2]);
    const V even_b = hn::Add(m[3], m[4]), odd_b = hn::Sub(m[3], m[4]);
    y[0] = hn::Add(hn::Add(m[0], even_a), even_b);
    y[1] = hn::MulAdd(odd_b, hn::Set(d, b), hn::Mul(odd_a, hn::Set(d, a)));
    y[2] = hn::MulAdd(even_b, hn::Set(d, bb), hn::Mul(even_a, hn::Set(d, aa)));
    y[3] = hn::MulAdd(odd_b, hn::Set(d, b * bb), hn::MulAdd(odd_a, hn::Set(d, a * aa), m[5]));
  }
};

template <class Scheme>
void winograd_filter(const float* g, int64_t tap, int64_t channels, float* u, int64_t step) {
  constexpr int kSide = Scheme::kTile + 2;
  each_vector(channels, [&](auto part, int64_t c) HWY_ATTR {
    using V = typename decltype(part)::V;
    const int64_t stride = step, taps = tap;  // not read anew behind every store
    const float* const from = g + c;
    float* to = u + c;
    V t[3][kSide];  // columns of Gg
#pragma GCC unroll 3
    for (int j = 0; j < 3; ++j) {
      const V column[3] = {part.load(from + j * taps), part.load(from + (3 + j) * taps),
                           part.load(from + (6 + j) * taps)};
      Scheme::filter(part.d, column, t[j]);
    }
#pragma GCC unroll 6
    for (int i = 0; i < kSide; ++i) {
      const V row[3] = {t[0][i], t[1][i], t[2][i]};
      V made[kSide];
      Scheme::filter(part.d, row, made);
#pragma GCC unroll 6
      for (int j = 0; j < kSide; ++j, to += stride) part.store(made[j], to);
    }
  });
}

/// B'dB of one vector of channels of a tile, from channel c on. put(value): takes the elements in order.
template <class Scheme, class Part, class Put>
HWY_INLINE void transform_input(const Part& part, const float* const* d, int64_t c, Put put) {
  constexpr int kSide = Scheme::kTile + 2;
  using V = typename Part::V;
  V t[kSide][kSide];  // columns of B'd
#pragma GCC unroll 6
  for (int j = 0; j < kSide; ++j) {
    V column[kSide];
#pragma GCC unroll 6
    for (int i = 0; i < kSide; ++i) column[i] = part.load(d[i * kSide + j] + c);
    Scheme::input(part.d, column, t[j]);
  }
#pragma GCC unroll 6
  for (int i = 0; i < kSide; ++i) {
    V row[kSide], made[kSide];
#pragma GCC unroll 6
    for (int j = 0; j < kSide; ++j) row[j] = t[j][i];
    Scheme::input(part.d, row, made);
#pragma GCC unroll 6
    for (int j = 0; j < kSide; ++j) put(made[j]);
  }
}

template <class Scheme>
void winograd_input(const float* const* d, int64_t channels, float* v, int64_t step) {
  each_vector(channels, [&](auto part, int64_t c) HWY_ATTR {
    const int64_t stride = step;  // not read anew behind every store
    float* to = v + c;
    transform_input<Scheme>(part, d, c, [&](auto value) HWY_ATTR {
      part.store(value, to);
      to += stride;
    });
  });
}

#if HWY_TARGET == HWY_AVX3
template <class Scheme>
void winograd_input_bf16(const float* const* d, int64_t channels, float* v, int64_t step) {
  const WholeVector<hn::ScalableTag<float>> part{};
  const int64_t stride = step;  // not read anew behind every store
  for (int64_t c = 0; c < channels; c += 16) {
    float* to = v + c / 2;
    transform_input<Scheme>(part, d, c, [&](auto value) HWY_ATTR {
      store_bf16(value, to);
      to += stride;
    });
  }
}
#endif

template <class Scheme>
bool winograd_output(const float* m, int64_t step, const float* bias, int64_t channels, float lo, float hi,
                     float* const* y) {
  constexpr int kTile = Scheme::kTile, kSide = kTile + 2;
  bool finite = true;
  each_vector(channels, [&](auto part, int64_t c) HWY_ATTR {
    using V = typename decltype(part)::V;
    V zero = hn::Zero(part.d);  // stays, as long as all results are finite
    const V vlo = hn::Set(part.d, lo), vhi = hn::Set(part.d, hi), addend = part.load(bias + c);
    float* const* const to = y;  // not read anew behind every store
    const float* const from = m + c;
    const int64_t stride = step;
    V t[kSide][kTile];  // columns of A'm
#pragma GCC unroll 6
    for (int j = 0; j < kSide; ++j) {
      V column[kSide];
#pragma GCC unroll 6
      for (int i = 0; i < kSide; ++i) column[i] = part.load(from + (i * kSide + j) * stride);
      Scheme::output(part.d, column, t[j]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < kTile; ++i) {
      V row[kSide], made[kTile];
#pragma GCC unroll 6
      for (int j = 0; j < kSide; ++j) row[j] = t[j][i];
      Scheme::output(part.d, row, made);
#pragma GCC unroll 4
      for (int j = 0; j < kTile; ++j) {
        const V value = hn::Add(made[j], addend);
        zero = hn::MulAdd(value, hn::Zero(part.d), zero);
        if (float* pixel = to[i * kTile + j]) part.store(clamp(value, vlo, vhi), pixel + c);
      }
    }
    finite = finite && hn::AllTrue(part.d, hn::Eq(zero, hn::Zero(part.d)));
  });
  return finite;
}

/// Row `kRow` of the positions of winograd_few for one vector of output channels. ahead: two lines for each channel.
template <class Scheme, int kRow>
void few_products(const float* g, int64_t tap, int64_t channels, int64_t width, const float* v, bool begins, float* m,
                  int64_t m_step, const float* ahead, int64_t ahead_step) {
  constexpr int kSide = Scheme::kTile + 2;
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  V sums[kSide][kFewTiles];
  m += kRow * kSide * m_step;
#pragma GCC unroll 6
  for (int j = 0; j < kSide; ++j)
#pragma GCC unroll 4
    for (int t = 0; t < kFewTiles; ++t) sums[j][t] = begins ? hn::Zero(d) : hn::Load(d, m + j * m_step + t * width);
  const float* tile = v + kRow * kSide * kFewTiles * kFewChannels;
  for (int64_t k = 0; k < channels; ++k, g += width, ++tile, ahead += ahead_step) {
    __builtin_prefetch(ahead, 0, 2);
    __builtin_prefetch(ahead + 16, 0, 2);
    V row[3], made[kSide];
#pragma GCC unroll 3
    for (int j = 0; j < 3; ++j) {
      const V column[3] = {hn::Load(d, g + j * tap), hn::Load(d, g + (3 + j) * tap), hn::Load(d, g + (6 + j) * tap)};
      V all[kSide];
      Scheme::filter(d, column, all);
      row[j] = all[kRow];
    }
    Scheme::filter(d, row, made);
#pragma GCC unroll 6
    for (int j = 0; j < kSide; ++j)
#pragma GCC unroll 4
      for (int t = 0; t < kFewTiles; ++t)
        sums[j][t] = hn::MulAdd(hn::Set(d, tile[(j * kFewTiles + t) * kFewChannels]), made[j], sums[j][t]);
  }
#pragma GCC unroll 6
  for (int j = 0; j < kSide; ++j)
#pragma GCC unroll 4
    for (int t = 0; t < kFewTiles; ++t) hn::Store(sums[j][t], d, m + j * m_step + t * width);
}

template <class Scheme>
void winograd_few(const float* g, int64_t tap, int64_t channels, int64_t width, const float* v, bool begins, float* m,
                  int64_t m_step, const float* ahead) {
  constexpr int64_t kLanes = HWY_MAX_BYTES / 4;
  int64_t taps = ahead ? 9 : 0;  // that are left to ask for
  for (int64_t o = 0; o < width; o += kLanes) {
    const auto row = [&](auto index) HWY_ATTR {
      const bool fetches = taps > 0;
      few_products<Scheme, decltype(index)::value>(g + o, tap, channels, width, v, begins, m + o, m_step,
                                                   fetches ? ahead + --taps * tap : g, fetches ? width : 0);
    };
    row(std::integral_constant<int, 0>());
    row(std::integral_constant<int, 1>());
    row(std::integral_constant<int, 2>());
    row(std::integral_constant<int, 3>());
    row(std::integral_constant<int, 4>());
    row(std::integral_constant<int, 5>());
  }
}

float winograd_dot(const float* x, const float* y, int64_t n) {
  float sum = 0;
  each_vector(n, [&](auto part, int64_t i) HWY_ATTR {
    const auto product = hn::Mul(part.load(x + i), part.load(y + i));
    sum += hn::GetLane(hn::SumOfLanes(part.d, product));
  });
  return sum;
}

template <class Scheme>
WinogradTransforms winograd_transforms() {
  return {Scheme::kTile, winograd_filter<Scheme>, winograd_input<Scheme>, winograd_output<Scheme>, nullptr,
          winograd_dot};
}
WinogradTransforms make_winograd_2x2() { return winograd_transforms<Winograd2>(); }
#if HWY_TARGET == HWY_AVX3
WinogradTransforms make_winograd_2x2_bf16() {
  WinogradTransforms made = make_winograd_2x2();
  made.input = winograd_input_bf16<Winograd2>;
  return made;
}
#endif
WinogradTransforms make_winograd_4x4() {
  WinogradTransforms made = winograd_transforms<Winograd4>();
#if HWY_MAX_BYTES >= 64 || HWY_ARCH_ARM_A64  // of 32 registers
  made.few = winograd_few<Winograd4>;
#endif
  return made;
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {

const WinogradTransforms& winograd_2x2_f32(Isa isa) {
  return of_level(isa, [](Isa level) { return SMELT_FOR_LEVEL(level, make_winograd_2x2)(); });
}

#if defined(__x86_64__)
const WinogradTransforms& winograd_2x2_bf16(Isa isa) {
  return of_level(isa, [](Isa) { return N_AVX3::make_winograd_2x2_bf16(); });
}
#else
const WinogradTransforms& winograd_2x2_bf16(Isa isa) { return winograd_2x2_f32(isa); }  // kBf16 is of x86
#endif

const WinogradTransforms& winograd_4x4_f32(Isa isa) {
  return of_level(isa, [](Isa level) { return SMELT_FOR_LEVEL(level, make_winograd_4x4)(); });
}

}  // namespace smelt
#endif
