#include <algorithm>
#include <string>

#include "backends/vulkan/copy/strided_copy.h"
#include "backends/vulkan/core/type_checks.h"
#include "backends/vulkan/device/device.h"
#include "backends/vulkan/layout/texture_kernel.h"
#include "backends/vulkan/record/kernel_recorder.h"
#include "ops/elementwise/elementwise.h"
#include "tensor/numeric.h"

namespace smelt::vulkan {
namespace {

struct Push {
  uint32_t n;
  int32_t low, high;
};

class CastKernel final : public Kernel {
 public:
  CastKernel(const char* shader, bool saturate, const Push& push) : shader_(shader), saturate_(saturate), push_(push) {}
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.input(0));
    Dispatch d{shader_, {kWidth, saturate_ ? 1u : 0u}, {x, r.output(0)}};
    set_grid(d, push_.n, kWidth);
    return r.dispatch(d, push_);
  }

 private:
  const char* shader_;
  bool saturate_;
  Push push_;
};

/// Casts an image of floats to integers in a buffer.
class CastFromTexture final : public TextureKernel {
 public:
  CastFromTexture(const TextureForm& form, const ImageLayout& x, std::string family, bool saturate, const Push& push)
      : TextureKernel(form, {x}, {}),
        packed_x_(static_cast<uint32_t>(x.packed())),
        family_(std::move(family)),
        saturate_(saturate),
        push_{x.size, push} {}
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.input(0));
    return dispatch(r, family_.c_str(), {saturate_ ? 1u : 0u, packed_x_}, {x, r.output(0)}, push_.own.n, push_);
  }

 private:
  struct TexturePush {
    GpuSize x;
    Push own;
  };
  uint32_t packed_x_;
  std::string family_;
  bool saturate_;
  TexturePush push_;
};

bool saturates(const KernelSpec& spec) {
  return spec.attrs<CastAttrs>().clamp && is_float(spec.inputs[0].dtype) && is_integer(spec.outputs[0].dtype);
}

Push push_of(const KernelSpec& spec, DType to) {
  Push push{static_cast<uint32_t>(spec.outputs[0].shape.elements()), 0, 0};
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
  std::string family = "cast_to_" + type_suffix(to);
  const auto x = existing_image(spec, 0);
  if (!x || !find_shader((family + "_3d").c_str())) return nullptr;
  return std::make_unique<CastFromTexture>(spec.form, *x, std::move(family), saturates(spec), push_of(spec, to));
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
  const Shader* shader = find_shader(("cast_" + type_suffix(from) + "_" + type_suffix(to)).c_str());
  if (!shader) return nullptr;
  return std::make_unique<CastKernel>(shader->name, saturates(spec), push_of(spec, to));
}

}  // namespace smelt::vulkan
