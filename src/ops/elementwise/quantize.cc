// Quantize, Dequantize (parameters in the types) and QuantizeLinear, DequantizeLinear (parameters as tensors).
#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/common/dynamic_quant.h"
#include "ops/common/fixed_point.h"
#include "ops/common/index.h"
#include "ops/common/infer.h"
#include "ops/common/quantized_pair.h"
#include "ops/common/real.h"
#include "ops/core/op.h"
#include "ops/elementwise/dynamic_range.h"
#include "ops/elementwise/elementwise.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

bool fixed_point(const Tensor& t) { return t.quant()->rounding != Rounding::kFloatHalfEven; }
bool per_tensor(const Tensor& t) { return t.quant()->scales.size() == 1; }

/// TFLite's requantization of integers.
void requantize(const Tensor& x, Tensor& y) {
  const Quantization &p = *x.quant(), &q = *y.quant();
  const FixedFactor factor = fixed_factor(static_cast<double>(p.scale()) / static_cast<double>(q.scale()));
  const int64_t lo = int_min(y.dtype()), hi = int_max(y.dtype());
  for (int64_t i = 0; i < x.elements(); ++i) {
    const auto v = static_cast<int32_t>(get_int(x, i) - p.zero_point());
    set_int(y, i, std::clamp<int64_t>(int64_t{rescale_double(v, factor)} + q.zero_point(), lo, hi));
  }
}

/// One scale and zero point for each slice of the last `axis` dimensions; the result carries them. Fixed-point
/// rounding: by TFLite's rule for hybrid operators, int8.
Status quantize_rows(const Tensor& x, Tensor& y) {
  Quantization q = *y.quant();
  const int inner = std::clamp(q.axis, 0, x.rank());
  const int64_t length = product(x.shape(), x.rank() - inner, x.rank());
  const int64_t rows = product(x.shape(), 0, x.rank() - inner);
  const std::vector<float> v = to_real_vector(x);
  q.scales.assign(static_cast<size_t>(rows), 1.0f);
  q.zero_points.assign(static_cast<size_t>(rows), 0);
  const int64_t lo = int_min(y.dtype()), hi = int_max(y.dtype());
  const bool tflite_rule = fixed_point(y) && y.dtype() == DType::kI8;
  for (int64_t r = 0; r < rows; ++r) {
    const float* row = v.data() + r * length;
    if (tflite_rule) {
      const QuantParams params = quantize_row(row, length, !q.symmetric, y.data<int8_t>() + r * length);
      q.scales[static_cast<size_t>(r)] = params.scale;
      q.zero_points[static_cast<size_t>(r)] = params.zero_point;
      continue;
    }
    const DynamicRange range =
        q.symmetric ? symmetric_range(row, length, hi, 0) : balanced_range(row, length, lo, hi, 0);
    q.scales[static_cast<size_t>(r)] = range.scale;
    q.zero_points[static_cast<size_t>(r)] = static_cast<int32_t>(range.zero_point);
    for (int64_t i = 0; i < length; ++i) set_int(y, r * length + i, range.quantize(row[i], lo, hi));
  }
  y.set_quant(std::make_shared<const Quantization>(std::move(q)));
  return Ok();
}

/// True if blocks along the axis have a scale each. A scale of rank 1 is one for each place on the axis elsewhere.
bool has_blocks(const QuantizeLinearAttrs& attrs, const Shape& x, const Shape& scale) {
  return scale.rank() > 1 || (attrs.block > 0 && x.rank() == 1);
}
/// Entries along the axis that share a scale, of `extent` entries and `scales` of these.
int64_t block_of(const QuantizeLinearAttrs& attrs, int64_t extent, int64_t scales) {
  const int64_t block = attrs.block > 0 ? attrs.block : scales > 0 ? (extent + scales - 1) / scales : 1;
  return std::clamp<int64_t>(block, 1, std::max<int64_t>(extent, 1));
}

