// Softmax of 8-bit values in real numbers (ONNX Runtime's QLinearSoftmax, XNNPACK): the same float32 operations in the
// same order as the reference kernel, so that the integers are equal.
#include <algorithm>
#include <cmath>

#include "backends/cpu/core/kernel.h"
#include "backends/cpu/quantize/dynamic_quant.h"
#include "ops/common/index.h"
#include "ops/common/quantized_pair.h"
#include "ops/softmax/softmax.h"
#include "tensor/quant_params.h"

namespace smelt {
namespace {

class SoftmaxDequantized final : public Kernel {
 public:
  SoftmaxDequantized(const AxisView& view, const KernelSpec& spec)
      : v_(view),
        beta_(static_cast<float>(spec.attrs<SoftmaxAttrs>().beta)),
        flip_(spec.inputs[0].dtype == DType::kI8 ? 128 : 0),
        to_(quant_rule(spec.outputs[0])),
        ops_(dynamic_quant_ops(spec.isa)) {
    const Quantization& q = *spec.inputs[0].quant;
    for (int i = 0; i < kValues; ++i) values_[i] = q.scale() * static_cast<float>(i - flip_ - q.zero_point());
  }
  Status run(KernelContext& ctx) const override {
    const auto* x = ctx.input(0).data<uint8_t>();
    auto* y = ctx.output(0).data<uint8_t>();
    const int64_t groups = v_.outer * v_.inner;
    ctx.threads().parallel_for(groups, std::max<int64_t>(1, 4096 / v_.extent), [&](int64_t begin, int64_t end) {
      if (v_.extent <= kNarrow) return narrow(x, y, begin, end);
      for (int64_t g = begin; g < end; ++g) group(x + start(g), y + start(g));
    });
    return Ok();
  }

 private:
  static constexpr int kValues = 256, kNarrow = 16;
  int64_t start(int64_t group) const { return group / v_.inner * v_.extent * v_.inner + group % v_.inner; }
  /// Position of a stored value among all in ascending order.
  int rank(uint8_t stored) const { return static_cast<uint8_t>(stored ^ flip_); }
  float exponential(int rank, float largest) const { return std::exp((values_[rank] - largest) * beta_); }
  /// Groups of few elements: one call quantizes many of them.
  void narrow(const uint8_t* x, uint8_t* y, int64_t begin, int64_t end) const {
    const int64_t n = v_.extent, step = v_.inner;
    float exps[kValues] = {};
    uint8_t results[kValues];
    for (int64_t next = begin; next < end;) {
      const int64_t first = next;
      int64_t filled = 0;
      for (; next < end && filled + n <= kValues; ++next, filled += n) {
        const uint8_t* from = x + start(next);
        int most = 0;
        for (int64_t i = 0; i < n; ++i) most = std::max(most, rank(from[i * step]));
        double sum = 0;
        for (int64_t i = 0; i < n; ++i) sum += exps[filled + i] = exponential(rank(from[i * step]), values_[most]);
        const auto inverse = static_cast<float>(1.0 / sum);
        for (int64_t i = 0; i < n; ++i) exps[filled + i] *= inverse;
      }
      ops_.quantize(exps, filled, to_, results);
      for (int64_t g = first; g < next; ++g)
        for (int64_t i = 0; i < n; ++i) y[start(g) + i * step] = results[(g - first) * n + i];
    }
  }
  void group(const uint8_t* x, uint8_t* y) const {
    const int64_t n = v_.extent, step = v_.inner;
    int most = 0, least = kValues - 1;
    for (int64_t i = 0; i < n; ++i) {
      most = std::max(most, rank(x[i * step]));
      least = std::min(least, rank(x[i * step]));
    }
    // The exponentials of all elements, or of all values between the smallest and the largest, whichever are fewer.
    float exps[kValues] = {};
    uint8_t results[kValues];
    const bool by_element = n <= most - least;
    const float largest = values_[most];
    const int64_t count = by_element ? n : most - least + 1;
    for (int64_t i = 0; i < count; ++i)
      exps[i] = exponential(by_element ? rank(x[i * step]) : least + static_cast<int>(i), largest);
    const auto at = [&](int64_t i) { return by_element ? i : rank(x[i * step]) - least; };
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += exps[at(i)];
    const auto inverse = static_cast<float>(1.0 / sum);
    for (int64_t i = 0; i < count; ++i) exps[i] *= inverse;
    ops_.quantize(exps, count, to_, results);
    for (int64_t i = 0; i < n; ++i) y[i * step] = results[at(i)];
  }

  AxisView v_;
  float beta_;
  int flip_;
  QuantRule to_;
  const DynamicQuantOps& ops_;
  float values_[kValues] = {};  ///< real numbers by rank
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_softmax_dequantized(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<SoftmaxAttrs>();
  const ValueType &x = spec.inputs[0], &y = spec.outputs[0];
  if (attrs.kind != SoftmaxAttrs::Kind::kSoftmax || attrs.rounding != Rounding::kFloatHalfEven)
    return spec.refuse("another function, or fixed-point rounding");
  if (!is_per_tensor(x.quant) || !is_per_tensor(y.quant) || !std::isnormal(x.quant->scale()) ||
      !std::isnormal(y.quant->scale()) || !(attrs.beta > 0))
    return spec.refuse("an operand has not one scale");
  const int rank = x.shape.rank();
  if (rank == 0 || x.shape.elements() == 0) return spec.refuse("no dimension");
  const auto axis = normalize_axis(attrs.axis, rank);
  if (!axis.ok()) return nullptr;
  AxisView view = axis_view(x.shape, *axis);
  if (attrs.flatten) view = {product(x.shape, 0, *axis), product(x.shape, *axis, rank), 1};
  return std::make_unique<SoftmaxDequantized>(view, spec);
}

}  // namespace smelt
