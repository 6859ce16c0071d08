#include <algorithm>

#include "backends/cpu/core/kernel.h"
#include "backends/cpu/core/vector_ops.h"
#include "ops/common/index.h"
#include "ops/normalization/normalization.h"

namespace smelt {
namespace {

class LayerNormF32 final : public Kernel {
 public:
  LayerNormF32(int64_t rows, int64_t n, const LayerNormAttrs& attrs, bool scale, bool bias, const VectorOps& ops)
      : rows_(rows), n_(n), epsilon_(attrs.epsilon), rms_(attrs.rms), scale_(scale), bias_(bias), ops_(ops) {}
  Status run(KernelContext& ctx) const override {
    const float* x = ctx.input(0).data<float>();
    const float* scale = scale_ ? ctx.input(1).data<float>() : nullptr;
    const float* bias = bias_ ? ctx.input(2).data<float>() : nullptr;
    float* y = ctx.output(0).data<float>();
    ctx.threads().parallel_for(rows_, std::max<int64_t>(1, 4096 / n_), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) ops_.layer_norm(x + r * n_, n_, epsilon_, rms_, scale, bias, y + r * n_);
    });
    return Ok();
  }

 private:
  int64_t rows_, n_;
  double epsilon_;
  bool rms_, scale_, bias_;
  const VectorOps& ops_;
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_layer_norm_f32(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<LayerNormAttrs>();
  const Shape& shape = spec.inputs[0].shape;
  if (shape.rank() == 0 || shape.elements() == 0) return nullptr;
  for (size_t i = 1; i < spec.node.outputs.size(); ++i)
    if (spec.node.outputs[i] != kNoValue) return nullptr;
  const int axis = static_cast<int>(attrs.axis < 0 ? attrs.axis + shape.rank() : attrs.axis);
  if (axis < 0 || axis >= shape.rank()) return nullptr;
  const int64_t n = product(shape, axis, shape.rank());
  for (size_t i = 1; i <= 2; ++i) {  // one entry for each value of a row
    if (!spec.has(i)) continue;
    const Shape& s = spec.inputs[i].shape;
    if (s.elements() != n || s.rank() > shape.rank()) return nullptr;
    for (int d = 1; d <= s.rank(); ++d)
      if (s[s.rank() - d] != (shape.rank() - d >= axis ? shape[shape.rank() - d] : 1)) return nullptr;
  }
  return std::make_unique<LayerNormF32>(product(shape, 0, axis), n, attrs, spec.has(1), spec.has(2),
                                        vector_ops(spec.isa));
}

}  // namespace smelt
