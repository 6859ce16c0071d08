#include <algorithm>

#include "backends/cpu/attention/row_attention.h"
#include "backends/cpu/core/kernel.h"
#include "base/thread_pool.h"
#include "ops/attention/rotary.h"

namespace smelt {
namespace {

class RotaryF32 final : public Kernel {
 public:
  RotaryF32(const RotaryGeometry& g, const KernelSpec& spec)
      : g_(g), interleaved_(spec.attrs<RotaryAttrs>().interleaved), ops_(row_attention(spec.isa)) {}
  Status run(KernelContext& ctx) const override {
    for (int64_t i = 0; i < g_.batch * g_.length; ++i) SMELT_TRY(rotary_row(ctx, g_, i / g_.length, i % g_.length));
    const auto *x = ctx.input(0).data<float>(), *cos = ctx.input(1).data<float>(), *sin = ctx.input(2).data<float>();
    auto* y = ctx.output(0).data<float>();
    const int64_t grain = std::max<int64_t>(1, 8192 / (g_.heads * g_.depth));
    ctx.threads().parallel_for(g_.batch * g_.length, grain, [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end; ++at) {
        const int64_t b = at / g_.length, i = at % g_.length, half = g_.rotary / 2;
        const int64_t angles = rotary_row(ctx, g_, b, i).value() * half;
        for (int64_t h = 0; h < g_.heads; ++h) {
          const int64_t head = b * g_.batch_stride + h * g_.head_stride + i * g_.step;
          rotate_row(ops_, interleaved_, x + head, cos + angles, sin + angles, half, y + head);
          std::copy(x + head + g_.rotary, x + head + g_.depth, y + head + g_.rotary);
        }
      }
    });
    return Ok();
  }

 private:
  RotaryGeometry g_;
  bool interleaved_;
  const RowAttention& ops_;
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_rotary_f32(const KernelSpec& spec) {
  const auto& a = spec.attrs<RotaryAttrs>();
  const auto g = rotary_geometry(a, spec.inputs[0].shape, spec.inputs[1].shape, spec.inputs[2].shape);
  if (a.scale != 1) return spec.refuse("results that are scaled");
  if (!g.ok() || g->rotary < 2 || spec.outputs[0].shape.elements() == 0) return nullptr;
  return std::make_unique<RotaryF32>(*g, spec);
}

}  // namespace smelt
