#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>

#include "backends/vulkan/core/type_checks.h"
#include "backends/vulkan/device/device.h"
#include "backends/vulkan/layout/image.h"
#include "backends/vulkan/layout/texture_kernel.h"
#include "backends/vulkan/record/kernel_recorder.h"
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

template <class Interface>
class UnaryKernel : public Kernel {
 public:
  using Push = typename Interface::Push;
  UnaryKernel(shaders::Variant<Interface> shader, int code, const Push& push)
      : shader_(shader), code_(static_cast<uint32_t>(code)), push_(push) {}
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.input(0));
    return r.run(shader_, {.function = code_}, {x, r.output(0)}, Grid::flat(push_.n, kWidth), push_);
  }

 private:
  shaders::Variant<Interface> shader_;
  uint32_t code_;
  Push push_;
};

/// Clamp: the bounds are constants and go into the push constants.
template <class Interface>
class ClampKernel final : public UnaryKernel<Interface> {
 public:
  using UnaryKernel<Interface>::UnaryKernel;
  bool reads(size_t i) const override { return i == 0; }
};

class UnaryTexture final : public TextureKernel {
 public:
  /// `x` differs from `y` in the element type at most.
  UnaryTexture(const ImageLayout& x, const ImageLayout& y, int code, float a, float b, float c)
      : TextureKernel({x}, y),
        code_(static_cast<uint32_t>(code)),
        push_{.texels = std::bit_cast<std::array<int32_t, 3>>(y.texels()), .a = a, .b = b, .c = c} {}
  bool reads(size_t i) const override { return i == 0; }
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.input(0));
    return run(r, {shaders::unary_3d, shaders::unary_2d}, {.function = code_}, {x, r.output(0)}, output().count(),
               push_);
  }

 private:
  uint32_t code_;
  shaders::UnaryTexture::Push push_;
};

/// Casts integers in a buffer (int32, int8, uint8 or bool) to floats in an image.
class ConvertTexture final : public TextureKernel {
 public:
  ConvertTexture(const ImageLayout& y, DType from) : TextureKernel(Images{}, y), from_(from) {}
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.input(0));
    using Variants = shaders::Variant<shaders::TextureConvert>[2];
    static constexpr Variants i32{shaders::texture_convert_i32_3d, shaders::texture_convert_i32_2d},
        i8{shaders::texture_convert_i8_3d, shaders::texture_convert_i8_2d},
        u8{shaders::texture_convert_u8_3d, shaders::texture_convert_u8_2d},
        boolean{shaders::texture_convert_bool_3d, shaders::texture_convert_bool_2d};
    const Variants& variants = from_ == DType::kI32  ? i32
                               : from_ == DType::kI8 ? i8
                               : from_ == DType::kU8 ? u8
                                                     : boolean;
    return run(r, variants, {.to = packed()}, {x, r.output(0)}, output().count(),
               {.from_size = {}, .to_size = output().size, .n = static_cast<uint32_t>(output().count())});
  }

 private:
  DType from_;
};

/// The layout of input 0 and the output if both are images of one shape and type.
std::optional<ImageLayout> shared_image(const KernelSpec& spec) {
  if (!unquantized_floats(spec, {0}, {0}) || spec.inputs[0].shape != spec.outputs[0].shape || spec.constant(0))
    return std::nullopt;
  return image_of(spec, spec.outputs[0]);
}

}  // namespace

std::unique_ptr<Kernel> make_unary_float(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<UnaryAttrs>();
  const int code = shaders::unary_code_f32(attrs.fn);
  const auto shader = element_shader<shaders::Unary>(spec, {0}, gives_bool(attrs.fn), DType::kF32, kRealShaders);
  if (code < 0 || !shader) return nullptr;
  return std::make_unique<UnaryKernel<shaders::Unary>>(
      *shader, code,
      shaders::Unary::Push{.n = static_cast<uint32_t>(spec.outputs[0].shape.elements()),
                           .a = static_cast<float>(attrs.a),
                           .b = static_cast<float>(attrs.b),
                           .c = static_cast<float>(attrs.c)});
}

std::unique_ptr<Kernel> make_unary_texture(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<UnaryAttrs>();
  const int code = shaders::unary_code_f32(attrs.fn);
  const auto layout = shared_image(spec);
  if (code < 0 || gives_bool(attrs.fn) || !layout) return nullptr;
  return std::make_unique<UnaryTexture>(*layout, *layout, code, static_cast<float>(attrs.a),
                                        static_cast<float>(attrs.b), static_cast<float>(attrs.c));
}

