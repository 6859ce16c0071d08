#include "backends/vulkan/conv/conv.h"

#include "backends/vulkan/core/activation.h"
#include "backends/vulkan/core/type_checks.h"
#include "backends/vulkan/device/device.h"
#include "backends/vulkan/gemm/cooperative_matrix.h"
#include "backends/vulkan/gemm/int64_accumulators.h"
#include "backends/vulkan/gemm/integer_dot_product.h"
#include "backends/vulkan/gemm/packed.h"
#include "backends/vulkan/gemm/quantized_gemm.h"
#include "backends/vulkan/quantize/dynamic_quantize.h"
#include "shaders/conv.h"

namespace smelt::vulkan {
namespace {

/// A convolution, direct or transposed, as conv.comp runs it.
struct ConvPlan {
  ConvShape shape;
  const ConvAttrs& attrs;
  bool transposed = false, inputs_first = false;  ///< inputs_first: so the filter's dimensions lie
  Tiling tiling = {};
  Grid grid = {};

  shaders::ConvGeometry geometry() const {
    const ConvShape& s = shape;
    shaders::ConvGeometry g{};
    for (int d = 0; d < 3; ++d) {
      g.x_size[d] = i32(s.in[d]);
      g.y_size[d] = i32(s.out[d]);
      g.kernel[d] = i32(s.kernel[d]);
      g.stride[d] = i32(s.stride[d]);
      g.dilation[d] = i32(s.dilation[d]);
      g.pad[d] = i32(s.pad[d]);
    }
    g.filter_g = i32(inputs_first ? s.c_in * s.filter_i : s.c_out * s.filter_o);
    g.filter_o = i32(s.filter_o);
    g.filter_i = i32(s.filter_i);
    g.filter_s = i32(s.filter_s);
    g.c_in = i32(s.c_in);
    g.c_out = i32(s.c_out);
    g.groups = i32(s.groups);
    g.channels_last = s.channels_last ? 1 : 0;
    return g;
  }
  /// The specialization constants that all variants have.
  template <class Constants>
  Constants constants() const {
    Constants c;
    c.width = tiling.width;
    c.tile = tiling.tile;
    c.pixels = tiling.lanes;
    return c;
  }
  template <class Interface>
  shaders::Variant<Interface> variant(shaders::Variant<Interface> direct, shaders::Variant<Interface> turned) const {
    return transposed ? turned : direct;
  }
};

/// True if coordinates fit in 32 bits and loops in kMaxLoopIterations.
bool within_limits(const ConvShape& s) {
  for (int d = 0; d < 3; ++d)
    if (s.dilation[d] > INT32_MAX / (s.kernel[d] + 1) / 4 || s.stride[d] > INT32_MAX / (s.out[d] + 1) / 4 ||
        s.pad[d] > INT32_MAX / 4 || s.pad[d] < -(INT32_MAX / 4))
      return false;
  return s.taps() * (s.c_in + 1) <= kMaxLoopIterations;
}

/// Chooses tiling and dispatch grid: pixels, output channels, batch and groups. Nullopt for what the shader or a
/// dispatch cannot have.
std::optional<ConvPlan> with_tiling(const Device& device, ConvPlan plan) {
  const ConvShape& s = plan.shape;
  if (!within_limits(s)) return std::nullopt;
  plan.tiling = choose_tiling(device, s.out_pixels(), s.c_out);
  const auto grid = gemm_grid(plan.tiling, s.out_pixels(), s.c_out, s.batch * s.groups);
  if (!grid) return std::nullopt;
  plan.grid = *grid;
  return plan;
}

std::optional<ConvPlan> direct_plan(const KernelSpec& spec, bool bias = true) {
  const auto shape = ConvShape::make(spec, bias);
  return shape ? with_tiling(spec.device, {*shape, spec.attrs<ConvAttrs>()}) : std::nullopt;
}

std::optional<ConvPlan> transposed_plan(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<ConvTransposeAttrs>();
  const auto shape = transposed_shape(spec);
  return shape ? with_tiling(spec.device, {*shape, attrs, true, attrs.filter == FilterLayout::kIOS}) : std::nullopt;
}

std::unique_ptr<Kernel> make_float(const KernelSpec& spec, const std::optional<ConvPlan>& plan) {
  const bool fp16 = spec.outputs[0].dtype == DType::kF16;
  FloatOperand x, filter, bias;
  if (!plan || !make_float_operand(spec, 0, x) || x.fp16 != fp16 || (x.constant && fp16)) return nullptr;
  if (!(fp16 ? make_float_operand : make_f32_operand)(spec, 1, filter)) return nullptr;
  if (!x.fits(spec.device) || !filter.fits(spec.device)) return nullptr;
  const bool has_bias = spec.has(2);
  if (has_bias && !make_f32_operand(spec, 2, bias)) return nullptr;
  if (spec.fp16) round_to_fp16(spec, filter);
  const auto shader =
      spec.fp16 && filter.fp16
          ? (fp16 ? plan->variant(shaders::conv_fp16_multiply_f16, shaders::conv_transpose_fp16_multiply_f16)
                  : plan->variant(shaders::conv_fp16_multiply_f32, shaders::conv_transpose_fp16_multiply_f32))
      : !fp16       ? plan->variant(shaders::conv_f32, shaders::conv_transpose_f32)
      : filter.fp16 ? plan->variant(shaders::conv_f16, shaders::conv_transpose_f16)
                    : plan->variant(shaders::conv_f16_f32, shaders::conv_transpose_f16_f32);
  auto constants = plan->constants<shaders::Conv::Constants>();
  constants.bias = has_bias;
  return shader_kernel(shader, constants, {float_arg(x), float_arg(filter), float_arg(has_bias ? bias : x), output(0)},
                       plan->grid, {.geometry = plan->geometry(), .act = gpu_activation(plan->attrs.act)});
}

/// True if the filter's scales are those of the output channels. Transposed filters of several groups share theirs
/// between groups: only one scale for all is supported.
bool scales_fit(const ConvPlan& plan, const ValueType& filter) {
  return !plan.inputs_first || plan.shape.groups == 1 || filter.quant->scales.size() == 1;
}

std::unique_ptr<Kernel> make_quantized(const KernelSpec& spec, const std::optional<ConvPlan>& plan) {
  const ValueType& filter = spec.inputs[1];
  if (!plan || !spec.device.stores(filter.dtype) || !scales_fit(*plan, filter)) return nullptr;
  const auto product = QuantizedGemm::make(spec, filter_output_axis(plan->attrs, filter.shape.rank()),
                                           plan->shape.all_out(), plan->attrs.rescale_rule());
  const auto w_zero = product ? product->w_zero() : std::nullopt;
  if (!w_zero) return nullptr;
  const auto shader = product->pair.x_signed   ? plan->variant(shaders::conv_i8, shaders::conv_transpose_i8)
                      : product->pair.w_signed ? plan->variant(shaders::conv_u8_i8, shaders::conv_transpose_u8_i8)
                                               : plan->variant(shaders::conv_u8, shaders::conv_transpose_u8);
  auto constants = plan->constants<shaders::ConvQuantized::Constants>();
  constants.bias = true;
  constants.rounding = product->rounding();
  return shader_kernel(shader, constants, {input(0), input(1), product->table_arg(), output(0)}, plan->grid,
                       {.geometry = plan->geometry(), .requantization = product->push(product->pair.x_zero, *w_zero)});
}

/// int16 images and 8-bit filters with int64 accumulators.
std::unique_ptr<Kernel> make_int16(const KernelSpec& spec, const std::optional<ConvPlan>& plan) {
  const ValueType& w = spec.inputs[1];
  if (!plan || !spec.device.stores(w.dtype) || !scales_fit(*plan, w)) return nullptr;
  if (w.quant->kind == Quantization::Kind::kPerAxis && w.quant->axis != filter_output_axis(plan->attrs, w.shape.rank()))
    return nullptr;
  const ConvShape& s = plan->shape;
  const auto accumulators =
      Int64Accumulators::make(spec, s.all_out(), s.channels_last ? 1 : s.out_pixels(), plan->attrs.rescale_rule());
  if (!accumulators) return nullptr;
  auto product = shader_kernel(
      plan->variant(shaders::conv_int64_i16, shaders::conv_transpose_int64_i16),
      plan->constants<shaders::ConvInt64::Constants>(), {input(0), input(1), input(1), accumulators->arg()}, plan->grid,
      {.geometry = plan->geometry(), .x_zero = accumulators->x_zero(), .w_zero = accumulators->w_zero()});
  return accumulators->behind(std::move(product));
}

}  // namespace

std::optional<ConvShape> transposed_shape(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<ConvTransposeAttrs>();
  const Shape &x = spec.inputs[0].shape, &w = spec.inputs[1].shape, &y = spec.outputs[0].shape;
  if (attrs.dynamic_quant || y.rank() < 3) return std::nullopt;
  std::vector<int64_t> sizes = attrs.output_shape;
  if (spec.has(3)) {
    const int first = spatial_dim(attrs.layout);
    sizes.assign(y.begin() + first, y.begin() + first + (y.rank() - 2));
  }
  const auto g = conv_transpose_geometry(attrs, x, w, sizes);
  if (!g.ok() || g->output_shape(attrs.layout) != y) return std::nullopt;
  if (spec.has(2) && spec.inputs[2].shape.elements() != g->out_channels) return std::nullopt;
  return ConvShape::of(*g, attrs, w);
}

std::unique_ptr<Kernel> make_conv_i8(const KernelSpec& spec) { return make_quantized(spec, direct_plan(spec)); }
std::unique_ptr<Kernel> make_conv_transpose_i8(const KernelSpec& spec) {
  return make_quantized(spec, transposed_plan(spec));
}
std::unique_ptr<Kernel> make_conv_i16(const KernelSpec& spec) { return make_int16(spec, direct_plan(spec)); }
std::unique_ptr<Kernel> make_conv_transpose_i16(const KernelSpec& spec) {
  return make_int16(spec, transposed_plan(spec));
}
std::unique_ptr<Kernel> make_conv_float(const KernelSpec& spec) {
  return spec.attrs<ConvAttrs>().dynamic_quant ? nullptr : make_float(spec, direct_plan(spec));
}
std::unique_ptr<Kernel> make_conv_transpose_float(const KernelSpec& spec) {
  return make_float(spec, transposed_plan(spec));
}

std::unique_ptr<Kernel> make_conv_integer(const KernelSpec& spec) {
  const ValueType &x = spec.inputs[0], &filter = spec.inputs[1];
  if (!is_int8(spec, x) || !is_int8(spec, filter)) return nullptr;
  const auto plan = direct_plan(spec, false);
  if (!plan) return nullptr;
  const auto x_zero = zero_points(spec, 2, x.dtype, 1);
  const auto w_zeros = zero_points(spec, 3, filter.dtype, plan->shape.all_out());
  if (x_zero == ZeroPoints::kUnsupported || w_zeros == ZeroPoints::kUnsupported) return nullptr;
  const bool x_signed = x.dtype == DType::kI8, w_signed = filter.dtype == DType::kI8;
  auto constants = plan->constants<shaders::ConvInteger::Constants>();
  constants.input_zero = x_zero != ZeroPoints::kNone;
  constants.filter_zeros = static_cast<uint32_t>(w_zeros);
  return shader_kernel(
      w_signed ? (x_signed ? shaders::conv_integer_i8 : shaders::conv_integer_u8_i8)
               : (x_signed ? shaders::conv_integer_i8_u8 : shaders::conv_integer_u8),
      constants,
      {input(0), input(1), input(w_zeros == ZeroPoints::kNone ? 1 : 3), output(0), input(constants.input_zero ? 2 : 0)},
      plan->grid, {.geometry = plan->geometry()});
}

std::unique_ptr<Kernel> make_conv_cooperative_matrix(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<ConvAttrs>();
  return attrs.dynamic_quant ? nullptr : cooperative_matrix_kernel(spec, conv_2d_shape(spec), attrs.act);
}

std::unique_ptr<Kernel> make_conv_i8_dot_product(const KernelSpec& spec) {
  const auto s = conv_2d_shape(spec);
  return s ? dot_product_kernel(spec, s, exact_quantized_gemm(spec, *s)) : nullptr;
}

std::unique_ptr<Kernel> make_conv_integer_dot_product(const KernelSpec& spec) {
  return dot_product_accumulators(spec, conv_2d_shape(spec, false));
}

std::unique_ptr<Kernel> make_conv_dynamic_quant_dot_product(const KernelSpec& spec) {
  ConvAttrs a = spec.attrs<ConvAttrs>();
  if (!a.dynamic_quant) return nullptr;
  a.dynamic_quant = false;
  const Node node = with_attrs(spec.node, make_attrs<ConvAttrs>(a));
  return dot_product_dynamic_quant(spec.part({node, spec.inputs, spec.constants, spec.outputs}), a.asymmetric_inputs);
}

}  // namespace smelt::vulkan
