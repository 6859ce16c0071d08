// TFLite's softmax of 8-bit values. The sums of several rows are inverted together, a vector of them at a time: equal
// to Softmax8::group bit by bit.
#include <algorithm>
#include <bit>
#include <limits>

#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/softmax/softmax_i8.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

#include "backends/cpu/core/fixed_point-inl.h"
#include "backends/cpu/core/kernel.h"
#include "ops/softmax/softmax_quantized.h"
#include "tensor/numeric.h"

#ifndef SMELT_CPU_SOFTMAX_I8
#define SMELT_CPU_SOFTMAX_I8
namespace smelt {
/// Vector loops of the target.
struct Softmax8Loops {
  void (*invert)(int32_t* values, int64_t n);
  void (*to_i8)(const int32_t* exps, int64_t n, int32_t inverse, int exponent, int8_t* y);
  void (*to_u8)(const int32_t* exps, int64_t n, int32_t inverse, int exponent, uint8_t* y);
  void (*to_i16)(const int32_t* exps, int64_t n, int32_t inverse, int exponent, int16_t* y);
};
}  // namespace smelt
#endif

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// fixed_one_over_one_plus() of n values, whole vectors of them.
void one_over_one_plus(int32_t* values, int64_t n) {
  const DI d;
  for (int64_t i = 0; i < n; i += static_cast<int64_t>(hn::Lanes(d))) {
    const VI half = hn::Add(hn::ShiftRight<1>(hn::LoadU(d, values + i)), hn::Set(d, 1 << 30));
    VI x = hn::Add(hn::Set(d, 1515870810), high_mul(half, hn::Set(d, -1010580540)));  // 48/17 - 32/17 x in Q2
    for (int step = 0; step < 3; ++step)
      x = hn::Add(x, hn::ShiftLeft<2>(high_mul(x, hn::Sub(hn::Set(d, 1 << 29), high_mul(half, x)))));
    const VI most = hn::Set(d, std::numeric_limits<int32_t>::max());
    hn::StoreU(hn::IfThenElse(hn::Gt(x, hn::ShiftRight<1>(most)), most, hn::Add(x, x)), d, values + i);
  }
}

/// y[i] = min(((inverse * max(exps[i], 0) + 2^30) >> 31 + 2^exponent / 2) >> exponent, highest - lowest) + lowest of
/// Out. exps: whole vectors of them.
template <class Out>
void scale_exps(const int32_t* exps, int64_t n, int32_t inverse, int exponent, Out* y) {
  const DI d;
  const hn::RebindToUnsigned<DI> du;
  constexpr int64_t kLow = std::numeric_limits<Out>::min(), kHigh = std::numeric_limits<Out>::max();
  const VI factor = hn::Set(d, inverse), low = hn::Set(d, static_cast<int32_t>(kLow));
  const auto half = hn::Set(du, uint32_t{1} << exponent >> 1), most = hn::Set(du, static_cast<uint32_t>(kHigh - kLow));
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < n; i += lanes) {
    // No factor is negative but the exponential that stands for none.
    const VI product = high_mul(hn::Max(hn::LoadU(d, exps + i), hn::Zero(d)), factor);
    const auto shifted = hn::ShiftRightSame(hn::Add(hn::BitCast(du, product), half), exponent);
    store_narrow(hn::Add(hn::BitCast(d, hn::Min(shifted, most)), low), std::min(lanes, n - i), y + i);
  }
}

