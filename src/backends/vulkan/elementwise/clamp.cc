#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/vulkan/device/device.h"
#include "backends/vulkan/elementwise/unary.h"
#include "ops/elementwise/elementwise.h"
#include "shaders/functions.h"
#include "tensor/numeric.h"

namespace smelt::vulkan {
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

std::unique_ptr<Kernel> make_clamp(const KernelSpec& spec) {
  const auto constant = constant_bounds(spec);
  if (!constant) return nullptr;
  const auto& bounds = *constant;
  const uint32_t n = u32(spec.outputs[0].shape.elements());
  if (const auto real = element_shader<shaders::Unary>(spec, {0}, false, DType::kF32, kUnaryReal))
    return unary_kernel(*real, shaders::unary_code_f32(Unary::kClamp),
                        {.n = n, .a = static_cast<float>(bounds[0]), .b = static_cast<float>(bounds[1]), .c = 0});
  if (spec.inputs[0].dtype == DType::kF64 && spec.device.info().float64)
    return unary_kernel(shaders::unary_f64, shaders::unary_code_f64(Unary::kClamp),
                        {.n = n, .a = bounds[0], .b = bounds[1], .c = 0});
  const auto integer = element_shader<shaders::UnaryInteger>(spec, {0}, false, DType::kI32, kUnaryInteger);
  if (!integer || (spec.inputs[0].dtype == DType::kI64 && !(fits_int32(bounds[0]) && fits_int32(bounds[1]))))
    return nullptr;
  const auto clamped = [](double v) { return static_cast<int32_t>(std::clamp<double>(v, INT32_MIN, INT32_MAX)); };
  return unary_kernel(*integer, shaders::unary_code_int(Unary::kClamp),
                      {.n = n, .low = clamped(bounds[0]), .high = clamped(bounds[1])});
}

}  // namespace smelt::vulkan
