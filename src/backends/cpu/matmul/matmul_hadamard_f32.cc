// Rows times Sylvester's Hadamard matrix, whose entry (i, j) is s * (-1)^(number of bits that i and j share).
// Quantizers rotate what a matrix reads by it, which takes outliers away. A row of n takes n log2(n) additions in place
// of n^2 products: sums and differences of what lies 1, 2, 4 ... apart (the fast Walsh-Hadamard transform).
#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/matmul/matmul_hadamard_f32.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

#include "backends/cpu/core/constant_key.h"
#include "backends/cpu/core/epilogue.h"
#include "backends/cpu/core/kernel.h"
#include "ops/common/activated.h"
#include "ops/matmul/matmul_shape.h"

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, 16>;

/// Lanes kApart apart change places.
template <int kApart>
HWY_INLINE hn::Vec<Floats> swapped(hn::Vec<Floats> v) {
  if constexpr (kApart == 1) return hn::Shuffle2301(v);
  if constexpr (kApart == 2) return hn::Shuffle1032(v);
  if constexpr (kApart == 4) return hn::SwapAdjacentBlocks(v);
  if constexpr (kApart == 8) return hn::ConcatLowerUpper(Floats(), v, v);
}

/// Lanes kApart apart become their sum, the lower one, and their difference.
template <int kApart>
HWY_INLINE hn::Vec<Floats> sum_and_difference(hn::Vec<Floats> v) {
  if constexpr (kApart < static_cast<int>(hn::MaxLanes(Floats()))) {
    const Floats d;
    const hn::RebindToUnsigned<Floats> bits;
    const auto upper = hn::And(hn::Iota(bits, 0), hn::Set(bits, kApart));
    const auto sign = hn::ShiftLeft<31 - std::countr_zero(static_cast<unsigned>(kApart))>(upper);
    return hn::Add(swapped<kApart>(v), hn::Xor(v, hn::BitCast(d, sign)));
  } else {
    return v;
  }
}