Softmax8Loops softmax8_loops() {
  return {one_over_one_plus, scale_exps<int8_t>, scale_exps<uint8_t>, scale_exps<int16_t>};
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {
namespace {

template <class In, class Out>
class SoftmaxI8 final : public Kernel {
 public:
  SoftmaxI8(const Softmax8& rule, const AxisView& view, Isa isa)
      : rule_(rule), v_(view), loops_(SMELT_FOR_LEVEL(isa, softmax8_loops)()) {}
  Status run(KernelContext& ctx) const override {
    const In* x = ctx.input(0).data<In>();
    Out* y = ctx.output(0).data<Out>();
    const int64_t groups = v_.outer * v_.inner;
    ctx.threads().parallel_for((groups + kBatch - 1) / kBatch, 8, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b)
        (v_.inner == 1 ? &SoftmaxI8::batch<true> : &SoftmaxI8::batch<false>)(*this, x, y, b * kBatch,
                                                                             std::min(kBatch, groups - b * kBatch));
    });
    return Ok();
  }

 private:
  static constexpr int64_t kBatch = 16;
  static constexpr int kSumBits = 12;
  static constexpr int64_t kChunk = 512;
  static constexpr int64_t kVectorRow = 16;  ///< shorter rows are sooner scaled one by one
  void scale(const int32_t* exps, int64_t n, int32_t inverse, int exponent, Out* y) const {
    if constexpr (sizeof(Out) == 2)
      loops_.to_i16(exps, n, inverse, exponent, y);
    else if constexpr (std::numeric_limits<Out>::is_signed)
      loops_.to_i8(exps, n, inverse, exponent, y);
    else
      loops_.to_u8(exps, n, inverse, exponent, y);
  }
  template <bool kDense>
  static void batch(const SoftmaxI8& self, const In* x, Out* y, int64_t first, int64_t count) {
    const int64_t extent = self.v_.extent, inner = kDense ? 1 : self.v_.inner;
    const int32_t* const exps = self.rule_.exps().data();
    const uint32_t* const parts = self.rule_.parts().data();
    const auto start = [&](int64_t group) { return group / inner * extent * inner + group % inner; };
    int32_t largest[kBatch], exponents[kBatch];
    alignas(64) int32_t inverses[kBatch] = {};
    for (int64_t i = 0; i < count; ++i) {
      const In* from = x + start(first + i);
      int32_t most = std::numeric_limits<In>::min();
      for (int64_t k = 0; k < extent; ++k) most = std::max<int32_t>(most, from[k * inner]);
      uint32_t sum = 0;
      for (int64_t k = 0; k < extent; ++k) sum += parts[most - from[k * inner]];
      sum = std::clamp<uint32_t>(sum, 1, INT32_MAX);
      const int zeros = std::countl_zero(sum);
      largest[i] = most;
      inverses[i] = static_cast<int32_t>((sum << zeros) - (uint32_t{1} << 31));
      exponents[i] = std::clamp(kSumBits - zeros + 31 - static_cast<int>(sizeof(Out) * 8), 0, 31);
    }
    self.loops_.invert(inverses, kBatch);
    constexpr int64_t kLow = std::numeric_limits<Out>::min(), kHigh = std::numeric_limits<Out>::max();
    for (int64_t i = 0; i < count; ++i) {
      const In* from = x + start(first + i);
      Out* to = y + start(first + i);
      const int64_t inverse = inverses[i], half = int64_t{1} << exponents[i] >> 1;
      const int32_t most = largest[i];
      const int exponent = exponents[i];
      if (kDense && extent >= kVectorRow) {
        alignas(64) int32_t gathered[kChunk];
        for (int64_t k = 0; k < extent; k += kChunk) {
          const int64_t here = std::min(kChunk, extent - k);
          for (int64_t j = 0; j < here; ++j) gathered[j] = exps[most - from[k + j]];
          self.scale(gathered, here, inverses[i], exponent, to + k);
        }
        continue;
      }
      for (int64_t k = 0; k < extent; ++k) {
        // No factor is negative but the exponential that stands for none.
        const int64_t product = (inverse * std::max(exps[most - from[k * inner]], 0) + (1 << 30)) >> 31;
        to[k * inner] = static_cast<Out>(std::min(((product + half) >> exponent) + kLow, kHigh));
      }
    }
  }

  Softmax8 rule_;
  AxisView v_;
  Softmax8Loops loops_;
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_softmax_i8(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<SoftmaxAttrs>();
  const ValueType &x = spec.inputs[0], &y = spec.outputs[0];
  if (!is_softmax8(attrs, x, y) || x.shape.elements() == 0) return nullptr;
  const auto axis = normalize_axis(attrs.axis, x.shape.rank());
  if (!axis.ok()) return nullptr;
  const AxisView view = axis_view(x.shape, *axis);
  const Softmax8 rule(attrs.beta, x.quant->scale());
  if (y.dtype == DType::kI16) {
    if (x.dtype == DType::kI8) return std::make_unique<SoftmaxI8<int8_t, int16_t>>(rule, view, spec.isa);
    return std::make_unique<SoftmaxI8<uint8_t, int16_t>>(rule, view, spec.isa);
  }
  if (x.dtype != y.dtype) return nullptr;
  if (x.dtype == DType::kI8) return std::make_unique<SoftmaxI8<int8_t, int8_t>>(rule, view, spec.isa);
  return std::make_unique<SoftmaxI8<uint8_t, uint8_t>>(rule, view, spec.isa);
}

}  // namespace smelt
#endif
