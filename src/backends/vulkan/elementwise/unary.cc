#include <algorithm>
#include <array>
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
#include "tensor/numeric.h"

namespace smelt::vulkan {
namespace {

struct UnaryRealPush {
  uint32_t n;
  float a, b, c;
};
struct UnaryIntegerPush {
  uint32_t n;
  int32_t low, high;
};
struct UnaryDoublePush {
  uint32_t n, unused;
  double a, b, c = 0;
};

/// The function's code in unary_functions.inc; -1: it has none.
int float_code(Unary fn) {
  switch (fn) {
#define SMELT_UNARY(name, code, value) \
  case Unary::k##name:                 \
    return code;
#include "backends/vulkan/elementwise/unary_functions.inc"
#undef SMELT_UNARY
    default:
      return -1;
  }
}

int integer_code(Unary fn) {
  switch (fn) {
#define SMELT_UNARY_INTEGER(name, code, value) \
  case Unary::k##name:                         \
    return code;
#include "backends/vulkan/elementwise/unary_integer_functions.inc"
#undef SMELT_UNARY_INTEGER
    default:
      return -1;
  }
}

int float64_code(Unary fn) {
  switch (fn) {
#define SMELT_UNARY_DOUBLE(name, code, value) \
  case Unary::k##name:                        \
    return code;
#include "backends/vulkan/elementwise/unary_float64_functions.inc"
#undef SMELT_UNARY_DOUBLE
    default:
      return -1;
  }
}

template <class Push>
class UnaryKernel : public Kernel {
 public:
  UnaryKernel(const char* shader, int code, const Push& push) : shader_(shader), code_(code), push_(push) {}
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.input(0));
    Dispatch d{shader_, {kWidth, static_cast<uint32_t>(code_)}, {x, r.output(0)}};
    set_grid(d, push_.n, kWidth);
    return r.dispatch(d, push_);
  }

 private:
  const char* shader_;
  int code_;
  Push push_;
};

/// Clamp: the bounds are constants and go into the push constants.
template <class Push>
class ClampKernel final : public UnaryKernel<Push> {
 public:
  using UnaryKernel<Push>::UnaryKernel;
  bool reads(size_t i) const override { return i == 0; }
};

/// The layout of unary.comp for textures.
struct UnaryTexturePush {
  std::array<int32_t, 3> texels;
  float a, b, c;
};

class UnaryTexture final : public TextureKernel {
 public:
  /// `x` differs from `y` in the element type at most.
  UnaryTexture(const ImageLayout& x, const ImageLayout& y, int code, float a, float b, float c)
      : TextureKernel({x}, y), code_(static_cast<uint32_t>(code)), push_{{}, a, b, c} {
    for (size_t d = 0; d < 3; ++d) push_.texels[d] = static_cast<int32_t>(y.texels()[d]);
  }
  bool reads(size_t i) const override { return i == 0; }
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.input(0));
    return dispatch(r, "unary", {code_}, {x, r.output(0)}, output().count(), push_);
  }

 private:
  uint32_t code_;
  UnaryTexturePush push_;
};

/// Casts integers in a buffer to floats in an image.
class ConvertTexture final : public TextureKernel {
 public:
  ConvertTexture(const ImageLayout& y, DType from) : TextureKernel(Images{}, y), from_(from) {}
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.input(0));
    const auto n = static_cast<uint32_t>(output().count());
    return dispatch(r, ("convert_" + type_suffix(from_)).c_str(), {0, packed()}, {x, r.output(0)}, n,
                    ConversionPush{{}, output().size, n});
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
  const int code = float_code(attrs.fn);
  const char* shader =
      element_shader(spec, {0}, gives_bool(attrs.fn), {"unary_f32", "unary_f16", "unary_f32_bool", "unary_f16_bool"});
  if (code < 0 || !shader) return nullptr;
  const UnaryRealPush push{static_cast<uint32_t>(spec.outputs[0].shape.elements()), static_cast<float>(attrs.a),
                           static_cast<float>(attrs.b), static_cast<float>(attrs.c)};
  return std::make_unique<UnaryKernel<UnaryRealPush>>(shader, code, push);
}

