#include <algorithm>
#include <cmath>

#include "backends/cpu/core/kernel.h"
#include "backends/cpu/quantize/dynamic_quant.h"
#include "ops/common/dynamic_quant.h"
#include "ops/common/quantized_pair.h"
#include "ops/elementwise/dynamic_range.h"
#include "ops/elementwise/elementwise.h"
#include "tensor/numeric.h"
#include "tensor/quant_params.h"

namespace smelt {
namespace {

class QuantizeF32 final : public Kernel {
 public:
  QuantizeF32(const QuantRule& params, int64_t n, Isa isa) : params_(params), n_(n), ops_(dynamic_quant_ops(isa)) {}
  Status run(KernelContext& ctx) const override {
    const float* x = ctx.input(0).data<float>();
    auto* y = ctx.output(0).data<uint8_t>();
    const int64_t bytes = params_.wide ? 2 : 1;
    ctx.threads().parallel_for(n_, 16384, [&](int64_t begin, int64_t end) {
      ops_.quantize(x + begin, end - begin, params_, y + begin * bytes);
    });
    return Ok();
  }

 private:
  QuantRule params_;
  int64_t n_;
  const DynamicQuantOps& ops_;
};

std::unique_ptr<Kernel> quantizer(const KernelSpec& spec, const QuantRule& params) {
  if (!(std::isfinite(params.scale) && params.scale > 0) || std::abs(params.zero) > (1 << 20)) return nullptr;
  return std::make_unique<QuantizeF32>(params, spec.inputs[0].shape.elements(), spec.isa);
}

/// Bounds the entries by a range of the model; equal ends: it has none. False: the type has not all of them.
bool narrow(QuantRule& params, int64_t low, int64_t high) {
  if (low == high) return true;
  if (low < params.low || high > params.high) return false;
  params.low = static_cast<int32_t>(low);
  params.high = static_cast<int32_t>(high);
  return true;
}

/// Chooses the params of some values, then quantizes them.
struct RangedQuantParams {
  enum class Rule : uint8_t { kSymmetric, kAsymmetric, kBalanced };
  Rule rule = Rule::kAsymmetric;
  QuantRule params;  ///< but for scale and zero point
  double eps = 0;
  const DynamicQuantOps& ops;

  static constexpr int64_t kGrain = 32768;  ///< values that are worth a thread

  DynamicRange choose(const float* x, int64_t n) const {
    float ends[2] = {};
    ops.range(x, n, ends, ends + 1);
    return choose(x, n, ends, 2);
  }
  /// By all threads.
  DynamicRange choose(ThreadPool& pool, const float* x, int64_t n) const {
    constexpr int64_t kMost = 64;
    float ends[2 * kMost] = {};
    const int64_t parts = std::clamp<int64_t>(n / kGrain, 1, std::min<int64_t>(pool.threads(), kMost));
    pool.parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        const int64_t first = n * p / parts;
        ops.range(x + first, n * (p + 1) / parts - first, ends + 2 * p, ends + 2 * p + 1);
      }
    });
    return choose(x, n, ends, 2 * parts);
  }
  /// For n values with these smallest and largest ones.
  DynamicRange choose(const float* x, int64_t n, const float* ends, int64_t count) const {
    const bool any_nan = std::ranges::any_of(ends, ends + count, [](float v) { return std::isnan(v); });
    const float* const from = any_nan ? x : ends;
    if (!any_nan) n = count;
    if (rule == Rule::kSymmetric) return symmetric_range(from, n, params.high, eps);
    return (rule == Rule::kBalanced ? balanced_range : asymmetric_range)(from, n, params.low, params.high, eps);
  }
  void quantize(const float* x, int64_t n, const DynamicRange& range, uint8_t* y) const {
    QuantRule chosen = params;
    chosen.scale = range.inverse != 0 ? range.inverse : range.scale;
    chosen.factor = range.inverse != 0;
    chosen.zero = static_cast<int32_t>(range.zero_point);
    ops.quantize(x, n, chosen, y);
  }
};

/// Scale and zero point are outputs.
class DynamicQuantizeF32 final : public Kernel {
 public:
  DynamicQuantizeF32(const RangedQuantParams& params, int64_t rows, int64_t n) : params_(params), rows_(rows), n_(n) {}
  Status run(KernelContext& ctx) const override {
    const float* x = ctx.input(0).data<float>();
    for (int64_t r = 0; r < rows_; ++r, x += n_) {
      const DynamicRange range = params_.choose(ctx.threads(), x, n_);
      if (ctx.wants(0)) {
        auto* const y = ctx.output(0).data<uint8_t>() + r * n_;
        ctx.threads().parallel_for(n_, RangedQuantParams::kGrain, [&](int64_t begin, int64_t end) {
          params_.quantize(x + begin, end - begin, range, y + begin);
        });
      }
      if (ctx.wants(1)) set_double(ctx.output(1), r, range.scale);
      if (ctx.wants(2)) set_int(ctx.output(2), r, range.zero_point);
    }
    return Ok();
  }

 private:
  RangedQuantParams params_;
  int64_t rows_, n_;
};

