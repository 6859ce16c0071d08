#include "ops/elementwise/elementwise.h"
#include "vulkan/kernel_recorder.h"
#include "vulkan/kernels/common.h"

namespace smelt::vulkan {
namespace {

struct Push {
  uint32_t n;
  float a, b, c;
};

/// The function's code in shaders/unary_functions.inc; -1: it has none.
int code_of(Unary fn) {
  switch (fn) {
#define SMELT_UNARY(name, code, value) \
  case Unary::k##name:                 \
    return code;
#include "vulkan/shaders/unary_functions.inc"
#undef SMELT_UNARY
    default:
      return -1;
  }
}

class UnaryKernel final : public Kernel {
 public:
  UnaryKernel(DType dtype, int code, const Push& push) : dtype_(dtype), code_(code), push_(push) {}
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.input(0));
    Dispatch d{
        dtype_ == DType::kF16 ? "unary_f16" : "unary_f32", {kWidth, static_cast<uint32_t>(code_)}, {x, r.output(0)}};
    set_grid(d, push_.n, kWidth);
    return r.dispatch(d, push_);
  }

 private:
  DType dtype_;
  int code_;
  Push push_;
};

}  // namespace

std::unique_ptr<Kernel> make_unary_real(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<UnaryAttrs>();
  const int code = code_of(attrs.fn);
  if (code < 0 || !plain_reals(spec, {0}, {0})) return nullptr;
  const Push push{static_cast<uint32_t>(spec.outputs[0].shape.elements()), static_cast<float>(attrs.a),
                  static_cast<float>(attrs.b), static_cast<float>(attrs.c)};
  return std::make_unique<UnaryKernel>(spec.outputs[0].dtype, code, push);
}

}  // namespace smelt::vulkan
