#include <algorithm>
#include <string>

#include "ops/elementwise/elementwise.h"
#include "tensor/numeric.h"
#include "vulkan/device.h"
#include "vulkan/kernel_recorder.h"
#include "vulkan/kernels/common.h"
#include "vulkan/kernels/move.h"

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

}  // namespace

std::unique_ptr<Kernel> make_cast(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<CastAttrs>();
  DType from = spec.inputs[0].dtype, to = spec.outputs[0].dtype;
  const int64_t n = spec.outputs[0].shape.elements();
  // To and from other integers, uint64 goes as int64 does.
  if (from == DType::kU64 && !is_float(to)) from = DType::kI64;
  if (to == DType::kU64 && !is_float(from)) to = DType::kI64;
  if (from == to) {
    const auto walk = Walk<2>::make(Shape{n}, {Shape{1}, Shape{1}});
    return walk ? make_moves(to, {{.walk = *walk}}) : nullptr;
  }
  if ((from == DType::kI64 || to == DType::kI64) && !spec.device.info().int64)
    return spec.refuse("the device has no 64-bit integers");
  if ((from == DType::kF64 || to == DType::kF64) && !spec.device.info().float64)
    return spec.refuse("the device has no float64");
  const Shader* shader = find_shader(("cast_" + short_name(from) + "_" + short_name(to)).c_str());
  if (!shader) return nullptr;
  Push push{static_cast<uint32_t>(n), 0, 0};
  const bool saturate = attrs.clamp && is_float(from) && is_integer(to);
  if (saturate && to != DType::kI64 && to != DType::kU32) {  // whose bounds the shader knows
    push.low = static_cast<int32_t>(int_min(to));
    push.high = static_cast<int32_t>(int_max(to));
  }
  return std::make_unique<CastKernel>(shader->name, saturate, push);
}

}  // namespace smelt::vulkan