/// Refuses scales and zero points that do not fit a tensor, dimensions of which may be unknown.
Status check_parameters(const QuantizeLinearAttrs& attrs, const Shape& x, const Shape& scale, const Shape* zero_point) {
  const int64_t n = scale.elements();
  if (zero_point && zero_point->elements() != n && zero_point->elements() != 1)
    return InvalidInput("zero point has ", zero_point->elements(), " elements, the scale has ", n);
  if (n == 1) return Ok();
  if (x.rank() == 0) return InvalidInput("a scalar has one scale, not ", n);
  SMELT_ASSIGN(const int axis, normalize_axis(attrs.axis, x.rank()));
  const int64_t extent = x[axis];
  if (!has_blocks(attrs, x, scale)) {
    if (n != extent && extent >= 0)
      return InvalidInput("scale has ", n, " elements, dimension ", axis, " of ", x.str(), " expected");
    return Ok();
  }
  if (scale.rank() != x.rank()) return InvalidInput("scale of shape ", scale.str(), " does not fit ", x.str());
  const int64_t block = block_of(attrs, extent, scale[axis]);
  for (int d = 0; d < x.rank(); ++d)
    if (x[d] >= 0 && scale[d] != (d == axis ? (extent + block - 1) / block : x[d]))
      return InvalidInput("scale of shape ", scale.str(), " does not fit blocks of ", block, " in ", x.str());
  return Ok();
}
/// The same of a node, as far as its shapes are known.
Status check_parameters(const InferContext& ctx) {
  const Tensor *scale = ctx.constant(1), *zero_point = ctx.has(2) ? ctx.constant(2) : nullptr;
  if (!ctx.input(0).ranked || !scale) return Ok();
  return check_parameters(ctx.attrs<QuantizeLinearAttrs>(), ctx.input(0).shape, scale->shape(),
                          zero_point ? &zero_point->shape() : nullptr);
}

/// Index of the parameters of each element for QuantizeLinear and DequantizeLinear.
class Parameters {
 public:
  static Result<Parameters> make(const QuantizeLinearAttrs& attrs, const Tensor& x, const Tensor& scale,
                                 const Tensor* zero_point) {
    Parameters p;
    SMELT_TRY(check_parameters(attrs, x.shape(), scale.shape(), zero_point ? &zero_point->shape() : nullptr));
    if (scale.elements() == 1) return p;
    SMELT_ASSIGN(const int axis, normalize_axis(attrs.axis, x.rank()));
    const AxisView v = axis_view(x.shape(), axis);
    p.extent_ = std::max<int64_t>(v.extent, 1);
    p.inner_ = std::max<int64_t>(v.inner, 1);
    p.kind_ = has_blocks(attrs, x.shape(), scale.shape()) ? Kind::kBlock : Kind::kAxis;
    if (p.kind_ == Kind::kAxis) return p;
    p.blocks_ = scale.dim(axis);
    p.block_ = block_of(attrs, v.extent, p.blocks_);
    return p;
  }
  /// Elements that have the parameters of the first one: those of each multiple of this number.
  int64_t run() const { return kind_ == Kind::kTensor ? INT64_MAX : kind_ == Kind::kAxis ? inner_ : 1; }
  int64_t at(int64_t i) const {
    if (kind_ == Kind::kTensor) return 0;
    const int64_t a = (i / inner_) % extent_;
    if (kind_ == Kind::kAxis) return a;
    return ((i / (inner_ * extent_)) * blocks_ + a / block_) * inner_ + i % inner_;
  }

 private:
  enum class Kind { kTensor, kAxis, kBlock } kind_ = Kind::kTensor;
  int64_t inner_ = 1, extent_ = 1, blocks_ = 1, block_ = 1;
};

int64_t zero_point_at(const Tensor* zero_point, int64_t p) {
  if (!zero_point || is_float(zero_point->dtype())) return 0;
  return get_int(*zero_point, zero_point->elements() == 1 ? 0 : p);
}

/// By runs of elements of x with the same parameters: the first and the end, the scale and the zero point.
template <class Each>
void by_run(const Parameters& parameters, int64_t elements, const Tensor& scale, const Tensor* zero_point,
            const Each& each) {
  for (int64_t i = 0, end = 0; i < elements; i = end) {
    end = i + std::min(parameters.run(), elements - i);
    const int64_t p = parameters.at(i);
    each(i, end, static_cast<float>(get_double(scale, p)), zero_point_at(zero_point, p));
  }
}

}  // namespace

Status infer_Quantize(InferContext& ctx) {
  const ValueType& want = ctx.declared(0);
  if (want.dtype == DType::kInvalid || !want.quant)
    return InvalidModel("the output declares no quantization, scale and zero point expected");
  ValueType type = ctx.input(0);
  type.dtype = want.dtype;
  type.quant = want.quant;
  ctx.set(0, std::move(type));
  return Ok();
}

Status reference_Quantize(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  Tensor& y = ctx.output(0);
  if (!y.quant()) return InvalidModel("the output declares no quantization");
  if (y.quant()->kind == Quantization::Kind::kPerToken) return quantize_rows(x, y);
  if (is_quantized(x) && per_tensor(x) && per_tensor(y) && (fixed_point(x) || fixed_point(y))) {
    requantize(x, y);
    return Ok();
  }
  const std::vector<float> v = to_real_vector(x);
  store_real(v.data(), y);
  return Ok();
}

