#include "ops/attention/attention.h"
#include "tests/support/vulkan_check.h"

namespace smelt::vulkan {
namespace {

class VulkanLinearAttention : public VulkanTest {};

/// With and without decay (of heads, of keys), correction and a state from before, in one dispatch and many.
TEST_F(VulkanLinearAttention, States) {
  for (DType dtype : {DType::kF32, DType::kF16})
    for (int64_t steps : {1, 7, 300})
      for (int kind = 0; kind < 8; ++kind) {
        LinearAttentionAttrs a;
        a.q_heads = 4;
        a.kv_heads = 2;
        a.gated = kind & 1;
        a.delta = kind & 2;
        a.scale = kind == 3 ? 0.25 : 0;
        const bool past = kind & 4;
        const int64_t key = steps == 300 ? 96 : 8, value = 6;
        if (steps == 300 && (dtype == DType::kF16 || kind != 7)) continue;
        const auto rows = [&](int64_t width, double low, double high, uint32_t seed) {
          return random_tensor(dtype, {2, steps, width}, low, high, seed);
        };
        OpCase c{Cat(to_string(dtype), " ", steps, " steps, kind ", kind),
                 Op::kLinearAttention,
                 make_attrs<LinearAttentionAttrs>(a),
                 {rows(a.q_heads * key, -1, 1, 1), rows(a.kv_heads * key, -0.3, 0.3, 2),
                  rows(a.kv_heads * value, -1, 1, 3), Tensor(), Tensor(), Tensor()},
                 {},
                 std::vector<ValueType>(2)};
        if (past) c.inputs[3] = random_tensor(dtype, {2, a.kv_heads, key, value}, -1, 1, 4);
        if (a.gated) c.inputs[4] = rows(past ? a.kv_heads * key : a.kv_heads, -1, 0, 5);
        if (a.delta) c.inputs[5] = rows(past ? 1 : a.kv_heads, 0, 1, 6);
        const double near = dtype == DType::kF16 ? 1e-2 : 1e-4;
        check_on_gpu(c, dtype == DType::kF16 ? "legalized_types" : "linear_attention", {near, near});
      }
}

}  // namespace
}  // namespace smelt::vulkan
