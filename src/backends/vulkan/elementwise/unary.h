#pragma once

#include <array>
#include <bit>

#include "backends/vulkan/layout/texture_kernel.h"
#include "shaders/unary.h"
#include "shaders/unary_float64.h"
#include "shaders/unary_integer.h"

// Functions of one operand, as unary operators, clamps and casts run them.
namespace smelt::vulkan {

/// By element_variant().
inline constexpr std::array kUnaryReal{shaders::unary_f32, shaders::unary_f16, shaders::unary_f32_bool,
                                       shaders::unary_f16_bool};
inline constexpr std::array kUnaryInteger{shaders::unary_i32, shaders::unary_i64, shaders::unary_i32_bool,
                                          shaders::unary_i64_bool};

/// The shader on each element of input 0.
template <class Interface>
std::unique_ptr<Kernel> unary_kernel(shaders::Variant<Interface> shader, int code,
                                     const typename Interface::Push& push) {
  return shader_kernel(shader, {.function = static_cast<uint32_t>(code)}, {input(0), output(0)}, push.n, push);
}

/// The kernel of a function, a code of functions.txt with its parameters, on the image x, input 0. `x` differs from `y`
/// in the element type at most.
inline std::unique_ptr<Kernel> unary_texture(const ImageLayout& x, const ImageLayout& y, int code, double a, double b,
                                             double c) {
  return texture_kernel<shaders::UnaryTexture>({y.form, {x}, {y}}, {shaders::unary_3d, shaders::unary_2d},
                                               {.function = static_cast<uint32_t>(code)}, {input(0), output(0)},
                                               y.count(),
                                               {.texels = std::bit_cast<std::array<int32_t, 3>>(y.texels()),
                                                .a = static_cast<float>(a),
                                                .b = static_cast<float>(b),
                                                .c = static_cast<float>(c)});
}

/// The layout of input 0 and the output if both are images of one shape.
inline std::optional<ImageLayout> shared_image(const KernelSpec& spec) {
  if (spec.inputs[0].shape != spec.outputs[0].shape) return std::nullopt;
  return image_of(spec, spec.outputs[0]);
}

}  // namespace smelt::vulkan
