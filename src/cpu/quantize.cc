#include <algorithm>
#include <cmath>

#include "cpu/kernel.h"
#include "cpu/row_quant.h"
#include "ops/elementwise/dynamic_range.h"
#include "ops/elementwise/elementwise.h"
#include "tensor/numeric.h"
#include "tensor/one_grid.h"

namespace smelt {
namespace {

class QuantizeF32 final : public Kernel {
 public:
  QuantizeF32(const Grid& grid, int64_t n, Isa isa) : grid_(grid), n_(n), ops_(row_quant(isa)) {}
  Status run(KernelContext& ctx) const override {
    const float* x = ctx.input(0).data<float>();
    auto* y = ctx.output(0).data<uint8_t>();
    const int64_t bytes = grid_.wide ? 2 : 1;
    ctx.threads().parallel_for(
        n_, 16384, [&](int64_t begin, int64_t end) { ops_.to_grid(x + begin, end - begin, grid_, y + begin * bytes); });
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

bool float_to_shorts(const KernelSpec& spec) {
  const DType y = spec.outputs[0].dtype;
  return spec.inputs[0].dtype == DType::kF32 && !spec.inputs[0].quant && (y == DType::kI16 || y == DType::kU16);
}

std::unique_ptr<Kernel> quantizer(const KernelSpec& spec, Grid grid) {
  const DType y = spec.outputs[0].dtype;
  grid.is_signed = y == DType::kI8 || y == DType::kI16;
  grid.wide = y == DType::kI16 || y == DType::kU16;
  if (!(std::isfinite(grid.scale) && grid.scale > 0) || std::abs(grid.zero) > (1 << 20)) return nullptr;
  return std::make_unique<QuantizeF32>(grid, spec.inputs[0].shape.elements(), spec.isa);
}

/// Chooses the grid of the values (of each row), then quantizes them.
class DynamicQuantizeF32 final : public Kernel {
 public:
  DynamicQuantizeF32(const DynamicQuantizeAttrs& a, const Grid& grid, int64_t rows, int64_t n, Isa isa)
      : a_(a), grid_(grid), rows_(rows), n_(n), ops_(row_quant(isa)) {}
  Status run(KernelContext& ctx) const override {
    const float* x = ctx.input(0).data<float>();
    for (int64_t r = 0; r < rows_; ++r, x += n_) {
      const DynamicRange range = choose(x);
      Grid grid = grid_;
      grid.scale = range.inverse != 0 ? range.inverse : range.scale;
      grid.factor = range.inverse != 0;
      grid.zero = static_cast<int32_t>(range.zero_point);
      if (ctx.wants(0)) ops_.to_grid(x, n_, grid, ctx.output(0).data<uint8_t>() + r * n_);
      if (ctx.wants(1)) set_double(ctx.output(1), r, range.scale);
      if (ctx.wants(2)) set_int(ctx.output(2), r, range.zero_point);
    }
    return Ok();
  }

 private:
  DynamicRange choose(const float* x) const {
    float ends[2] = {};
    int64_t n = 2;
    ops_.range(x, n_, ends, ends + 1);
    const float* from = ends;
    if (std::isnan(ends[0]) || std::isnan(ends[1])) {
      from = x;
      n = n_;
    }
    if (a_.symmetric) return symmetric_range(from, n, grid_.high, a_.eps);
    return (a_.xnnpack_rule ? balanced_range : asymmetric_range)(from, n, grid_.low, grid_.high, a_.eps);
  }

  DynamicQuantizeAttrs a_;
  Grid grid_;
  int64_t rows_, n_;
  const RowQuant& ops_;
};

}  // namespace

std::unique_ptr<Kernel> make_dynamic_quantize_f32(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<DynamicQuantizeAttrs>();
  const Shape& x = spec.inputs[0].shape;
  if (!float_to_bytes(spec) || x.elements() == 0) return nullptr;
  const bool ranged = attrs.quant_min != attrs.quant_max;
  Grid grid;
  grid.is_signed = attrs.to == DType::kI8;
  grid.low = static_cast<int32_t>(ranged ? attrs.quant_min : int_min(attrs.to));
  grid.high = static_cast<int32_t>(ranged ? attrs.quant_max : int_max(attrs.to));
  if (grid.low < int_min(attrs.to) || grid.high > int_max(attrs.to) || grid.low >= grid.high) return nullptr;
  const int64_t n = attrs.per_row && x.rank() > 0 ? x.back() : x.elements();
  return std::make_unique<DynamicQuantizeF32>(attrs, grid, x.elements() / n, n, spec.isa);
}

std::unique_ptr<Kernel> make_quantize_f32(const KernelSpec& spec) {
  const QuantPtr& q = spec.outputs[0].quant;
  if ((!float_to_bytes(spec) && !float_to_shorts(spec)) || !on_one_grid(q)) return nullptr;
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
  if (!float_to_bytes(spec) && !float_to_shorts(spec)) return nullptr;
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
