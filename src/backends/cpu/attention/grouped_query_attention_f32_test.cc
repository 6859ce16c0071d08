#include <array>

#include "base/cat.h"
#include "ops/attention/attention.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

struct GroupQueryRow {
  int64_t rows, past, total;
  std::vector<int32_t> last;  ///< the place of the last row, one a batch entry
  bool packed = false, positions = false, sinks = false;
};

OpCase grouped(const GroupQueryRow& r, GroupQueryAttrs a, int64_t depth = 8, int64_t share = 2) {
  a.num_heads = 2 * share;
  a.kv_heads = 2;
  const auto batch = static_cast<int64_t>(r.last.size());
  const auto any = [](const Shape& shape, uint32_t seed) { return random_tensor(DType::kF32, shape, -2, 2, seed); };
  OpCase c{Cat(r.rows, " rows, past ", r.past, " total ", r.total), Op::kGroupQueryAttention,
           make_attrs<GroupQueryAttrs>(a)};
  c.inputs.resize(12);
  c.inputs[0] = any({batch, r.rows, (2 * share + (r.packed ? 4 : 0)) * depth}, 1);
  if (!r.packed) c.inputs[1] = any({batch, r.rows, 2 * depth}, 2);
  if (!r.packed) c.inputs[2] = any({batch, r.rows, 2 * depth}, 3);
  if (r.past >= 0) c.inputs[3] = any({batch, 2, r.past, depth}, 4);
  if (r.past >= 0) c.inputs[4] = any({batch, 2, r.past, depth}, 5);
  c.inputs[5] = Tensor::from<int32_t>(DType::kI32, Shape{batch}, r.last);
  c.inputs[6] = Tensor(DType::kI32, Shape{});
  c.inputs[6].data<int32_t>()[0] = static_cast<int32_t>(r.total);
  if (a.rotary) c.inputs[7] = any({100, depth / 2 - (a.interleaved ? 1 : 0)}, 6);
  if (a.rotary) c.inputs[8] = any({100, depth / 2 - (a.interleaved ? 1 : 0)}, 7);
  if (r.positions) {
    c.inputs[9] = Tensor(DType::kI64, Shape{batch, r.rows});
    for (int64_t i = 0; i < batch * r.rows; ++i) c.inputs[9].data<int64_t>()[i] = (i * 7) % 90;
  }
  if (r.sinks) c.inputs[11] = any({2 * share}, 8);
  c.constants = {6, 7, 8, 9};
  c.outputs = {{}, ValueType::tensor(DType::kF32), ValueType::tensor(DType::kF32)};
  c.threaded = true;
  return c;
}

const std::vector<GroupQueryRow> kRows = {{1, 6, 7, {6}},
                                          {1, 6, 7, {6}, true},
                                          {1, 6, 6, {4, 2}},  // a cache with workspace
                                          {1, 0, 1, {0, 0}},
                                          {3, 0, 3, {2, 1}},  // a prompt, padded behind its end
                                          {3, -1, 3, {2, 2}},
                                          {3, -1, 3, {2, 2}, true},
                                          {5, 9, 14, {13, 7}, false, true},
                                          {6, 6, 6, {5, 3}},  // a prompt over an old cache
                                          {40, 30, 70, {69, 65}, true}};

TEST(GroupQueryKernel, Caches) {
  for (const GroupQueryRow& r : kRows)
    for (int variant = 0; variant < 5; ++variant) {
      GroupQueryAttrs a;
      a.rotary = variant % 2 == 1 || r.positions;
      a.interleaved = variant == 3;
      if (variant == 2) a.window = 2;
      if (variant == 4) a.softcap = 3, a.scale = 0.2;
      SCOPED_TRACE(variant);
      check_on_cpu(grouped(r, a), "grouped_query_attention_f32", {1e-5, 1e-4});
    }
  check_on_cpu(grouped({1, 900, 901, {900}}, {}, 64), "grouped_query_attention_f32", {1e-5, 1e-4});
  check_on_cpu(grouped({70, 900, 970, {969}}, {}, 24), "grouped_query_attention_f32", {1e-5, 1e-4});
}

/// One query a head: tiles of heads, keys and entries, and what is left of them.
TEST(GroupQueryKernel, OneRow) {
  for (const int64_t share : {1, 3, 4, 6})
    for (const int64_t depth : {6, 64, 76})
      for (const int64_t past : {3, 70}) {
        GroupQueryAttrs a;
        a.rotary = share == 3;
        a.window = share == 4 ? 5 : -1;
        SCOPED_TRACE(Cat(share, " heads a key, depth ", depth));
        const auto last = static_cast<int32_t>(past);
        check_on_cpu(grouped({1, past, past + 1, {last, last - 2}, depth == 64}, a, depth, share),
                     "grouped_query_attention_f32", {1e-5, 1e-4});
      }
}

/// Caches of as many rows as go in, behind a window of 5: with room, full, losing one row or more, prompts that are
/// longer than the cache.
TEST(GroupQueryKernel, CachesOfAWindow) {
  for (const auto& [rows, past, last] : {std::array<int32_t, 3>{1, 8, 5},
                                         {1, 8, 7},
                                         {1, 8, 8},
                                         {1, 8, 30},
                                         {1, 5, 40},
                                         {3, 8, 4},
                                         {3, 8, 9},
                                         {7, 8, 6},
                                         {20, 8, 19},
                                         {20, 5, 33},
                                         {40, 9, 57}})
    for (int variant = 0; variant < 3; ++variant) {
      GroupQueryAttrs a;
      a.window = 5;
      a.window_cache = true;
      a.rotary = variant == 1;
      const std::vector<int32_t> at(rows == 1 ? 2 : 1, last);
      SCOPED_TRACE(Cat(rows, " rows, cache of ", past, ", last row ", last, ", variant ", variant));
      check_on_cpu(grouped({rows, past, last + 1, at, variant == 2}, a), "grouped_query_attention_f32", {1e-5, 1e-4});
    }
}

TEST(GroupQueryKernel, Sinks) {
  for (const auto& [smooth, sinks] : {std::pair{false, true}, {true, false}, {true, true}})
    for (const GroupQueryRow& r : {GroupQueryRow{1, 6, 7, {6}}, {5, 9, 14, {13}}, {40, 30, 70, {69}, true}}) {
      GroupQueryAttrs a;
      a.smooth_softmax = smooth;
      GroupQueryRow row = r;
      row.sinks = sinks;
      check_on_cpu(grouped(row, a), "grouped_query_attention_f32", {1e-5, 1e-4});
    }
}

/// The message is the reference's.
TEST(GroupQueryKernel, RowsBeyondTheCacheOrTheRotaryTable) {
  GroupQueryAttrs turned;
  turned.rotary = true;
  for (const auto& [row, attrs] :
       {std::pair{GroupQueryRow{1, 6, 6, {6}}, GroupQueryAttrs{}}, {{1, 120, 121, {120}}, turned}})
    check_fails_alike(grouped(row, attrs));
}

}  // namespace
}  // namespace smelt
