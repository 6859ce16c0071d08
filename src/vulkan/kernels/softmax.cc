#include "ops/softmax/softmax.h"

#include "vulkan/kernels/rows.h"

namespace smelt::vulkan {
namespace {

struct Push {
  uint32_t rows, extent, inner;
  float beta;
};

class SoftmaxKernel final : public Kernel {
 public:
  SoftmaxKernel(DType dtype, uint32_t kind, uint32_t lanes, const Push& push)
      : dtype_(dtype), kind_(kind), lanes_(lanes), push_(push) {}
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.input(0));
    Dispatch d{
        dtype_ == DType::kF16 ? "softmax_f16" : "softmax_f32", {row_width(lanes_), lanes_, kind_}, {x, r.output(0)}};
    set_row_grid(d, push_.rows, lanes_);
    return r.dispatch(d, push_);
  }

 private:
  DType dtype_;
  uint32_t kind_, lanes_;
  Push push_;
};

}  // namespace

std::unique_ptr<Kernel> make_softmax_real(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<SoftmaxAttrs>();
  if (!plain_reals(spec, {0}, {0})) return nullptr;
  const Shape& shape = spec.inputs[0].shape;
  AxisView v;
  if (attrs.flatten && attrs.axis == shape.rank()) {
    v = {shape.elements(), 1, 1};
  } else if (shape.rank() > 0) {
    const auto axis = normalize_axis(attrs.axis, shape.rank());
    if (!axis.ok()) return nullptr;
    v = attrs.flatten ? AxisView{product(shape, 0, *axis), product(shape, *axis, shape.rank()), 1}
                      : axis_view(shape, *axis);
  }
  const Push push{static_cast<uint32_t>(v.outer * v.inner), static_cast<uint32_t>(v.extent),
                  static_cast<uint32_t>(v.inner), static_cast<float>(attrs.beta)};
  const bool hard = attrs.kind == SoftmaxAttrs::Kind::kHardmax;
  const uint32_t lanes = lanes_for(push.rows, push.extent, push.inner == 1, 3);
  if (lanes == 0) return nullptr;
  const uint32_t kind = hard ? 2 : attrs.kind == SoftmaxAttrs::Kind::kLogSoftmax ? 1 : 0;
  return std::make_unique<SoftmaxKernel>(spec.outputs[0].dtype, kind, lanes, push);
}

}  // namespace smelt::vulkan
