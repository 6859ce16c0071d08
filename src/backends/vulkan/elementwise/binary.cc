#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "backends/vulkan/core/activation.h"
#include "backends/vulkan/core/strides.h"
#include "backends/vulkan/core/type_checks.h"
#include "backends/vulkan/decompose/decomposed_kernel.h"
#include "backends/vulkan/device/device.h"
#include "backends/vulkan/gemm/operand.h"
#include "backends/vulkan/layout/texture_kernel.h"
#include "ops/elementwise/binary_fixed.h"
#include "ops/elementwise/elementwise.h"
#include "shaders/binary.h"
#include "shaders/binary_fixed.h"
#include "shaders/binary_float64.h"
#include "shaders/binary_integer.h"
#include "shaders/functions.h"
#include "tensor/numeric.h"
#include "tensor/quant_params.h"

namespace smelt::vulkan {
namespace {

std::optional<Walk<2>> walk_of(const KernelSpec& spec) {
  const Shape& out = spec.outputs[0].shape;
  return Walk<2>::make(out,
                       {broadcast_strides(spec.inputs[0].shape, out), broadcast_strides(spec.inputs[1].shape, out)});
}

/// True if neither operand broadcasts.
bool same_shapes(const KernelSpec& spec) {
  const Shape& out = spec.outputs[0].shape;
  return spec.inputs[0].shape == out && spec.inputs[1].shape == out;
}

/// True if division by 0 is an error and the divisor may contain 0.
bool checks_divisor(const KernelSpec& spec) {
  if (!spec.attrs<BinaryAttrs>().checked_division) return false;
  const Tensor* divisor = spec.constant(1);
  for (int64_t i = 0; divisor && i < divisor->elements(); ++i)
    if (get_int(*divisor, i) == 0) return true;
  return !divisor;
}

/// True for functions that give the same bits on uint64 as on int64.
bool ignores_sign(Binary fn) {
  switch (fn) {
    case Binary::kAdd:
    case Binary::kSub:
    case Binary::kMul:
    case Binary::kBitAnd:
    case Binary::kBitOr:
    case Binary::kBitXor:
    case Binary::kEqual:
    case Binary::kNotEqual:
    case Binary::kLogicalAnd:
    case Binary::kLogicalOr:
    case Binary::kLogicalXor:
    case Binary::kShiftLeft:
      return true;
    default:
      return false;
  }
}

}  // namespace

std::unique_ptr<Kernel> make_binary_float(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<BinaryAttrs>();
  const int code = shaders::binary_code_f32(attrs.fn);
  const bool to_bool = gives_bool(attrs.fn);
  const auto shader = element_shader<shaders::Binary>(
      spec, {0, 1}, to_bool, DType::kF32,
      {shaders::binary_f32, shaders::binary_f16, shaders::binary_f32_bool, shaders::binary_f16_bool});
  const auto walk = walk_of(spec);
  if (code < 0 || !shader || !walk) return nullptr;
  return shader_kernel(*shader, {.function = static_cast<uint32_t>(code), .same_shape = same_shapes(spec)},
                       {input(0), input(1), output(0)}, walk->n,
                       {.walk = *walk,
                        .alpha = static_cast<float>(attrs.alpha),
                        .act = to_bool ? GpuActivation{} : gpu_activation(attrs.act)});
}

std::unique_ptr<Kernel> make_binary_texture(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<BinaryAttrs>();
  const int code = shaders::binary_code_f32(attrs.fn);
  const DType dtype = spec.inputs[0].dtype;
  const bool to_bool = gives_bool(attrs.fn);
  if (code < 0 || spec.inputs[1].dtype != dtype || (spec.constant(0) && spec.constant(1))) return nullptr;
  if (spec.outputs[0].dtype != (to_bool ? DType::kBool : dtype) || spec.outputs[0].quant) return nullptr;
  const Shape& out = spec.outputs[0].shape;
  const auto z = ImageLayout::of(out, dtype, spec.form, spec.device);
  if (!z || !spec.device.stores(spec.outputs[0].dtype)) return nullptr;
  ShaderKernel::Images operands(2);
  GpuSize sizes[2];
  std::optional<FloatOperand> constant;
  for (size_t i = 0; i < 2; ++i) {
    if (spec.constant(i)) {
      if (!make_f32_operand(spec, i, constant.emplace()) || !constant->fits(spec.device)) return nullptr;
      sizes[1] = image_strides(broadcast_strides(spec.inputs[i].shape, out));
      continue;
    }
    operands[i] = image_of(spec, spec.inputs[i]);
    if (!operands[i]) return nullptr;
    sizes[constant ? 0 : i] = operands[i]->size;
  }
  using Variants = shaders::Variant<shaders::BinaryTexture>[2];
  static constexpr Variants same_shape{shaders::binary_3d, shaders::binary_2d},
      with_constant{shaders::binary_constant_3d, shaders::binary_constant_2d},
      result_bool{shaders::binary_bool_3d, shaders::binary_bool_2d},
      constant_bool{shaders::binary_constant_bool_3d, shaders::binary_constant_bool_2d};
  // A bool result is a buffer, of as many elements as the image z.
  const bool swap = !operands[0];
  return texture_kernel({z->form, std::move(operands), to_bool ? ShaderKernel::Images{} : ShaderKernel::Images{z}},
                        constant ? (to_bool ? constant_bool : with_constant) : (to_bool ? result_bool : same_shape),
                        {.function = static_cast<uint32_t>(code), .swap = swap},
                        {input(swap ? 1 : 0), constant ? float_arg(*constant) : input(1), output(0)}, z->count(),
                        {.x_size = sizes[0],
                         .y_size = sizes[1],
                         .z_size = z->size,
                         .alpha = static_cast<float>(attrs.alpha),
                         .act = to_bool ? GpuActivation{} : gpu_activation(attrs.act)});
}

std::unique_ptr<Kernel> make_binary_integer(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<BinaryAttrs>();
  const int code = shaders::binary_code_int(attrs.fn);
  const bool to_bool = gives_bool(attrs.fn);
  if (spec.inputs[0].dtype == DType::kU64) {
    if (!ignores_sign(attrs.fn) || attrs.act.kind != ActKind::kNone) return nullptr;
    std::vector<ValueType> inputs(spec.inputs.begin(), spec.inputs.end()), outputs{spec.outputs[0]};
    for (auto* types : {&inputs, &outputs})
      for (ValueType& t : *types)
        if (t.dtype == DType::kU64) t.dtype = DType::kI64;
    return make_binary_integer({{spec.node, inputs, spec.constants, outputs}, spec.device});
  }
  const auto shader = element_shader<shaders::BinaryInteger>(
      spec, {0, 1}, to_bool, DType::kI32,
      {shaders::binary_i32, shaders::binary_i64, shaders::binary_i32_bool, shaders::binary_i64_bool});
  const auto walk = walk_of(spec);
  if (code < 0 || !shader || !walk || !fits_int32(attrs.alpha)) return nullptr;
  shaders::BinaryInteger::Push push{
      .walk = *walk, .alpha = static_cast<int32_t>(attrs.alpha), .low = 0, .high = 0, .fault_code = 0};
  const bool wide = spec.inputs[0].dtype == DType::kI64;
  const Bounds bounds = activation_bounds(attrs.act);
  const bool clamped = !to_bool && attrs.act.kind != ActKind::kNone;
  if (clamped) {
    if (wide && !(fits_int32(bounds.lo) && fits_int32(bounds.hi))) return nullptr;
    push.low = fits_int32(bounds.lo) ? static_cast<int32_t>(bounds.lo) : INT32_MIN;
    push.high = fits_int32(bounds.hi) ? static_cast<int32_t>(bounds.hi) : INT32_MAX;
  }
  const shaders::BinaryInteger::Constants constants{
      .function = static_cast<uint32_t>(code), .same_shape = same_shapes(spec), .clamped = clamped};
  if (!checks_divisor(spec)) return shader_kernel(*shader, constants, {input(0), input(1), output(0)}, walk->n, push);
  auto kernel = shader_kernel(wide ? shaders::binary_i64_checked : shaders::binary_i32_checked, constants,
                              {input(0), input(1), output(0), faults()}, walk->n, push);
  kernel->fault_text = "division by zero: an element of the divisor is 0";
  return kernel;
}

std::unique_ptr<Kernel> make_binary_pow_float64(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<BinaryAttrs>();
  const ValueType &x = spec.inputs[0], &y = spec.inputs[1], &z = spec.outputs[0];
  // An integer result could differ by one where the power rounds just below an integer.
  if (attrs.fn != Binary::kPow || attrs.act.kind != ActKind::kNone || x.dtype == y.dtype || !is_float(z.dtype) ||
      x.quant || y.quant || z.quant)
    return nullptr;
  Decomposition c(spec);
  const ValueId power = c.binary(Binary::kPow, c.cast(c.input(0), DType::kF64), c.cast(c.input(1), DType::kF64));
  return decomposed_kernel(spec, c, {c.cast(power, z.dtype)});
}

std::unique_ptr<Kernel> make_binary_float64(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<BinaryAttrs>();
  const int code = shaders::binary_code_f64(attrs.fn);
  if (code < 0) return spec.refuse("float64 is not computed with this function");
  const bool to_bool = gives_bool(attrs.fn);
  const auto walk = walk_of(spec);
  if (!walk || spec.outputs[0].dtype != (to_bool ? DType::kBool : DType::kF64)) return nullptr;
  if (gpu_activation(attrs.act).code > shaders::kActBounds)
    return spec.refuse("float64 is not computed with activation ", to_string(attrs.act.kind));
  const Bounds bounds = activation_bounds(attrs.act);
  return shader_kernel(
      to_bool ? shaders::binary_f64_bool : shaders::binary_f64,
      {.function = static_cast<uint32_t>(code), .same_shape = same_shapes(spec)}, {input(0), input(1), output(0)},
      walk->n, {.walk = *walk, .alpha = attrs.alpha, .low = to_bool ? 0 : bounds.lo, .high = to_bool ? 1 : bounds.hi});
}

namespace {

/// The kinds of binary_fixed.comp.
enum class FixedRule : uint32_t { kProduct, kSum, kShifted };
struct FixedParameters {
  int32_t zero_a = 0, zero_b = 0, zero = 0, low = 0, high = 0;
  int32_t sign_b = 1, left = 0, padding = 0;
  int32_t a[2] = {}, b[2] = {}, out[2] = {};
};

std::unique_ptr<Kernel> fixed_binary(FixedRule rule, const FixedParameters& parameters, const Walk<2>& walk) {
  return shader_kernel(shaders::binary_fixed_i16, {.rule = static_cast<uint32_t>(rule)},
                       {input(0), input(1), table("fixed point", std::vector{parameters}), output(0)}, walk.n,
                       {.walk = walk});
}

}  // namespace

std::unique_ptr<Kernel> make_binary_fixed_point(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<BinaryAttrs>();
  const auto walk = walk_of(spec);
  for (const ValueType* t : {&spec.inputs[0], &spec.inputs[1], &spec.outputs[0]})
    if (!is_per_tensor(t->quant)) return nullptr;
  if (!walk || attrs.rounding == Rounding::kFloatHalfEven) return nullptr;
  Tensor y = type_only(spec.outputs[0]);
  const Tensor a = type_only(spec.inputs[0]), b = type_only(spec.inputs[1]);
  const auto parameters = [](const auto& f) {
    FixedParameters p;
    p.zero_a = f.zero_a;
    p.zero_b = f.zero_b;
    p.zero = f.zero;
    p.low = static_cast<int32_t>(f.low);
    p.high = static_cast<int32_t>(std::max(f.low, f.high));
    p.sign_b = f.negate_b ? -1 : 1;
    return p;
  };
  if (const auto s = ShiftedArithmetic::make(attrs, a, b, y)) {
    FixedParameters p = parameters(*s);
    p.a[0] = s->right_a;
    p.b[0] = s->right_b;
    return fixed_binary(FixedRule::kShifted, p, *walk);
  }
  const auto f = FixedArithmetic::make(attrs, a, b, y);
  if (!f || f->square) return nullptr;
  FixedParameters p = parameters(*f);
  p.left = f->left;
  const auto put = [](int32_t(&to)[2], FixedFactor from) {
    to[0] = from.multiplier;
    to[1] = from.shift;
  };
  put(p.a, f->a);
  put(p.b, f->b);
  put(p.out, f->out);
  return fixed_binary(f->product ? FixedRule::kProduct : FixedRule::kSum, p, *walk);
}

}  // namespace smelt::vulkan
