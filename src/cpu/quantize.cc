#include <algorithm>
#include <cmath>

#include "cpu/kernel.h"
#include "cpu/row_quant.h"
#include "ops/elementwise/elementwise.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

class QuantizeF32 final : public Kernel {
 public:
  QuantizeF32(const Grid& grid, int64_t n, Isa isa) : grid_(grid), n_(n), ops_(row_quant(isa)) {}
  Status run(KernelContext& ctx) const override {
    const float* x = ctx.input(0).data<float>();
    auto* y = ctx.output(0).data<uint8_t>();
    ctx.threads().parallel_for(
        n_, 16384, [&](int64_t begin, int64_t end) { ops_.to_grid(x + begin, end - begin, grid_, y + begin); });
    return Ok();
  }

 private:
  Grid grid_;
  int64_t n_;
  const RowQuant& ops_;
};

bool float_to_bytes(const KernelSpec& spec) {
  const DType y = spec.outputs[0].dtype;
  return spec.inputs[0].dtype == DType::kF32 && !spec.inputs[0].quant && (y == DType::kI8 || y == DType::kU8);
}

std::unique_ptr<Kernel> quantizer(const KernelSpec& spec, Grid grid) {
  const DType y = spec.outputs[0].dtype;
  grid.is_signed = y == DType::kI8;
  if (!(std::isfinite(grid.scale) && grid.scale > 0) || std::abs(grid.zero) > (1 << 20)) return nullptr;
  return std::make_unique<QuantizeF32>(grid, spec.inputs[0].shape.elements(), spec.isa);
}

}  // namespace

std::unique_ptr<Kernel> make_quantize_f32(const KernelSpec& spec) {
  const QuantPtr& q = spec.outputs[0].quant;
  if (!float_to_bytes(spec) || !q || q->kind != Quantization::Kind::kPerTensor || q->scales.size() != 1) return nullptr;
  Grid grid;
  grid.scale = q->scale();
  grid.zero = q->zero_point();
  grid.low = static_cast<int32_t>(int_min(spec.outputs[0].dtype));
  grid.high = static_cast<int32_t>(int_max(spec.outputs[0].dtype));
  grid.away = q->rounding != Rounding::kFloatHalfEven;
  return quantizer(spec, grid);
}

std::unique_ptr<Kernel> make_quantize_linear_f32(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<QuantizeLinearAttrs>();
  if (!float_to_bytes(spec)) return nullptr;
  for (size_t i = 1; i < spec.inputs.size(); ++i)  // one scale and zero point, known now
    if (spec.has(i) && (!spec.constant(i) || spec.constant(i)->elements() != 1)) return nullptr;
  Grid grid;
  grid.scale = static_cast<float>(get_double(*spec.constant(1), 0));
  if (spec.has(2)) grid.zero = static_cast<int32_t>(get_int(*spec.constant(2), 0));
  const bool ranged = attrs.quant_min != attrs.quant_max;
  grid.low = static_cast<int32_t>(ranged ? attrs.quant_min : int_min(spec.outputs[0].dtype));
  grid.high = static_cast<int32_t>(ranged ? attrs.quant_max : int_max(spec.outputs[0].dtype));
  if (grid.low < int_min(spec.outputs[0].dtype) || grid.high > int_max(spec.outputs[0].dtype)) return nullptr;
  grid.reciprocal = attrs.reciprocal;
  return quantizer(spec, grid);
}

}  // namespace smelt
