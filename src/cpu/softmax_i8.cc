#include "cpu/kernel.h"
#include "ops/softmax/softmax_quantized.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

template <class In, class Out>
class SoftmaxI8 final : public Kernel {
 public:
  SoftmaxI8(const Softmax8& rule, const AxisView& view) : rule_(rule), v_(view) {}
  Status run(KernelContext& ctx) const override {
    const In* x = ctx.input(0).data<In>();
    Out* y = ctx.output(0).data<Out>();
    ctx.threads().parallel_for(v_.outer, 64, [&](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o)
        for (int64_t i = 0; i < v_.inner; ++i) {
          const int64_t at = o * v_.extent * v_.inner + i;
          rule_.group(x + at, v_.extent, v_.inner, y + at);
        }
    });
    return Ok();
  }

 private:
  Softmax8 rule_;
  AxisView v_;
};

}  // namespace

std::unique_ptr<Kernel> make_softmax_i8(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<SoftmaxAttrs>();
  const ValueType &x = spec.inputs[0], &y = spec.outputs[0];
  if (!is_softmax8(attrs, x, y) || x.shape.elements() == 0) return nullptr;
  const auto axis = normalize_axis(attrs.axis, x.shape.rank());
  if (!axis.ok()) return nullptr;
  const AxisView view = axis_view(x.shape, *axis);
  const Softmax8 rule(attrs.beta, x.quant->scale());
  if (x.dtype == DType::kI8 && y.dtype == DType::kI8) return std::make_unique<SoftmaxI8<int8_t, int8_t>>(rule, view);
  if (x.dtype == DType::kU8 && y.dtype == DType::kU8) return std::make_unique<SoftmaxI8<uint8_t, uint8_t>>(rule, view);
  return nullptr;
}

}  // namespace smelt