std::unique_ptr<Kernel> make_unary_integer(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<UnaryAttrs>();
  const int code = shaders::unary_code_int(attrs.fn);
  const auto shader =
      element_shader<shaders::UnaryInteger>(spec, {0}, gives_bool(attrs.fn), DType::kI32, kIntegerShaders);
  if (code < 0 || !shader) return nullptr;
  shaders::UnaryInteger::Push push{.n = static_cast<uint32_t>(spec.outputs[0].shape.elements()), .low = 0, .high = 0};
  if (attrs.fn == Unary::kClamp) {
    const double low = std::ceil(attrs.a), high = std::floor(attrs.b);
    if (!fits_int32(low) || !fits_int32(high)) return nullptr;
    push.low = static_cast<int32_t>(low);
    push.high = static_cast<int32_t>(high);
  }
  return std::make_unique<UnaryKernel<shaders::UnaryInteger>>(*shader, code, push);
}

std::unique_ptr<Kernel> make_unary_float64(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<UnaryAttrs>();
  const bool to_bool = gives_bool(attrs.fn);
  if (spec.inputs[0].dtype != DType::kF64 || spec.outputs[0].dtype != (to_bool ? DType::kBool : DType::kF64))
    return nullptr;
  if (!spec.device.info().float64) return spec.refuse("the device has no float64");
  const int code = shaders::unary_code_f64(attrs.fn);
  if (code < 0) return spec.refuse("float64 is not computed with this function");
  return std::make_unique<UnaryKernel<shaders::UnaryFloat64>>(
      to_bool ? shaders::unary_f64_bool : shaders::unary_f64, code,
      shaders::UnaryFloat64::Push{
          .n = static_cast<uint32_t>(spec.outputs[0].shape.elements()), .a = attrs.a, .b = attrs.b, .c = attrs.c});
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
  return std::make_unique<UnaryTexture>(*layout, *layout, shaders::unary_code_f32(Unary::kClamp),
                                        static_cast<float>((*bounds)[0]), static_cast<float>((*bounds)[1]), 0.0f);
}

std::unique_ptr<Kernel> make_cast_texture(const KernelSpec& spec) {
  const DType from = spec.inputs[0].dtype;
  const bool integers = from == DType::kI32 || from == DType::kI8 || from == DType::kU8 || from == DType::kBool;
  if (integers && !spec.inputs[0].quant && spec.device.stores(from)) {
    const auto to = image_of(spec, spec.outputs[0]);
    return to ? std::make_unique<ConvertTexture>(*to, from) : nullptr;
  }
  const auto x = image_of(spec, spec.inputs[0]), y = image_of(spec, spec.outputs[0]);
  if (!x || !y || spec.inputs[0].shape != spec.outputs[0].shape || spec.constant(0)) return nullptr;
  return std::make_unique<UnaryTexture>(*x, *y, shaders::unary_code_f32(Unary::kIdentity), 0.0f, 0.0f, 0.0f);
}

std::unique_ptr<Kernel> make_clamp(const KernelSpec& spec) {
  const auto known = constant_bounds(spec);
  if (!known) return nullptr;
  const auto& bounds = *known;
  const auto n = static_cast<uint32_t>(spec.outputs[0].shape.elements());
  if (const auto real = element_shader<shaders::Unary>(spec, {0}, false, DType::kF32, kRealShaders))
    return std::make_unique<ClampKernel<shaders::Unary>>(
        *real, shaders::unary_code_f32(Unary::kClamp),
        shaders::Unary::Push{.n = n, .a = static_cast<float>(bounds[0]), .b = static_cast<float>(bounds[1]), .c = 0});
  if (spec.inputs[0].dtype == DType::kF64 && spec.device.info().float64)
    return std::make_unique<ClampKernel<shaders::UnaryFloat64>>(
        shaders::unary_f64, shaders::unary_code_f64(Unary::kClamp),
        shaders::UnaryFloat64::Push{.n = n, .a = bounds[0], .b = bounds[1], .c = 0});
  const auto integer = element_shader<shaders::UnaryInteger>(spec, {0}, false, DType::kI32, kIntegerShaders);
  if (!integer || (spec.inputs[0].dtype == DType::kI64 && !(fits_int32(bounds[0]) && fits_int32(bounds[1]))))
    return nullptr;
  const auto clamped = [](double v) { return static_cast<int32_t>(std::clamp<double>(v, INT32_MIN, INT32_MAX)); };
  return std::make_unique<ClampKernel<shaders::UnaryInteger>>(
      *integer, shaders::unary_code_int(Unary::kClamp),
      shaders::UnaryInteger::Push{.n = n, .low = clamped(bounds[0]), .high = clamped(bounds[1])});
}

}  // namespace smelt::vulkan
