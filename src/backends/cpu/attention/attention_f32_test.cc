#include <limits>

#include "base/cat.h"
#include "ops/attention/attention.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

struct Row {
  int64_t batch, heads, kv_heads, rows, keys, depth, v_depth;
  bool flat, causal, softcap;
  Shape mask;
  DType mask_type = DType::kF32;
};

OpCase attention(const Row& r) {
  AttentionAttrs a;
  if (r.flat) a.num_heads = r.heads, a.kv_heads = r.kv_heads;
  a.causal = a.causal_from_end = r.causal;
  if (r.softcap) a.softcap = 2, a.window = 3, a.scale = 0.7;
  const auto operand = [&](int64_t heads, int64_t length, int64_t depth, uint32_t seed) {
    const Shape shape = r.flat ? Shape{r.batch, length, heads * depth} : Shape{r.batch, heads, length, depth};
    return random_tensor(DType::kF32, shape, -2, 2, seed);
  };
  OpCase c{Cat("rows ", r.rows, " keys ", r.keys, " depth ", r.depth),
           Op::kAttention,
           make_attrs<AttentionAttrs>(a),
           {operand(r.heads, r.rows, r.depth, 1), operand(r.kv_heads, r.keys, r.depth, 2),
            operand(r.kv_heads, r.keys, r.v_depth, 3)},
           {},
           std::vector<ValueType>(1),
           true};
  if (r.mask.rank() == 0) return c;
  c.inputs.push_back(random_tensor(r.mask_type, r.mask, 0, 1, 4));
  c.constants = {3};
  Tensor& mask = c.inputs.back();
  if (r.mask_type == DType::kBool) return c;
  for (int64_t i = 0; i < mask.elements(); i += 3) mask.data<float>()[i] = -std::numeric_limits<float>::infinity();
  return c;
}

const Row kRows[] = {{1, 1, 1, 1, 1, 1, 1, false, false, false, {}},
                     {2, 4, 2, 5, 7, 8, 3, true, false, false, {}},
                     {2, 4, 2, 1, 19, 8, 3, true, false, false, {2, 1, 1, 19}},
                     {1, 6, 2, 1, 40, 20, 24, false, true, true, {}},
                     {2, 9, 3, 1, 83, 64, 64, false, false, false, {}},
                     {1, 6, 1, 1, 83, 80, 65, true, true, false, {}},
                     {1, 3, 3, 65, 65, 16, 16, false, false, false, {}},
                     {1, 2, 2, 33, 40, 20, 24, false, true, false, {}},
                     {1, 6, 2, 9, 50, 5, 33, true, true, true, {}},
                     {2, 2, 2, 6, 6, 4, 4, false, false, false, {2, 1, 1, 6}},
                     {2, 2, 1, 6, 19, 4, 4, true, false, false, {6, 19}, DType::kBool},
                     {1, 2, 2, 4, 9, 4, 4, false, true, false, {1, 2, 4, 7}},
                     {1, 1, 1, 2, 3, 4, 4, false, false, false, {2, 1}},
                     // Blocks of queries that see a part of the keys.
                     {1, 2, 1, 300, 310, 8, 8, true, true, false, {}},
                     {1, 1, 1, 300, 300, 8, 8, false, true, true, {}},
                     {1, 1, 1, 300, 300, 8, 8, false, true, false, {300, 300}},
                     // Rows of queries and of scores that collide.
                     {1, 16, 16, 20, 30, 64, 8, true, false, false, {}},
                     {1, 1, 1, 20, 1024, 8, 8, false, false, false, {}}};

TEST(AttentionF32, LayoutsMasksAndWindows) {
  for (const Row& r : kRows) check_on_cpu(attention(r), "attention_f32");
}

TEST(AttentionF32, NanStays) {
  for (const Row& r : kRows) {
    OpCase c = attention(r);
    c.inputs[0].data<float>()[c.inputs[0].elements() - 1] = std::numeric_limits<float>::quiet_NaN();
    check_on_cpu(c, "attention_f32");
  }
}

TEST(AttentionF32, BoundedScoresOfAllKeys) {
  for (const int64_t rows : {1, 9}) {
    OpCase c = attention({1, 4, 2, rows, 50, 8, 8, true, false, false, {1, 1, 1, 50}});
    auto a = static_cast<const AttentionAttrs&>(*c.attrs);
    a.softcap = 1.5;
    c.attrs = make_attrs<AttentionAttrs>(a);
    check_on_cpu(c, "attention_f32");
  }
}

TEST(AttentionF32, CacheWithRowsThatAreNotInUse) {
  for (const int64_t rows : {1, 9})
    for (const int64_t used : {0, 1, 17, 49})
      for (const Shape& mask : {Shape{1, 1, 1, 50}, Shape{2, 1, rows, 50}, Shape{2, 4, rows, 50}}) {
        OpCase c = attention({2, 4, 2, rows, 50, 8, 8, true, false, false, mask});
        float* const added = c.inputs[3].data<float>();
        for (const float hidden :
             {-std::numeric_limits<float>::infinity(), std::numeric_limits<float>::lowest(), -1e4f}) {
          for (int64_t i = 0; i < mask.elements(); ++i) {
            const bool second = i / 50 % mask[2] == 1;  // query, which sees fewer
            if (i % 50 >= (second ? used / 2 : used)) added[i] = hidden;
          }
          check_on_cpu(c, "attention_f32");
        }
      }
}

// Scores and probabilities are rounded by 2^-8, values are at most 2.
TEST(AttentionBf16, LayoutsMasksAndWindows) {
  if (!machine_has(Isa::kBf16)) GTEST_SKIP() << "this machine has no AVX-512 BF16";
  for (const Isa isa : bf16_isas())
    for (const Row& r : kRows) check_named(attention(r), "attention_bf16", isa, {0.04, 0});
}

TEST(AttentionF32, KeyLengthsAndHiddenRows) {
  OpCase c = attention({2, 2, 2, 4, 9, 8, 8, false, true, false, {}});
  c.inputs.resize(7);
  c.inputs[6] = i64({9, 2});
  check_on_cpu(c, "attention_f32");
  // Caches of which the first keys count, for a token and for a prompt.
  for (const int64_t rows : {1, 3, 40})
    for (const bool flat : {false, true})
      for (const bool causal : {false, true}) {
        c = attention({2, 6, 2, rows, 90, 20, 24, flat, causal, false, {}});
        c.inputs.resize(7);
        c.inputs[6] = i64({83});
        check_on_cpu(c, "attention_f32");
      }
  c = attention({1, 6, 2, 1, 50, 16, 16, false, true, true, {}});
  c.inputs.resize(7);
  c.inputs[6] = i64({0});
  check_on_cpu(c, "attention_f32");
}

}  // namespace
}  // namespace smelt
