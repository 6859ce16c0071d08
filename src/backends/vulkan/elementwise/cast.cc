#include <algorithm>
#include <string>

#include "backends/vulkan/copy/strided_copy.h"
#include "backends/vulkan/core/type_checks.h"
#include "backends/vulkan/device/device.h"
#include "backends/vulkan/layout/texture_kernel.h"
#include "backends/vulkan/record/kernel_recorder.h"
#include "ops/elementwise/elementwise.h"
#include "shaders/cast.h"
#include "tensor/numeric.h"

namespace smelt::vulkan {
namespace {

class CastKernel final : public Kernel {
 public:
  CastKernel(shaders::Variant<shaders::Cast> shader, bool saturate, const shaders::Cast::Push& push)
      : shader_(shader), saturate_(saturate), push_(push) {}
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.input(0));
    return r.run(shader_, {.saturate = saturate_}, {x, r.output(0)}, Grid::flat(push_.n, kWidth), push_);
  }

 private:
  shaders::Variant<shaders::Cast> shader_;
  bool saturate_;
  shaders::Cast::Push push_;
};

/// Casts an image of floats to integers in a buffer.
class CastFromTexture final : public TextureKernel {
 public:
  using Variants = shaders::Variant<shaders::CastTexture>[2];
  CastFromTexture(const TextureForm& form, const ImageLayout& x, const Variants& shaders, bool saturate,
                  const shaders::CastTexture::Push& push)
      : TextureKernel(form, {x}, {}),
        packed_x_(static_cast<uint32_t>(x.packed())),
        shaders_{shaders[0], shaders[1]},
        saturate_(saturate),
        push_(push) {}
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.input(0));
    return run(r, shaders_, {.saturate = saturate_, .packed_x = packed_x_}, {x, r.output(0)}, push_.n, push_);
  }

 private:
  uint32_t packed_x_;
  Variants shaders_;
  bool saturate_;
  shaders::CastTexture::Push push_;
};

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

}  // namespace

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
  return std::make_unique<CastFromTexture>(
      spec.form, *x, CastFromTexture::Variants{*volumes, *planes}, saturates(spec),
      shaders::CastTexture::Push{.x_size = x->size, .n = push.n, .low = push.low, .high = push.high});
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
  return std::make_unique<CastKernel>(*shader, saturates(spec), push_of(spec, to));
}

}  // namespace smelt::vulkan
