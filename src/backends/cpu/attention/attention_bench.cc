#include "base/cat.h"
#include "bench/kernels/cases.h"
#include "ops/attention/attention.h"

namespace smelt::bench {
using namespace smelt::test;

SMELT_BENCH_CASES(attention) {
  constexpr int64_t kHeads = 12, kTokens = 128, kDepth = 64;
  const double operations = 4.0 * kHeads * kTokens * kTokens * kDepth;
  for (const DType t : {DType::kF32, DType::kF16}) {
    const auto random = [&](uint32_t seed) { return random_tensor(t, {1, kHeads, kTokens, kDepth}, -1, 1, seed); };
    OpCase c{Cat("attention/", to_string(t)),
             Op::kAttention,
             make_attrs<AttentionAttrs>(),
             {random(1), random(2), random(3)}};
    cases.add(c, operations);
  }
  const Shape angles{kTokens, kDepth / 2};
  cases.add({"rotary",
             Op::kRotary,
             make_attrs<RotaryAttrs>(),
             {f32({1, kHeads, kTokens, kDepth}), f32(angles), f32(angles)}});
  // One token of a decoder whose caches hold 127.
  constexpr int64_t kKvHeads = 4, kPast = 127;
  GroupQueryAttrs a;
  a.num_heads = kHeads;
  a.kv_heads = kKvHeads;
  OpCase c{"grouped_query_attention/decode", Op::kGroupQueryAttention, make_attrs<GroupQueryAttrs>(a)};
  const Shape kv{1, 1, kKvHeads * kDepth}, cache{1, kKvHeads, kPast, kDepth};
  c.inputs = {f32({1, 1, kHeads * kDepth}),
              f32(kv, 2),
              f32(kv, 3),
              f32(cache, 4),
              f32(cache, 5),
              Tensor::from<int32_t>(DType::kI32, {1}, std::vector<int32_t>{kPast}),
              Tensor::from<int32_t>(DType::kI32, {}, std::vector<int32_t>{kPast + 1})};
  c.constants = {6};
  c.outputs = {{}, ValueType::tensor(DType::kF32), ValueType::tensor(DType::kF32)};
  cases.add(c, 4.0 * kHeads * (kPast + 1) * kDepth);
}

}  // namespace smelt::bench
