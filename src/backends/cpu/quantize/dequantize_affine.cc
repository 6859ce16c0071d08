// Dequantization of 8-bit values whose real values are scale * (quantized - zero point) without rounding.
#include <optional>

#include "backends/cpu/core/kernel.h"
#include "backends/cpu/elementwise/lookup_table.h"
#include "backends/cpu/quantize/dynamic_quant.h"
#include "ops/elementwise/elementwise.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

/// The quantization rule whose real values the table holds exactly; nullopt: the table is some other function.
std::optional<QuantRule> affine_rule_of(const Packed& table, bool is_signed) {
  const auto* entries = table->data<float>();
  const auto entry = [&](int quantized) { return entries[static_cast<uint8_t>(quantized)]; };
  QuantRule g;
  g.is_signed = is_signed;
  g.low = is_signed ? -128 : 0;
  g.high = g.low + 255;
  for (g.zero = g.low; g.zero < g.high && entry(g.zero) != 0;) ++g.zero;
  g.scale = g.zero < g.high ? entry(g.zero + 1) : -entry(g.zero - 1);
  for (int i = g.low; i <= g.high; ++i)
    if (entry(i) != g.scale * static_cast<float>(i - g.zero)) return std::nullopt;
  return g;
}

class DequantizeAffine : public Kernel {
 public:
  DequantizeAffine(const QuantRule& params, int64_t n, Isa isa)
      : params_(params), n_(n), ops_(dynamic_quant_ops(isa)) {}
  Status run(KernelContext& ctx) const override { return run(ctx, params_); }

 protected:
  Status run(KernelContext& ctx, const QuantRule& params) const {
    const auto* x = ctx.input(0).data<uint8_t>();
    auto* y = ctx.output(0).data<float>();
    ctx.threads().parallel_for(
        n_, 16384, [&](int64_t begin, int64_t end) { ops_.dequantize(x + begin, end - begin, params, 1, y + begin); });
    return Ok();
  }

  const QuantRule& params() const { return params_; }

 private:
  QuantRule params_;
  int64_t n_;
  const DynamicQuantOps& ops_;
};

/// Scale and zero point are inputs.
class DequantizeAtRunTime final : public DequantizeAffine {
 public:
  using DequantizeAffine::DequantizeAffine;
  Status run(KernelContext& ctx) const override {
    QuantRule rule = params();
    rule.scale = ctx.input(1).data<float>()[0];
    if (ctx.has(2)) rule.zero = static_cast<int32_t>(get_int(ctx.input(2), 0));
    return DequantizeAffine::run(ctx, rule);
  }
};

[[gnu::cold]] std::unique_ptr<Kernel> make_affine(const KernelSpec& spec) {
  const ValueType &x = spec.inputs[0], &y = spec.outputs[0];
  if (!takes_lookup_table(x) || x.shape != y.shape) return nullptr;
  const Packed table = fill_lookup_table(spec, 1);
  const auto params = table ? affine_rule_of(table, x.dtype == DType::kI8) : std::nullopt;
  return params ? std::make_unique<DequantizeAffine>(*params, x.shape.elements(), spec.isa)
                : spec.refuse("the results are no affine function of the values");
}

}  // namespace

std::unique_ptr<Kernel> make_dequantize_affine(const KernelSpec& spec) { return make_affine(spec); }

[[gnu::cold]] std::unique_ptr<Kernel> make_dequantize_linear_affine(const KernelSpec& spec) {
  return has_constant_per_tensor_params(spec) ? make_affine(spec) : nullptr;
}

[[gnu::cold]] std::unique_ptr<Kernel> make_dequantize_linear_affine_run_time(const KernelSpec& spec) {
  const ValueType &x = spec.inputs[0], &scale = spec.inputs[1];
  const bool zero_fits = !spec.has(2) || (spec.inputs[2].dtype == x.dtype && spec.inputs[2].shape.elements() == 1);
  if (spec.attrs<QuantizeLinearAttrs>().block != 0 || scale.dtype != DType::kF32 || scale.shape.elements() != 1 ||
      !zero_fits)
    return nullptr;
  return std::make_unique<DequantizeAtRunTime>(quant_rule(x.dtype), x.shape.elements(), spec.isa);
}

}  // namespace smelt