/// y = (scale * x) times the matrix of ones and minus ones + bias. n: a power of two, at least 16. y may be x.
void hadamard_row(const float* x, int64_t n, float scale, const float* bias, float* y) {
  const Floats d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto factor = hn::Set(d, scale);
  for (int64_t i = 0; i < n; i += lanes) {
    auto v = sum_and_difference<2>(sum_and_difference<1>(hn::Mul(hn::LoadU(d, x + i), factor)));
    v = sum_and_difference<8>(sum_and_difference<4>(v));
    hn::StoreU(v, d, y + i);
  }
  int64_t apart = lanes;
  for (; 4 * apart <= n; apart *= 4)  // two steps at once
    for (int64_t block = 0; block < n; block += 4 * apart)
      for (float* p = y + block; p < y + block + apart; p += lanes) {
        const auto v0 = hn::LoadU(d, p), v1 = hn::LoadU(d, p + apart), v2 = hn::LoadU(d, p + 2 * apart),
                   v3 = hn::LoadU(d, p + 3 * apart);
        const auto s0 = hn::Add(v0, v1), d0 = hn::Sub(v0, v1), s1 = hn::Add(v2, v3), d1 = hn::Sub(v2, v3);
        hn::StoreU(hn::Add(s0, s1), d, p);
        hn::StoreU(hn::Add(d0, d1), d, p + apart);
        hn::StoreU(hn::Sub(s0, s1), d, p + 2 * apart);
        hn::StoreU(hn::Sub(d0, d1), d, p + 3 * apart);
      }
  for (int64_t i = 0; apart < n && i < apart; i += lanes) {
    const auto v0 = hn::LoadU(d, y + i), v1 = hn::LoadU(d, y + apart + i);
    hn::StoreU(hn::Add(v0, v1), d, y + i);
    hn::StoreU(hn::Sub(v0, v1), d, y + apart + i);
  }
  for (int64_t i = 0; bias && i < n; i += lanes)
    hn::StoreU(hn::Add(hn::LoadU(d, y + i), hn::LoadU(d, bias + i)), d, y + i);
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {
namespace {

constexpr int64_t kLeast = 16, kMost = 1 << 15;

struct HadamardKey {
  ConstantKey b;
  int64_t n;
  auto operator<=>(const HadamardKey&) const = default;
};

/// s, where a constant [n, n] is Sylvester's matrix times s; else 0.
float scale_of_hadamard(const Tensor& b, int64_t n) {
  std::vector<uint32_t> row(static_cast<size_t>(n)), expected(row.size());
  for (int64_t i = 0; i < n; ++i) {
    b.copy_elements(i * n, n, row.data());
    if (i == 0) expected[0] = row[0];
    for (int64_t bit = 1; bit < n; bit *= 2) {
      const uint32_t flip = (i & bit) != 0 ? 0x80000000 : 0;
      for (int64_t j = 0; j < bit; ++j)
        expected[static_cast<size_t>(bit + j)] = expected[static_cast<size_t>(j)] ^ flip;
    }
    if (row != expected) return 0;
  }
  const auto scale = std::bit_cast<float>(expected[0]);
  return std::isfinite(scale) ? scale : 0;
}

/// scale_of_hadamard(), looked for once among the nodes that share b.
float shared_scale(const KernelSpec& spec, const Tensor& b, int64_t n) {
  if (spec.packs.mode() == PackCache::Mode::kDry) return scale_of_hadamard(b, n);
  const Packed scale = spec.packs.get(HadamardKey{ConstantKey(b), n}, [&] {
    auto packed = std::make_shared<AlignedBuffer>(sizeof(float));
    *packed->data<float>() = scale_of_hadamard(b, n);
    return packed;
  });
  return *scale->data<float>();
}

class HadamardF32 final : public Kernel {
 public:
  HadamardF32(const KernelSpec& spec, const MatMulShape& s, float scale)
      : m_(s.m),
        n_(s.n),
        scale_(scale),
        has_bias_(spec.has(2)),
        act_(spec.attrs<MatMulAttrs>().act),
        row_(SMELT_FOR_LEVEL(spec.isa, hadamard_row)),
        fixed_shapes_(spec.fixed_shapes) {}
  bool take_epilogue(const EpilogueF32& epilogue) override {
    return (m_ != 1 || fixed_shapes_) && clamps(act_) && epilogue_.take(epilogue);
  }
  Status run(KernelContext& ctx) const override {
    constexpr int64_t kGrain = 16384;  // elements
    const auto* x = ctx.input(0).data<float>();
    const float* const bias = has_bias_ ? ctx.input(2).data<float>() : nullptr;
    auto* y = ctx.output(0).data<float>();
    const EpilogueRun epilogue(epilogue_, ctx);
    ctx.threads().parallel_for(m_, std::max<int64_t>(1, kGrain / n_), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        float* const to = y + r * n_;
        row_(x + r * n_, n_, scale_, bias, to);
        activate_all(act_, n_, to);
        if (epilogue) epilogue(to, 1, n_, n_);
      }
    });
    return Ok();
  }

 private:
  int64_t m_, n_;
  float scale_;
  bool has_bias_;
  Activation act_;
  EpilogueF32 epilogue_;
  void (*row_)(const float* x, int64_t n, float scale, const float* bias, float* y);
  bool fixed_shapes_;
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_matmul_hadamard_f32(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<MatMulAttrs>();
  const auto s = MatMulShape::make(spec);
  if (!s || s->n != s->k || s->n < kLeast || s->n > kMost || !std::has_single_bit(static_cast<uint64_t>(s->n)))
    return nullptr;
  const Tensor& b = *spec.constant(1);
  float begin[2];
  b.copy_elements(0, 2, begin);
  if (b.elements() != s->n * s->n || begin[0] == 0 || begin[0] != begin[1]) return nullptr;
  if (s->batches != 1 || s->g.a.column_stride != 1 || (s->m > 1 && s->g.a.row_stride != s->k))
    return spec.refuse("rows of a do not lie one behind the other");
  if (spec.has(2) && (attrs.beta != 1 || !s->is_row(spec.inputs[2].shape))) return spec.refuse("c is no row");
  const float scale = shared_scale(spec, b, s->n);
  if (scale == 0) return nullptr;
  return std::make_unique<HadamardF32>(spec, *s, scale * static_cast<float>(attrs.alpha));
}

}  // namespace smelt
#endif