std::unique_ptr<Kernel> make_unary_texture(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<UnaryAttrs>();
  const int code = float_code(attrs.fn);
  const auto layout = shared_image(spec);
  if (code < 0 || gives_bool(attrs.fn) || !layout) return nullptr;
  return std::make_unique<UnaryTexture>(*layout, *layout, code, static_cast<float>(attrs.a),
                                        static_cast<float>(attrs.b), static_cast<float>(attrs.c));
}

std::unique_ptr<Kernel> make_unary_integer(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<UnaryAttrs>();
  const int code = integer_code(attrs.fn);
  const char* shader = element_shader(spec, {0}, gives_bool(attrs.fn),
                                      {"unary_i32", "unary_i64", "unary_i32_bool", "unary_i64_bool"}, DType::kI32);
  if (code < 0 || !shader) return nullptr;
  UnaryIntegerPush push{static_cast<uint32_t>(spec.outputs[0].shape.elements()), 0, 0};
  if (attrs.fn == Unary::kClamp) {
    const double low = std::ceil(attrs.a), high = std::floor(attrs.b);
    if (!fits_int32(low) || !fits_int32(high)) return nullptr;
    push.low = static_cast<int32_t>(low);
    push.high = static_cast<int32_t>(high);
  }
  return std::make_unique<UnaryKernel<UnaryIntegerPush>>(shader, code, push);
}

std::unique_ptr<Kernel> make_unary_float64(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<UnaryAttrs>();
  const bool to_bool = gives_bool(attrs.fn);
  if (spec.inputs[0].dtype != DType::kF64 || spec.outputs[0].dtype != (to_bool ? DType::kBool : DType::kF64))
    return nullptr;
  if (!spec.device.info().float64) return spec.refuse("the device has no float64");
  const int code = float64_code(attrs.fn);
  if (code < 0) return spec.refuse("float64 is not computed with this function");
  return std::make_unique<UnaryKernel<UnaryDoublePush>>(
      to_bool ? "unary_f64_bool" : "unary_f64", code,
      UnaryDoublePush{static_cast<uint32_t>(spec.outputs[0].shape.elements()), 0, attrs.a, attrs.b, attrs.c});
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
  return std::make_unique<UnaryTexture>(*layout, *layout, float_code(Unary::kClamp), static_cast<float>((*bounds)[0]),
                                        static_cast<float>((*bounds)[1]), 0.0f);
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
  return std::make_unique<UnaryTexture>(*x, *y, float_code(Unary::kIdentity), 0.0f, 0.0f, 0.0f);
}

std::unique_ptr<Kernel> make_clamp(const KernelSpec& spec) {
  const auto known = constant_bounds(spec);
  if (!known) return nullptr;
  const auto& bounds = *known;
  const auto n = static_cast<uint32_t>(spec.outputs[0].shape.elements());
  if (const char* real = element_shader(spec, {0}, false, {"unary_f32", "unary_f16", "", ""}))
    return std::make_unique<ClampKernel<UnaryRealPush>>(
        real, float_code(Unary::kClamp),
        UnaryRealPush{n, static_cast<float>(bounds[0]), static_cast<float>(bounds[1]), 0});
  if (spec.inputs[0].dtype == DType::kF64 && spec.device.info().float64)
    return std::make_unique<ClampKernel<UnaryDoublePush>>("unary_f64", float64_code(Unary::kClamp),
                                                          UnaryDoublePush{n, 0, bounds[0], bounds[1]});
  const char* integer = element_shader(spec, {0}, false, {"unary_i32", "unary_i64", "", ""}, DType::kI32);
  if (!integer || (spec.inputs[0].dtype == DType::kI64 && !(fits_int32(bounds[0]) && fits_int32(bounds[1]))))
    return nullptr;
  const auto clamped = [](double v) { return static_cast<int32_t>(std::clamp<double>(v, INT32_MIN, INT32_MAX)); };
  return std::make_unique<ClampKernel<UnaryIntegerPush>>(integer, integer_code(Unary::kClamp),
                                                         UnaryIntegerPush{n, clamped(bounds[0]), clamped(bounds[1])});
}

}  // namespace smelt::vulkan
