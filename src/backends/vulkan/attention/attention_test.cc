#include "ops/attention/attention.h"

#include "ops/gather/gather.h"
#include "tests/support/vulkan_check.h"

namespace smelt::vulkan {
namespace {

class VulkanAttention : public VulkanTest {};

Tolerance near(DType dtype) { return dtype == DType::kF16 ? Tolerance{4e-3, 4e-3} : Tolerance{2e-5, 2e-5}; }
Tensor x_of(DType dtype, const Shape& shape, uint32_t seed) { return random_tensor(dtype, shape, -2, 2, seed); }
Tensor values(DType dtype, const Shape& shape) {
  Tensor t(dtype, shape);
  for (int64_t i = 0; i < t.elements(); ++i) set_double(t, i, static_cast<double>(i * 7 % 101));
  return t;
}
Tensor whole(DType dtype, const std::vector<double>& v) {
  return tensor(dtype, Shape{static_cast<int64_t>(v.size())}, v);
}

/// Operands of 2 batch entries, 4 query and 2 key heads.
OpCase attention(const std::string& label, DType dtype, const AttentionAttrs& a, int64_t rows, int64_t keys,
                 int64_t depth, int64_t v_depth, bool flat = false) {
  const Shape q = flat ? Shape{2, rows, 4 * depth} : Shape{2, 4, rows, depth};
  const Shape k = flat ? Shape{2, keys, 2 * depth} : Shape{2, 2, keys, depth};
  const Shape v = flat ? Shape{2, keys, 2 * v_depth} : Shape{2, 2, keys, v_depth};
  AttentionAttrs own = a;
  if (flat) {
    own.num_heads = 4;
    own.kv_heads = 2;
  }
  return {label,
          Op::kAttention,
          make_attrs<AttentionAttrs>(own),
          {x_of(dtype, q, 1), x_of(dtype, k, 2), x_of(dtype, v, 3)}};
}

TEST_F(VulkanAttention, Layouts) {
  for (DType dtype : {DType::kF32, DType::kF16})
    for (bool flat : {false, true}) {
      check_on_gpu(attention("small", dtype, {}, 3, 5, 8, 6, flat), "attention", near(dtype));
      check_on_gpu(attention("chunks", dtype, {}, 2, 1100, 16, 130, flat), "attention", near(dtype));
    }
}

TEST_F(VulkanAttention, Attributes) {
  for (DType dtype : {DType::kF32, DType::kF16})
    for (int variant = 0; variant < 8; ++variant) {
      AttentionAttrs a;
      a.causal = variant != 3;
      a.causal_from_end = variant == 1 || variant == 2;
      a.softcap = variant == 4 ? 1.5 : 0;
      a.window = variant == 2 || variant == 3 ? 4 : variant == 7 ? 0 : -1;
      a.window_right = variant == 3 ? 2 : -1;
      a.scale = variant == 5 ? 0.7 : 0;
      a.smooth_softmax = variant == 6;
      check_on_gpu(attention(Cat("variant ", variant), dtype, a, 7, 20, 8, 8), "attention", near(dtype));
    }
}

TEST_F(VulkanAttention, Masks) {
  for (DType dtype : {DType::kF32, DType::kF16})
    for (DType mask : {DType::kBool, DType::kF32, DType::kF16}) {
      if (dtype == DType::kF32 && mask == DType::kF16) continue;
      for (const Shape& shape :
           {Shape{7, 20}, Shape{2, 1, 1, 20}, Shape{2, 4, 7, 20}, Shape{20}, Shape{7, 1}, Shape{1, 4, 7, 15}}) {
        OpCase c = attention(Cat("mask ", shape.str()), dtype, {}, 7, 20, 8, 8);
        c.inputs.push_back(mask == DType::kBool ? random_tensor(mask, shape, 0, 1, 4) : x_of(mask, shape, 4));
        check_on_gpu(c, "attention", near(dtype));
      }
    }
  // A row without any visible key is zero.
  OpCase c = attention("nothing visible", DType::kF32, {}, 3, 5, 8, 8);
  c.inputs.push_back(tensor(DType::kBool, Shape{3, 5}, std::vector<double>(15, 0)));
  check_on_gpu(c, "attention");
}

/// One more logit of each head.
TEST_F(VulkanAttention, Sinks) {
  for (DType dtype : {DType::kF32, DType::kF16})
    for (bool smooth : {false, true}) {
      AttentionAttrs a;
      a.smooth_softmax = smooth;
      OpCase c = attention(smooth ? "smooth" : "sinks", dtype, a, 3, 20, 8, 8);
      c.inputs.resize(8);
      c.inputs[7] = tensor(dtype, Shape{4}, {-INFINITY, 3, -2, 0.5});
      check_on_gpu(c, "attention", near(dtype));
    }
}

TEST_F(VulkanAttention, PastAndLengths) {
  for (DType dtype : {DType::kF32, DType::kF16})
    for (bool flat : {false, true}) {
      AttentionAttrs a;
      a.causal = a.causal_from_end = true;
      OpCase c = attention("past", dtype, a, 3, 3, 8, 6, flat);
      c.inputs.resize(6);
      c.inputs[4] = x_of(dtype, Shape{2, 2, 9, 8}, 5);
      c.inputs[5] = x_of(dtype, Shape{2, 2, 9, 6}, 6);
      c.outputs.resize(3);
      check_on_gpu(c, "attention", near(dtype));
      for (DType whole_type : {DType::kI32, DType::kI64})
        for (const std::vector<double>& lengths : {std::vector<double>{5}, {9, 4}}) {
          OpCase l = attention("lengths", dtype, a, 3, 10, 8, 6, flat);
          l.inputs.resize(7);
          l.inputs[6] = whole(whole_type, lengths);
          check_on_gpu(l, "attention", near(dtype));
        }
    }
}

TEST_F(VulkanAttention, LengthOutOfRange) {
  for (DType whole_type : {DType::kI32, DType::kI64}) {
    OpCase c = attention("length", DType::kF32, {}, 3, 10, 8, 6);
    c.inputs.resize(7);
    c.inputs[6] = whole(whole_type, {-1});
    const auto r = run_on_gpu(c);
    ASSERT_FALSE(r.ok());
    EXPECT_EQ(r.error().code(), ErrorCode::kInvalidInput);
  }
}

TEST_F(VulkanAttention, Rotary) {
  for (const auto& [dtype, table] :
       {std::pair{DType::kF32, DType::kF32}, std::pair{DType::kF16, DType::kF16}, std::pair{DType::kF16, DType::kF32}})
    for (int layout = 0; layout < 3; ++layout)
      for (int ids = 0; ids < 6; ++ids)
        for (bool interleaved : {false, true}) {
          RotaryAttrs a;
          a.interleaved = interleaved;
          a.num_heads = layout == 0 ? 3 : 0;
          a.batch_seq_heads = layout == 2;
          a.rotary_dim = interleaved ? 6 : 0;
          a.scale = ids == 2 ? 0.5 : 1;
          const int64_t fp16 = interleaved ? 3 : 4;
          const Shape x = layout == 0 ? Shape{2, 5, 24} : layout == 1 ? Shape{2, 3, 5, 8} : Shape{2, 5, 3, 8};
          OpCase c{Cat("layout ", layout, " ids ", ids), Op::kRotary, make_attrs<RotaryAttrs>(a), {x_of(dtype, x, 1)}};
          const Shape rows = ids == 0 ? Shape{5, fp16} : ids == 1 ? Shape{2, 5, fp16} : Shape{16, fp16};
          c.inputs.push_back(x_of(table, rows, 2));
          c.inputs.push_back(x_of(table, rows, 3));
          if (ids == 2) c.inputs.push_back(whole(DType::kI64, {3, 4, 5, 6, 7, 15, 0, 1, 2, 3}));
          if (ids == 3) c.inputs.push_back(whole(DType::kI32, {3, 1, 4, 1, 5}));
          if (ids == 4) c.inputs.push_back(whole(DType::kI64, {11}));
          if (ids == 5) c.inputs.push_back(whole(DType::kI32, {11, 2}));
          check_on_gpu(c, "rotary", near(dtype));
        }
}

TEST_F(VulkanAttention, RotaryPositionOutOfRange) {
  OpCase c{"", Op::kRotary, make_attrs<RotaryAttrs>(), {x_of(DType::kF32, Shape{1, 2, 5, 8}, 1)}};
  for (uint32_t seed : {2u, 3u}) c.inputs.push_back(x_of(DType::kF32, Shape{16, 4}, seed));
  c.inputs.push_back(whole(DType::kI64, {12}));
  EXPECT_FALSE(run_on_gpu(c).ok());
}

TEST_F(VulkanAttention, KvAppend) {
  for (DType dtype : {DType::kI8, DType::kF16, DType::kF32, DType::kI64})
    for (DType start : {DType::kI32, DType::kI64})
      for (int64_t axis : {0, 1, 2}) {
        KvAppendAttrs a;
        a.axis = axis;
        Shape fresh{3, 5, 4};
        fresh[static_cast<int>(axis)] = 2;
        OpCase c{Cat(to_string(dtype), " ", axis),
                 Op::kKvAppend,
                 make_attrs<KvAppendAttrs>(a),
                 {x_of(dtype, Shape{3, 5, 4}, 1), x_of(dtype, fresh, 2), whole(start, {1})}};
        check_on_gpu(c, "kv_append");
        c.inputs[2] = whole(start, {static_cast<double>(Shape{3, 5, 4}[static_cast<int>(axis)])});
        EXPECT_FALSE(run_on_gpu(c).ok());
      }
}

TEST_F(VulkanAttention, TensorScatter) {
  for (DType dtype : {DType::kU8, DType::kF16, DType::kF32, DType::kI64})
    for (bool circular : {false, true}) {
      ScatterAttrs a;
      a.axis = -2;
      if (circular) a.reduction = ScatterAttrs::Reduce::kAdd;
      OpCase c{Cat(to_string(dtype), circular ? " circular" : ""),
               Op::kTensorScatter,
               make_attrs<ScatterAttrs>(a),
               {values(dtype, Shape{3, 2, 5, 4}), values(dtype, Shape{3, 2, 2, 4}), whole(DType::kI64, {0, 3, 1})}};
      check_on_gpu(c, "kv_append");
      c.inputs[2] = whole(DType::kI64, {0, circular ? 14.0 : 2.0, 4 - (circular ? 0.0 : 1.0)});
      check_on_gpu(c, "kv_append");
      c.inputs[2] = whole(DType::kI64, {0, circular ? -1.0 : 4.0, 1});
      EXPECT_FALSE(run_on_gpu(c).ok());
    }
}

/// 2 batch entries, 4 query and 2 key heads of 8.
struct Grouped {
  int64_t rows, past = 0, capacity;
  std::vector<double> last;  ///< valid positions
  bool packed = false, bias = false, positions = false, sinks = false;
};

OpCase grouped(const Grouped& g, const GroupQueryAttrs& given, DType dtype) {
  GroupQueryAttrs a = given;
  a.num_heads = 4;
  a.kv_heads = 2;
  OpCase c{Cat(to_string(dtype), " ", g.rows, " rows, past ", g.past), Op::kGroupQueryAttention,
           make_attrs<GroupQueryAttrs>(a)};
  c.inputs.resize(12);
  c.inputs[0] = x_of(dtype, Shape{2, g.rows, g.packed ? 64 : 32}, 1);
  if (!g.packed) c.inputs[1] = x_of(dtype, Shape{2, g.rows, 16}, 2);
  if (!g.packed) c.inputs[2] = x_of(dtype, Shape{2, g.rows, 16}, 3);
  if (g.past > 0) c.inputs[3] = x_of(dtype, Shape{2, 2, g.past, 8}, 4);
  if (g.past > 0) c.inputs[4] = x_of(dtype, Shape{2, 2, g.past, 8}, 5);
  c.inputs[5] = whole(DType::kI32, g.last);
  c.inputs[6] = tensor(DType::kI32, Shape{}, {static_cast<double>(g.capacity)});
  if (a.rotary)
    for (size_t i : {7u, 8u}) c.inputs[i] = x_of(dtype, Shape{16, 4}, 6 + static_cast<uint32_t>(i));
  if (g.positions)
    c.inputs[9] = tensor(DType::kI64, Shape{2, g.rows}, std::vector<double>(2 * static_cast<size_t>(g.rows), 3));
  if (g.bias) c.inputs[10] = x_of(dtype, Shape{1, 4, g.rows, g.capacity}, 9);
  if (g.sinks) c.inputs[11] = x_of(dtype, Shape{4}, 10);
  c.inputs.resize(g.sinks ? 12 : g.bias ? 11 : g.positions ? 10 : a.rotary ? 9 : 7);
  c.constants = {6};
  const Shape present{2, 2, g.capacity, 8};
  c.outputs = {{}, ValueType::tensor(dtype, present), ValueType::tensor(dtype, present)};
  return c;
}

/// Caches that come in without rows, as at a decoder's first call.
TEST_F(VulkanAttention, GroupedQueriesWithEmptyCaches) {
  for (int64_t total : {3, 5})
    for (const bool constant_length : {true, false}) {
      GroupQueryAttrs a;
      a.rotary = true;
      OpCase c = grouped({3, 0, total, {static_cast<double>(total) - 1, 2}}, a, DType::kF32);
      c.inputs[3] = c.inputs[4] = Tensor(DType::kF32, Shape{2, 2, 0, 8});
      if (!constant_length) c.constants.clear();
      check_on_gpu(c, "attention");
    }
}

TEST_F(VulkanAttention, GroupedQueries) {
  const std::vector<Grouped> all = {{3, 0, 3, {2, 2}},
                                    {3, 0, 5, {2, 2}},
                                    {3, 0, 3, {2, 1}, true},
                                    {1, 6, 6, {4, 2}},
                                    {1, 6, 6, {4, 2}, true},
                                    {2, 6, 8, {7, 3}},
                                    {3, 6, 6, {5, 3}},
                                    {6, 6, 6, {5, 3}},
                                    {1, 6, 6, {5, 3}, false, true},
                                    {2, 4, 6, {5, 3}, false, false, true},
                                    {1, 6, 6, {4, 2}, false, false, false, true}};
  for (const Grouped& g : all)
    for (int variant = 0; variant < 6; ++variant) {
      GroupQueryAttrs a;
      a.rotary = variant % 2 == 1 || g.positions;
      a.interleaved = variant == 3;
      if (variant == 2) a.window = 2;
      if (variant == 4) a.softcap = 3;
      if (variant == 5) a.scale = 0.2, a.smooth_softmax = true;
      for (DType dtype : {DType::kF32, DType::kF16}) {
        OpCase c = grouped(g, a, dtype);
        check_on_gpu(c, "attention", near(dtype));
        c.constants.clear();  // a total length that a run gives
        check_on_gpu(c, "attention", near(dtype));
      }
    }
  OpCase c = grouped({1, 6, 6, {6, 2}}, {}, DType::kF32);
  EXPECT_FALSE(run_on_gpu(c).ok());
  c.constants.clear();
  EXPECT_FALSE(run_on_gpu(c).ok());
}

/// A total below the rows leaves no room for them.
TEST_F(VulkanAttention, GroupedQueriesOfMoreRowsThanTheCacheHas) {
  for (const bool constant_length : {true, false})
    for (int64_t past : {0, 2}) {
      OpCase c = grouped({4, past, 3, {3, 3}}, {}, DType::kF32);
      if (!constant_length) c.constants.clear();
      const auto out = run_on_gpu(c);
      ASSERT_FALSE(out.ok());
      EXPECT_NE(out.error().message().find("does not fit 4 rows and a cache of 3"), std::string::npos)
          << out.error().message();
    }
}

}  // namespace
}  // namespace smelt::vulkan
