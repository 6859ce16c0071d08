#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>

#include "backends/vulkan/core/type_checks.h"
#include "backends/vulkan/device/device.h"
#include "backends/vulkan/layout/texture_kernel.h"
#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/unary_math.h"
#include "shaders/functions.h"
#include "shaders/texture_convert.h"
#include "shaders/unary.h"
#include "shaders/unary_float64.h"
#include "shaders/unary_integer.h"
#include "tensor/numeric.h"

namespace smelt::vulkan {
namespace {

constexpr std::array kRealShaders{shaders::unary_f32, shaders::unary_f16, shaders::unary_f32_bool,
                                  shaders::unary_f16_bool};
constexpr std::array kIntegerShaders{shaders::unary_i32, shaders::unary_i64, shaders::unary_i32_bool,
                                     shaders::unary_i64_bool};

/// The shader on each element of input 0.
template <class Interface>
std::unique_ptr<Kernel> unary_kernel(shaders::Variant<Interface> shader, int code,
                                     const typename Interface::Push& push) {
  return shader_kernel(shader, {.function = static_cast<uint32_t>(code)}, {input(0), output(0)}, push.n, push);
}

/// `x` differs from `y` in the element type at most.
std::unique_ptr<Kernel> unary_texture(const ImageLayout& x, const ImageLayout& y, int code, double a, double b,
                                      double c) {
  return texture_kernel<shaders::UnaryTexture>({y.form, {x}, {y}}, {shaders::unary_3d, shaders::unary_2d},
                                               {.function = static_cast<uint32_t>(code)}, {input(0), output(0)},
                                               y.count(),
                                               {.texels = std::bit_cast<std::array<int32_t, 3>>(y.texels()),
                                                .a = static_cast<float>(a),
                                                .b = static_cast<float>(b),
                                                .c = static_cast<float>(c)});
}

/// Casts integers in a buffer (int32, int8, uint8 or bool) to floats in an image.
std::unique_ptr<Kernel> convert_texture(const ImageLayout& y, DType from) {
  using Variants = shaders::Variant<shaders::TextureConvert>[2];
  static constexpr Variants i32{shaders::texture_convert_i32_3d, shaders::texture_convert_i32_2d},
      i8{shaders::texture_convert_i8_3d, shaders::texture_convert_i8_2d},
      u8{shaders::texture_convert_u8_3d, shaders::texture_convert_u8_2d},
      boolean{shaders::texture_convert_bool_3d, shaders::texture_convert_bool_2d};
  const Variants& variants = from == DType::kI32 ? i32 : from == DType::kI8 ? i8 : from == DType::kU8 ? u8 : boolean;
  return texture_kernel({y.form, {}, {y}}, variants, {.to = static_cast<uint32_t>(y.packed())}, {input(0), output(0)},
                        y.count(), {.from_size = {}, .to_size = y.size, .n = static_cast<uint32_t>(y.count())});
}

/// The layout of input 0 and the output if both are images of one shape.
std::optional<ImageLayout> shared_image(const KernelSpec& spec) {
  if (spec.inputs[0].shape != spec.outputs[0].shape) return std::nullopt;
  return image_of(spec, spec.outputs[0]);
}

}  // namespace

std::unique_ptr<Kernel> make_unary_float(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<UnaryAttrs>();
  const int code = shaders::unary_code_f32(attrs.fn);
  const auto shader = element_shader<shaders::Unary>(spec, {0}, gives_bool(attrs.fn), DType::kF32, kRealShaders);
  if (code < 0 || !shader) return nullptr;
  return unary_kernel(*shader, code,
                      {.n = u32(spec.outputs[0].shape.elements()),
                       .a = static_cast<float>(attrs.a),
                       .b = static_cast<float>(attrs.b),
                       .c = static_cast<float>(attrs.c)});
}

std::unique_ptr<Kernel> make_unary_texture(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<UnaryAttrs>();
  const int code = shaders::unary_code_f32(attrs.fn);
  const auto layout = shared_image(spec);
  if (code < 0 || gives_bool(attrs.fn) || !layout) return nullptr;
  return unary_texture(*layout, *layout, code, attrs.a, attrs.b, attrs.c);
}

std::unique_ptr<Kernel> make_unary_integer(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<UnaryAttrs>();
  const int code = shaders::unary_code_int(attrs.fn);
  const auto shader =
      element_shader<shaders::UnaryInteger>(spec, {0}, gives_bool(attrs.fn), DType::kI32, kIntegerShaders);
  if (code < 0 || !shader) return nullptr;
  shaders::UnaryInteger::Push push{.n = u32(spec.outputs[0].shape.elements()), .low = 0, .high = 0};
  if (attrs.fn == Unary::kClamp) {
    const double low = std::ceil(attrs.a), high = std::floor(attrs.b);
    if (!fits_int32(low) || !fits_int32(high)) return nullptr;
    push.low = static_cast<int32_t>(low);
    push.high = static_cast<int32_t>(high);
  }
  return unary_kernel(*shader, code, push);
}

std::unique_ptr<Kernel> make_unary_float64(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<UnaryAttrs>();
  const bool to_bool = gives_bool(attrs.fn);
  if (spec.outputs[0].dtype != (to_bool ? DType::kBool : DType::kF64)) return nullptr;
  const int code = shaders::unary_code_f64(attrs.fn);
  if (code < 0) return spec.refuse("float64 is not computed with this function");
  return unary_kernel(to_bool ? shaders::unary_f64_bool : shaders::unary_f64, code,
                      {.n = u32(spec.outputs[0].shape.elements()), .a = attrs.a, .b = attrs.b, .c = attrs.c});
}

namespace {
/// The constant scalar bounds of a Clamp; nullopt for others.
std::optional<std::array<double, 2>> constant_bounds(const KernelSpec& spec) {
  std::array<double, 2> bounds{-std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
  for (size_t i = 1; i <= 2; ++i) {
    if (!spec.has(i)) continue;
    const Tensor* t = spec.constant(i);
    if (!t || t->elements() != 1 || t->dtype() != spec.inputs[0].dtype) return std::nullopt;
    bounds[i - 1] = get_double(*t, 0);
    if (std::isnan(bounds[i - 1])) return std::nullopt;
  }
  if (spec.inputs[0].shape != spec.outputs[0].shape) return std::nullopt;
  return bounds;
}
}  // namespace

std::unique_ptr<Kernel> make_clamp_texture(const KernelSpec& spec) {
  const auto bounds = constant_bounds(spec);
  const auto layout = shared_image(spec);
  if (!bounds || !layout) return nullptr;
  return unary_texture(*layout, *layout, shaders::unary_code_f32(Unary::kClamp), (*bounds)[0], (*bounds)[1], 0);
}

std::unique_ptr<Kernel> make_cast_texture(const KernelSpec& spec) {
  const DType from = spec.inputs[0].dtype;
  const bool integers = from == DType::kI32 || from == DType::kI8 || from == DType::kU8 || from == DType::kBool;
  if (integers && !spec.inputs[0].quant && spec.device.stores(from)) {
    const auto to = image_of(spec, spec.outputs[0]);
    return to ? convert_texture(*to, from) : nullptr;
  }
  const auto x = image_of(spec, spec.inputs[0]), y = image_of(spec, spec.outputs[0]);
  if (!x || !y || spec.inputs[0].shape != spec.outputs[0].shape || spec.constant(0)) return nullptr;
  return unary_texture(*x, *y, shaders::unary_code_f32(Unary::kIdentity), 0, 0, 0);
}

std::unique_ptr<Kernel> make_clamp(const KernelSpec& spec) {
  const auto known = constant_bounds(spec);
  if (!known) return nullptr;
  const auto& bounds = *known;
  const uint32_t n = u32(spec.outputs[0].shape.elements());
  if (const auto real = element_shader<shaders::Unary>(spec, {0}, false, DType::kF32, kRealShaders))
    return unary_kernel(*real, shaders::unary_code_f32(Unary::kClamp),
                        {.n = n, .a = static_cast<float>(bounds[0]), .b = static_cast<float>(bounds[1]), .c = 0});
  if (spec.inputs[0].dtype == DType::kF64 && spec.device.info().float64)
    return unary_kernel(shaders::unary_f64, shaders::unary_code_f64(Unary::kClamp),
                        {.n = n, .a = bounds[0], .b = bounds[1], .c = 0});
  const auto integer = element_shader<shaders::UnaryInteger>(spec, {0}, false, DType::kI32, kIntegerShaders);
  if (!integer || (spec.inputs[0].dtype == DType::kI64 && !(fits_int32(bounds[0]) && fits_int32(bounds[1]))))
    return nullptr;
  const auto clamped = [](double v) { return static_cast<int32_t>(std::clamp<double>(v, INT32_MIN, INT32_MAX)); };
  return unary_kernel(*integer, shaders::unary_code_int(Unary::kClamp),
                      {.n = n, .low = clamped(bounds[0]), .high = clamped(bounds[1])});
}

}  // namespace smelt::vulkan
