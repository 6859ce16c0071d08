#include <algorithm>

#include "backends/cpu/core/kernel.h"
#include "backends/cpu/core/vector_ops.h"
#include "ops/common/index.h"
#include "ops/softmax/softmax.h"

namespace smelt {
namespace {

class SoftmaxF32 final : public Kernel {
 public:
  SoftmaxF32(int64_t rows, int64_t n, const SoftmaxAttrs& attrs, const VectorOps& ops)
      : rows_(rows),
        n_(n),
        beta_(static_cast<float>(attrs.beta)),
        logarithm_(attrs.kind == SoftmaxAttrs::Kind::kLogSoftmax),
        ops_(ops) {}
  Status run(KernelContext& ctx) const override {
    const float* x = ctx.input(0).data<float>();
    float* y = ctx.output(0).data<float>();
    ctx.threads().parallel_for(rows_, std::max<int64_t>(1, 4096 / n_), [&](int64_t begin, int64_t end) {
      ops_.softmax(x + begin * n_, end - begin, n_, beta_, logarithm_, y + begin * n_);
    });
    return Ok();
  }

 private:
  int64_t rows_, n_;
  float beta_;
  bool logarithm_;
  const VectorOps& ops_;
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_softmax_f32(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<SoftmaxAttrs>();
  const Shape& shape = spec.inputs[0].shape;
  if (shape.rank() == 0 || shape.elements() == 0) return nullptr;
  if (attrs.kind == SoftmaxAttrs::Kind::kHardmax) return nullptr;
  if (!(attrs.beta >= 0)) return spec.refuse("a negative factor");
  const int axis = static_cast<int>(attrs.axis < 0 ? attrs.axis + shape.rank() : attrs.axis);
  if (axis < 0 || axis >= shape.rank()) return nullptr;
  // The values of one group must lie side by side.
  const int64_t n = product(shape, axis, shape.rank());
  if (!attrs.flatten && n != shape[axis]) return spec.refuse("strided values");
  return std::make_unique<SoftmaxF32>(product(shape, 0, axis), n, attrs, vector_ops(spec.isa));
}

}  // namespace smelt
