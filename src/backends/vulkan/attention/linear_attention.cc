// Linear attention: a state that each token decays, corrects and reads.
#include <algorithm>
#include <cmath>

#include "backends/vulkan/core/type_checks.h"
#include "backends/vulkan/device/alignment.h"
#include "backends/vulkan/record/kernel_recorder.h"
#include "ops/attention/attention.h"
#include "shaders/linear_attention.h"

namespace smelt::vulkan {
namespace {

class LinearAttention final : public Kernel {
 public:
  shaders::LinearAttention::Push push{};
  bool gated = false, delta = false, past = false, keeps = false;  ///< keeps: the state is a result
  uint32_t steps_per_dispatch = 1;

  size_t scratch_bytes() const override { return keeps ? 0 : align_binding(state_bytes()); }
  bool reads(size_t i) const override { return i < 4 || (i == 4 ? gated : delta); }
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding q, r.input(0));
    SMELT_ASSIGN(const Binding k, r.input(1));
    SMELT_ASSIGN(const Binding v, r.input(2));
    Binding decay = q, beta = q;
    if (gated) {
      SMELT_ASSIGN(decay, r.input(4));
    }
    if (delta) {
      SMELT_ASSIGN(beta, r.input(5));
    }
    const Binding state = keeps ? r.output(1) : r.scratch(0, state_bytes(), true);
    if (past) {
      SMELT_ASSIGN(const Binding before, r.input(3));
      r.copy(before, state);
    } else {
      r.fill(state, 0);
    }
    shaders::LinearAttention::Push p = push;
    for (p.first = 0; p.first < p.steps; p.first += p.count) {
      p.count = std::min(steps_per_dispatch, p.steps - p.first);
      SMELT_TRY(r.run(shaders::linear_attention, {.gated = gated, .delta = delta},
                      {q, k, v, decay, beta, state, r.output(0)}, Grid::flat(push.n, kWidth), p));
    }
    return Ok();
  }

 private:
  size_t state_bytes() const { return size_t{push.n} * push.key * sizeof(float); }
};

}  // namespace

std::unique_ptr<Kernel> make_linear_attention(const KernelSpec& spec) {
  const auto& a = spec.attrs<LinearAttentionAttrs>();
  if (wanted(spec, 1) && (spec.outputs[1].dtype != DType::kF32 || spec.outputs[1].quant)) return nullptr;
  const Shape &q = spec.inputs[0].shape, &v = spec.inputs[2].shape;
  if (q.rank() != 3 || v.rank() != 3 || !wanted(spec, 0) || (a.gated && !spec.has(4)) || (a.delta && !spec.has(5)))
    return nullptr;
  const int64_t tokens = q[0] * q[1], key = q[2] / a.q_heads, value = v[2] / a.kv_heads;
  const auto width = [&](size_t i) { return spec.has(i) ? spec.inputs[i].shape.elements() / tokens : 0; };
  const int64_t decays = width(4), betas = width(5), n = q[0] * a.kv_heads * value;
  if (a.gated && decays != a.kv_heads && decays != a.kv_heads * key) return nullptr;
  if (a.delta && betas != a.kv_heads && betas != 1) return nullptr;
  if (n * key > INT32_MAX || (spec.has(3) && spec.inputs[3].shape.elements() != n * key)) return nullptr;
  const int64_t iterations = key * (2 + a.q_heads / a.kv_heads) + a.q_heads / a.kv_heads + 1;
  if (iterations > kMaxLoopIterations) return nullptr;
  auto k = std::make_unique<LinearAttention>();
  k->push = {.n = u32(n),
             .steps = u32(q[1]),
             .key = u32(key),
             .value = u32(value),
             .q_heads = u32(a.q_heads),
             .kv_heads = u32(a.kv_heads),
             .decay_width = u32(decays),
             .beta_width = u32(betas)};
  k->push.scale = static_cast<float>(a.scale != 0 ? a.scale : 1 / std::sqrt(static_cast<double>(key)));
  k->gated = a.gated;
  k->delta = a.delta;
  k->past = spec.has(3);
  k->keeps = wanted(spec, 1);
  k->steps_per_dispatch = u32(kMaxLoopIterations / iterations);
  return k;
}

}  // namespace smelt::vulkan
