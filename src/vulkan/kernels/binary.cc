#include "ops/elementwise/elementwise.h"
#include "vulkan/activation.h"
#include "vulkan/kernel_recorder.h"
#include "vulkan/kernels/common.h"
#include "vulkan/strides.h"

namespace smelt::vulkan {
namespace {

struct Push {
  Walk<2> walk;
  float alpha;
  GpuActivation act;
};

/// The function's code in shaders/binary_functions.inc; -1: it has none.
int code_of(Binary fn) {
  switch (fn) {
#define SMELT_BINARY(name, code, value) \
  case Binary::k##name:                 \
    return code;
#include "vulkan/shaders/binary_functions.inc"
#undef SMELT_BINARY
    default:
      return -1;
  }
}

class BinaryKernel final : public Kernel {
 public:
  BinaryKernel(DType dtype, int code, bool plain, const Push& push)
      : dtype_(dtype), code_(code), plain_(plain), push_(push) {}
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.input(0));
    SMELT_ASSIGN(const Binding y, r.input(1));
    Dispatch d{dtype_ == DType::kF16 ? "binary_f16" : "binary_f32",
               {kWidth, static_cast<uint32_t>(code_), plain_ ? 1u : 0u},
               {x, y, r.output(0)}};
    set_grid(d, push_.walk.n, kWidth);
    return r.dispatch(d, push_);
  }

 private:
  DType dtype_;
  int code_;
  bool plain_;  ///< neither operand repeats
  Push push_;
};

}  // namespace

std::unique_ptr<Kernel> make_binary_real(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<BinaryAttrs>();
  const int code = code_of(attrs.fn);
  if (code < 0 || !plain_reals(spec, {0, 1}, {0})) return nullptr;
  const Shape& out = spec.outputs[0].shape;
  const auto walk =
      Walk<2>::make(out, {broadcast_strides(spec.inputs[0].shape, out), broadcast_strides(spec.inputs[1].shape, out)});
  if (!walk) return nullptr;
  const bool plain = spec.inputs[0].shape == out && spec.inputs[1].shape == out;
  const Push push{*walk, static_cast<float>(attrs.alpha), gpu_activation(attrs.act)};
  return std::make_unique<BinaryKernel>(spec.outputs[0].dtype, code, plain, push);
}

}  // namespace smelt::vulkan