/// Scales and zero points become the quantization of the output.
class QuantizePerTokenF32 final : public Kernel {
 public:
  QuantizePerTokenF32(const RangedQuantParams& params, bool tflite_rule, int64_t rows, int64_t n)
      : params_(params), tflite_rule_(tflite_rule), rows_(rows), n_(n) {}
  Status run(KernelContext& ctx) const override {
    Tensor& y = ctx.output(0);
    if (!y.quant()) return Error(ErrorCode::kInternal, "a dynamic operand has no quantization");
    auto* to = y.data<uint8_t>();
    const auto params = own_quantization(y);
    const float* x = ctx.input(0).data<float>();
    ctx.threads().parallel_for(rows_, std::max<int64_t>(1, 16384 / n_), [&](int64_t begin, int64_t end) {
      if (tflite_rule_) return quantize_by_tflite(x, begin, end, to, *params);
      for (int64_t r = begin; r < end; ++r) {
        const DynamicRange range = params_.choose(x + r * n_, n_);
        params->scales[static_cast<size_t>(r)] = range.scale;
        params->zero_points[static_cast<size_t>(r)] = static_cast<int32_t>(range.zero_point);
        params_.quantize(x + r * n_, n_, range, to + r * n_);
      }
    });
    y.set_quant(params);
    return Ok();
  }

 private:
  /// Rows [begin, end).
  void quantize_by_tflite(const float* x, int64_t begin, int64_t end, uint8_t* to, Quantization& params) const {
    constexpr int64_t kTogether = 8;
    QuantParams found[kTogether];
    for (int64_t first = begin; first < end; first += kTogether) {
      const int64_t rows = std::min(kTogether, end - first);
      params_.ops.quantize_rows(x + first * n_, rows, n_, !params.symmetric, reinterpret_cast<int8_t*>(to + first * n_),
                                n_, found);
      for (int64_t r = 0; r < rows; ++r) {
        params.scales[static_cast<size_t>(first + r)] = found[r].scale;
        params.zero_points[static_cast<size_t>(first + r)] = found[r].zero_point;
      }
    }
  }

  /// Parameters for the rows to be written to: what y carries from the run before where nobody else holds it, else new
  /// ones. y keeps what it carries.
  std::shared_ptr<Quantization> own_quantization(const Tensor& y) const {
    const QuantPtr& held = y.quant();
    const auto rows = static_cast<size_t>(rows_);
    if (held.use_count() == 1 && held->scales.size() == rows && held->zero_points.size() == rows)
      return std::const_pointer_cast<Quantization>(held);
    auto own = std::make_shared<Quantization>(*held);
    own->scales.resize(rows);
    own->zero_points.resize(rows);
    return own;
  }

  RangedQuantParams params_;
  bool tflite_rule_;  ///< by TFLite's rule (quantize_row)
  int64_t rows_, n_;
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_dynamic_quantize_f32(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<DynamicQuantizeAttrs>();
  const Shape& x = spec.inputs[0].shape;
  if (x.elements() == 0) return nullptr;
  QuantRule params = quant_rule(attrs.to);
  if (!narrow(params, attrs.quant_min, attrs.quant_max) || params.low >= params.high) return nullptr;
  const int64_t n = attrs.per_row && x.rank() > 0 ? x.back() : x.elements();
  using Rule = RangedQuantParams::Rule;
  const Rule rule = attrs.symmetric ? Rule::kSymmetric : attrs.xnnpack_rule ? Rule::kBalanced : Rule::kAsymmetric;
  return std::make_unique<DynamicQuantizeF32>(RangedQuantParams{rule, params, attrs.eps, dynamic_quant_ops(spec.isa)},
                                              x.elements() / n, n);
}

[[gnu::cold]] std::unique_ptr<Kernel> make_quantize_per_token_f32(const KernelSpec& spec) {
  const QuantPtr& q = spec.outputs[0].quant;
  const Shape& x = spec.inputs[0].shape;
  if (q->kind != Quantization::Kind::kPerToken || x.elements() == 0) return nullptr;
  int64_t n = 1;
  for (int i = std::max(0, x.rank() - q->axis); i < x.rank(); ++i) n *= x[i];
  const bool tflite_rule = q->rounding != Rounding::kFloatHalfEven;
  if (tflite_rule && spec.outputs[0].dtype != DType::kI8) return spec.refuse("TFLite's rule gives int8");
  const auto rule = q->symmetric ? RangedQuantParams::Rule::kSymmetric : RangedQuantParams::Rule::kBalanced;
  return std::make_unique<QuantizePerTokenF32>(
      RangedQuantParams{rule, quant_rule(spec.outputs[0].dtype), 0, dynamic_quant_ops(spec.isa)}, tflite_rule,
      x.elements() / n, n);
}

[[gnu::cold]] std::unique_ptr<Kernel> make_quantize_f32(const KernelSpec& spec) {
  if (!is_per_tensor(spec.outputs[0].quant)) return nullptr;
  return quantizer(spec, quant_rule(spec.outputs[0]));
}

[[gnu::cold]] std::unique_ptr<Kernel> make_quantize_linear_f32(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<QuantizeLinearAttrs>();
  if (!has_constant_per_tensor_params(spec)) return nullptr;
  QuantRule params = quant_rule(spec.outputs[0].dtype);
  params.scale = static_cast<float>(get_double(*spec.constant(1), 0));
  if (spec.has(2)) params.zero = static_cast<int32_t>(get_int(*spec.constant(2), 0));
  if (!narrow(params, attrs.quant_min, attrs.quant_max)) return nullptr;
  params.reciprocal = attrs.reciprocal;
  return quantizer(spec, params);
}

}  // namespace smelt
