#include "backends/vulkan/elementwise/unary.h"

#include <cmath>

#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/unary_math.h"
#include "shaders/functions.h"

namespace smelt::vulkan {

std::unique_ptr<Kernel> make_unary_float(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<UnaryAttrs>();
  const int code = shaders::unary_code_f32(attrs.fn);
  const auto shader = element_shader<shaders::Unary>(spec, {0}, gives_bool(attrs.fn), DType::kF32, kUnaryReal);
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
      element_shader<shaders::UnaryInteger>(spec, {0}, gives_bool(attrs.fn), DType::kI32, kUnaryInteger);
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

}  // namespace smelt::vulkan
