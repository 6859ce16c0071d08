// 8-bit integers without quantization parameters by separable weights, in float64 and in the order of the reference
// kernel: the results, which are truncated, are equal.
#include <algorithm>
#include <cmath>
#include <vector>

#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/resize/resize_bytes.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

#include "backends/cpu/core/kernel.h"
#include "backends/cpu/resize/resize_passes.h"
#include "ops/resize/resize.h"

#ifndef SMELT_CPU_RESIZE_BYTES
#define SMELT_CPU_RESIZE_BYTES
namespace smelt {
struct ByteResizeOps {
  /// to[j] = sum over t < taps of weight[t] * from[index[t] * n + j], j < n, term by term.
  void (*weight_rows)(const double* from, const int64_t* index, const double* weight, int64_t taps, int64_t n,
                      double* to);
  /// n numbers clamped to the type, rounded to even or truncated.
  void (*to_bytes)(const double* from, int64_t n, bool is_signed, bool round, uint8_t* to);
};
}  // namespace smelt
#endif

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<double>;

void weight_rows_f64(const double* from, const int64_t* index, const double* weight, int64_t taps, int64_t n,
                     double* to) {
  const auto step = [&](auto d, int64_t j) HWY_ATTR {
    auto sum = hn::Mul(hn::Set(d, weight[0]), hn::LoadU(d, from + index[0] * n + j));
    for (int64_t t = 1; t < taps; ++t)
      sum = hn::Add(sum, hn::Mul(hn::Set(d, weight[t]), hn::LoadU(d, from + index[t] * n + j)));
    hn::StoreU(sum, d, to + j);
  };
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t j = 0;
  for (; j + lanes <= n; j += lanes) step(d, j);
  for (; j < n; ++j) step(hn::CappedTag<double, 1>(), j);
}

void doubles_to_bytes(const double* from, int64_t n, bool is_signed, bool round, uint8_t* to) {
  const double low = is_signed ? -128 : 0, high = is_signed ? 127 : 255;
  const auto step = [&](auto d, int64_t i) HWY_ATTR {
    const hn::Rebind<int32_t, decltype(d)> d32;
    auto v = hn::Min(hn::Max(hn::LoadU(d, from + i), hn::Set(d, low)), hn::Set(d, high));
    if (round) v = hn::Round(v);
    const auto wide = hn::DemoteTo(d32, v);
    if (is_signed) {
      const hn::Rebind<int8_t, decltype(d)> d8;
      hn::StoreU(hn::DemoteTo(d8, wide), d8, reinterpret_cast<int8_t*>(to) + i);
    } else {
      const hn::Rebind<uint8_t, decltype(d)> d8;
      hn::StoreU(hn::DemoteTo(d8, wide), d8, to + i);
    }
  };
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) step(d, i);
  for (; i < n; ++i) step(hn::CappedTag<double, 1>(), i);
}

ByteResizeOps byte_resize_ops() { return {weight_rows_f64, doubles_to_bytes}; }

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {
namespace {

class ResizeBytes final : public Kernel {
 public:
  ResizeBytes(std::vector<ResizePass<double>> passes, const KernelSpec& spec)
      : passes_(std::move(passes)),
        ops_(SMELT_FOR_LEVEL(spec.isa, byte_resize_ops)()),
        elements_(spec.inputs[0].shape.elements()),
        most_(elements_),
        signed_(spec.inputs[0].dtype == DType::kI8),
        round_(spec.attrs<ResizeAttrs>().antialias) {
    for (const auto& p : passes_) most_ = std::max(most_, p.outer * p.out * p.inner);
  }
  size_t scratch_bytes() const override { return static_cast<size_t>(2 * most_) * sizeof(double); }
  Status run(KernelContext& ctx) const override {
    auto* from = static_cast<double*>(ctx.scratch(scratch_bytes()));
    if (!from) return Error(ErrorCode::kLimit, "no memory to resize");
    double* to = from + most_;
    if (signed_)
      std::copy_n(ctx.input(0).data<int8_t>(), elements_, from);
    else
      std::copy_n(ctx.input(0).data<uint8_t>(), elements_, from);
    for (const auto& p : passes_) {
      const int64_t grain = std::max<int64_t>(1, 8192 / p.inner);
      ctx.threads().parallel_for(p.outer * p.out, grain,
                                 [&](int64_t first, int64_t last) { pass(p, from, first, last, to); });
      std::swap(from, to);
    }
    const int64_t n = ctx.output(0).elements();
    ctx.threads().parallel_for(n, 16384, [&](int64_t first, int64_t last) {
      ops_.to_bytes(from + first, last - first, signed_, round_, ctx.output(0).data<uint8_t>() + first);
    });
    return Ok();
  }

 private:
  /// Output places [first, last), counted over all of outer.
  void pass(const ResizePass<double>& p, const double* from, int64_t first, int64_t last, double* to) const {
    for (int64_t at = first; at < last; ++at) {
      const auto i = static_cast<size_t>(at % p.out);
      const int64_t b = p.begin[i];
      ops_.weight_rows(from + at / p.out * p.in * p.inner, p.index.data() + b, p.weight.data() + b, p.begin[i + 1] - b,
                       p.inner, to + at * p.inner);
    }
  }

  std::vector<ResizePass<double>> passes_;
  ByteResizeOps ops_;
  int64_t elements_, most_;
  bool signed_, round_;
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_resize_bytes(const KernelSpec& spec) {
  const auto& a = spec.attrs<ResizeAttrs>();
  if (spec.inputs[0].dtype != spec.outputs[0].dtype || a.mode == ResizeAttrs::Mode::kNearest || a.tflite)
    return spec.refuse("nearest neighbours, or arithmetic of a format");
  auto passes = resize_passes<double>(spec);
  if (!passes) return spec.refuse("sizes that are not known, or coordinates outside the image");
  return std::make_unique<ResizeBytes>(std::move(*passes), spec);
}

}  // namespace smelt
#endif
