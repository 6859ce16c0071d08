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

/// Chooses the grid of some values, then quantizes them.
struct RangedGrid {
  enum class Rule : uint8_t { kSymmetric, kAsymmetric, kBalanced };
  Rule rule = Rule::kAsymmetric;
  Grid grid;  ///< but for scale and zero point
  double eps = 0;
  const RowQuant& ops;

  DynamicRange choose(const float* x, int64_t n) const {
    float ends[2] = {};
    const float* from = ends;
    ops.range(x, n, ends, ends + 1);
    if (std::isnan(ends[0]) || std::isnan(ends[1]))
      from = x;
    else
      n = 2;
    if (rule == Rule::kSymmetric) return symmetric_range(from, n, grid.high, eps);
    return (rule == Rule::kBalanced ? balanced_range : asymmetric_range)(from, n, grid.low, grid.high, eps);
  }
  void quantize(const float* x, int64_t n, const DynamicRange& range, uint8_t* y) const {
    Grid chosen = grid;
    chosen.scale = range.inverse != 0 ? range.inverse : range.scale;
    chosen.factor = range.inverse != 0;
    chosen.zero = static_cast<int32_t>(range.zero_point);
    ops.to_grid(x, n, chosen, y);
  }
};

/// Scale and zero point are outputs.
class DynamicQuantizeF32 final : public Kernel {
 public:
  DynamicQuantizeF32(const RangedGrid& grid, int64_t rows, int64_t n) : grid_(grid), rows_(rows), n_(n) {}
  Status run(KernelContext& ctx) const override {
    const float* x = ctx.input(0).data<float>();
    for (int64_t r = 0; r < rows_; ++r, x += n_) {
      const DynamicRange range = grid_.choose(x, n_);
      if (ctx.wants(0)) grid_.quantize(x, n_, range, ctx.output(0).data<uint8_t>() + r * n_);
      if (ctx.wants(1)) set_double(ctx.output(1), r, range.scale);
      if (ctx.wants(2)) set_int(ctx.output(2), r, range.zero_point);
    }
    return Ok();
  }

 private:
  RangedGrid grid_;
  int64_t rows_, n_;
};

/// Scales and zero points become the quantization of the output.
class QuantizeRowsF32 final : public Kernel {
 public:
  QuantizeRowsF32(const RangedGrid& grid, int64_t rows, int64_t n) : grid_(grid), rows_(rows), n_(n) {}
  Status run(KernelContext& ctx) const override {
    Tensor& y = ctx.output(0);
    if (!y.quant()) return Error(ErrorCode::kInternal, "a dynamic operand has no quantization");
    auto* to = y.data<uint8_t>();
    const auto grids = own_quantization(y);
    const float* x = ctx.input(0).data<float>();
    ctx.threads().parallel_for(rows_, std::max<int64_t>(1, 16384 / n_), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const DynamicRange range = grid_.choose(x + r * n_, n_);
        grids->scales[static_cast<size_t>(r)] = range.scale;
        grids->zero_points[static_cast<size_t>(r)] = static_cast<int32_t>(range.zero_point);
        grid_.quantize(x + r * n_, n_, range, to + r * n_);
      }
    });
    y.set_quant(grids);
    return Ok();
  }

 private:
  /// Room for a row's parameters: what y carries from the run before where nobody else holds it, else new.
  std::shared_ptr<Quantization> own_quantization(Tensor& y) const {
    QuantPtr held = y.quant();
    y.set_quant(nullptr);
    const auto rows = static_cast<size_t>(rows_);
    std::shared_ptr<Quantization> own;
    if (held.use_count() == 1 && held->scales.size() == rows && held->zero_points.size() == rows)
      own = std::const_pointer_cast<Quantization>(held);
    else
      own = std::make_shared<Quantization>(*held);
    own->scales.resize(rows);
    own->zero_points.resize(rows);
    return own;
  }

  RangedGrid grid_;
  int64_t rows_, n_;
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
  using Rule = RangedGrid::Rule;
  const Rule rule = attrs.symmetric ? Rule::kSymmetric : attrs.xnnpack_rule ? Rule::kBalanced : Rule::kAsymmetric;
  return std::make_unique<DynamicQuantizeF32>(RangedGrid{rule, grid, attrs.eps, row_quant(spec.isa)}, x.elements() / n,
                                              n);
}

std::unique_ptr<Kernel> make_quantize_rows_f32(const KernelSpec& spec) {
  const QuantPtr& q = spec.outputs[0].quant;
  const Shape& x = spec.inputs[0].shape;
  if (!float_to_bytes(spec) || !q || q->kind != Quantization::Kind::kDynamicRow || x.elements() == 0) return nullptr;
  Grid grid;
  grid.is_signed = spec.outputs[0].dtype == DType::kI8;
  grid.low = static_cast<int32_t>(int_min(spec.outputs[0].dtype));
  grid.high = static_cast<int32_t>(int_max(spec.outputs[0].dtype));
  int64_t n = 1;
  for (int i = std::max(0, x.rank() - q->axis); i < x.rank(); ++i) n *= x[i];
  const auto rule = q->symmetric ? RangedGrid::Rule::kSymmetric : RangedGrid::Rule::kBalanced;
  return std::make_unique<QuantizeRowsF32>(RangedGrid{rule, grid, 0, row_quant(spec.isa)}, x.elements() / n, n);
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
