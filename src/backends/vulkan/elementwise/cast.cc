#include <algorithm>
#include <string>

#include "backends/vulkan/copy/strided_copy.h"
#include "backends/vulkan/core/type_checks.h"
#include "backends/vulkan/device/device.h"
#include "backends/vulkan/elementwise/unary.h"
#include "ops/elementwise/elementwise.h"
#include "shaders/cast.h"
#include "shaders/functions.h"
#include "shaders/texture_convert.h"
#include "tensor/numeric.h"

namespace smelt::vulkan {
namespace {

bool saturates(const KernelSpec& spec) {
  return spec.attrs<CastAttrs>().clamp && is_float(spec.inputs[0].dtype) && is_integer(spec.outputs[0].dtype);
}

shaders::Cast::Push push_of(const KernelSpec& spec, DType to) {
  shaders::Cast::Push push{.n = static_cast<uint32_t>(spec.outputs[0].shape.elements()), .low = 0, .high = 0};
  if (saturates(spec) && to != DType::kI64 && to != DType::kU32) {  // whose bounds the shader knows
    push.low = static_cast<int32_t>(int_min(to));
    push.high = static_cast<int32_t>(int_max(to));
  }
  return push;
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

}  // namespace

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

std::unique_ptr<Kernel> make_cast_from_texture(const KernelSpec& spec) {
  const DType to = spec.outputs[0].dtype;
  if (!is_float(spec.inputs[0].dtype) || spec.constant(0) || spec.inputs[0].quant || spec.outputs[0].quant ||
      (to == DType::kI64 && !spec.device.info().int64))
    return nullptr;
  const std::string family = "cast_to_" + type_suffix(to);
  const auto volumes = shaders::find_variant<shaders::CastTexture>(family + "_3d"),
             planes = shaders::find_variant<shaders::CastTexture>(family + "_2d");
  const auto x = existing_image(spec, 0);
  if (!x || !volumes || !planes) return nullptr;
  const shaders::Cast::Push push = push_of(spec, to);
  return texture_kernel({spec.form, {x}, {}}, {*volumes, *planes}, {.saturate = saturates(spec)}, {input(0), output(0)},
                        push.n, {.x_size = x->size, .n = push.n, .low = push.low, .high = push.high});
}

std::unique_ptr<Kernel> make_cast(const KernelSpec& spec) {
  DType from = spec.inputs[0].dtype, to = spec.outputs[0].dtype;
  const int64_t n = spec.outputs[0].shape.elements();
  // To and from other integers, uint64 goes as int64 does.
  if (from == DType::kU64 && !is_float(to)) from = DType::kI64;
  if (to == DType::kU64 && !is_float(from)) to = DType::kI64;
  if (from == to) {
    const auto walk = Walk<2>::make(Shape{n}, {Shape{1}, Shape{1}});
    return walk ? make_copies(to, {{.walk = *walk}}) : nullptr;
  }
  if ((from == DType::kI64 || to == DType::kI64) && !spec.device.info().int64)
    return spec.refuse("the device has no 64-bit integers");
  if ((from == DType::kF64 || to == DType::kF64) && !spec.device.info().float64)
    return spec.refuse("the device has no float64");
  const auto shader = shaders::find_variant<shaders::Cast>("cast_" + type_suffix(from) + "_" + type_suffix(to));
  if (!shader) return nullptr;
  const shaders::Cast::Push push = push_of(spec, to);
  return shader_kernel(*shader, {.saturate = saturates(spec)}, {input(0), output(0)}, push.n, push);
}

}  // namespace smelt::vulkan