Status infer_Dequantize(InferContext& ctx) {
  const DType want = ctx.declared(0).dtype;
  return same_shape(ctx, want == DType::kInvalid ? DType::kF32 : want);
}

Status reference_Dequantize(KernelContext& ctx) {
  const std::vector<float> v = to_real_vector(ctx.input(0));
  from_floats(v.data(), ctx.output(0));
  return Ok();
}

Status infer_QuantizeLinear(InferContext& ctx) {
  SMELT_TRY(check_parameters(ctx));
  return same_shape(ctx,
                    ctx.has(2) && ctx.input(2).dtype != DType::kInvalid && !ctx.attrs<QuantizeLinearAttrs>().fixed_to
                        ? ctx.input(2).dtype
                        : ctx.attrs<QuantizeLinearAttrs>().to);
}

Status reference_QuantizeLinear(KernelContext& ctx) {
  const auto& attrs = ctx.attrs<QuantizeLinearAttrs>();
  const Tensor &x = ctx.input(0), &scale = ctx.input(1);
  const Tensor* zero_point = ctx.has(2) ? &ctx.input(2) : nullptr;
  Tensor& y = ctx.output(0);
  SMELT_ASSIGN(const Parameters parameters, Parameters::make(attrs, x, scale, zero_point));
  const bool ranged = attrs.quant_min != attrs.quant_max;
  const auto lo = static_cast<double>(ranged ? attrs.quant_min : int_min(y.dtype()));
  const auto hi = static_cast<double>(ranged ? attrs.quant_max : int_max(y.dtype()));
  by_run(parameters, x.elements(), scale, zero_point, [&](int64_t begin, int64_t end, float s, int64_t zero) {
    const auto scaled = [&](float v) { return attrs.reciprocal ? v * (1.0f / s) : v / s; };
    const auto integer = [&](float v) {
      const double r = std::nearbyint(scaled(v)) + static_cast<double>(zero);
      return r != r ? 0 : static_cast<int64_t>(std::clamp(r, lo, hi));
    };
    if (x.dtype() == DType::kF32 && is_8bit(y.dtype())) {
      for (int64_t i = begin; i < end; ++i) y.data<uint8_t>()[i] = static_cast<uint8_t>(integer(x.data<float>()[i]));
      return;
    }
    for (int64_t i = begin; i < end; ++i) {
      const auto v = static_cast<float>(get_double(x, i));
      if (!is_float(y.dtype())) {
        set_int(y, i, integer(v));
        continue;
      }
      const float narrowed = scaled(v) + 0.0f;  // the zero point of float types; makes minus zero plus zero
      if (bit_width(y.dtype()) == 8)
        y.data<uint8_t>()[i] = f32_to_narrow(y.dtype(), narrowed, attrs.saturate);
      else
        set_double(y, i, narrowed);
    }
  });
  return Ok();
}

Status infer_DequantizeLinear(InferContext& ctx) {
  SMELT_TRY(check_parameters(ctx));
  return same_shape(ctx, ctx.attrs<QuantizeLinearAttrs>().to);
}

Status reference_DequantizeLinear(KernelContext& ctx) {
  const auto& attrs = ctx.attrs<QuantizeLinearAttrs>();
  const Tensor &x = ctx.input(0), &scale = ctx.input(1);
  const Tensor* zero_point = ctx.has(2) ? &ctx.input(2) : nullptr;
  Tensor& y = ctx.output(0);
  SMELT_ASSIGN(const Parameters parameters, Parameters::make(attrs, x, scale, zero_point));
  by_run(parameters, x.elements(), scale, zero_point, [&](int64_t begin, int64_t end, float s, int64_t zero) {
    const auto real = [&](int64_t integer) { return static_cast<float>(integer - zero) * s; };
    if (is_8bit(x.dtype()) && y.dtype() == DType::kF32) {
      const uint8_t flip = x.dtype() == DType::kI8 ? 128 : 0;
      for (int64_t i = begin; i < end; ++i) y.data<float>()[i] = real((x.data<uint8_t>()[i] ^ flip) - flip);
      return;
    }
    for (int64_t i = begin; i < end; ++i)
      set_double(y, i, is_float(x.dtype()) ? static_cast<float>(get_double(x, i)) * s : real(get_int(x, i)));
  });
  return Ok();
}

}  // namespace smelt
