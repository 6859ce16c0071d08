#include "ops/gather/gather.h"

#include <gtest/gtest.h>

#include "support/op_runner.h"

namespace smelt {
namespace {
using namespace smelt::test;
using Reduce = ScatterAttrs::Reduce;

Tensor ints(const Shape& shape, const std::vector<double>& v) { return tensor(DType::kI64, shape, v); }
Tensor strings(const std::vector<std::string>& v) {
  Tensor t(DType::kString, Shape{static_cast<int64_t>(v.size())});
  std::copy(v.begin(), v.end(), t.data<std::string>());
  return t;
}
Tensor mask(const Shape& shape, const std::vector<double>& v) { return tensor(DType::kBool, shape, v); }
const Tensor& matrix() {
  static const Tensor x = floats({2, 3}, {0, 1, 2, 3, 4, 5});
  return x;
}

TEST(Gather, AxesAndBatches) {
  GatherAttrs a;
  a.axis = 1;
  const Tensor y = OpRunner(Op::kGather, make_attrs<GatherAttrs>(a)).input(matrix()).input(ints({2}, {2, -3})).run();
  EXPECT_EQ(y.shape(), (Shape{2, 2}));
  expect_equal(y, {2, 0, 5, 3});
  a.batch_dims = 1;
  expect_equal(OpRunner(Op::kGather, make_attrs<GatherAttrs>(a)).input(matrix()).input(ints({2, 1}, {1, 2})).run(),
               {1, 5});
  const Tensor words =
      OpRunner(Op::kGather, make_attrs<GatherAttrs>()).input(strings({"a", "b"})).input(ints({}, {1})).run();
  EXPECT_EQ(words.data<std::string>()[0], "b");
}

TEST(Gather, NamesTheIndexThatIsOut) {
  const std::string message =
      OpRunner(Op::kGather, make_attrs<GatherAttrs>()).input(matrix()).input(ints({1}, {7})).error();
  EXPECT_NE(message.find("index 7"), std::string::npos) << message;
  EXPECT_NE(message.find("extent of 2"), std::string::npos) << message;
  GatherAttrs strict;
  strict.negative = false;
  EXPECT_NE(OpRunner(Op::kGather, make_attrs<GatherAttrs>(strict)).input(matrix()).input(ints({1}, {-1})).error(), "");
}

TEST(GatherND, Tuples) {
  const auto attrs = make_attrs<GatherAttrs>();
  expect_equal(OpRunner(Op::kGatherND, attrs).input(matrix()).input(ints({2, 2}, {0, 1, 1, -1})).run(), {1, 5});
  expect_equal(OpRunner(Op::kGatherND, attrs).input(matrix()).input(ints({1, 1}, {1})).run(), {3, 4, 5});
  EXPECT_NE(OpRunner(Op::kGatherND, attrs).input(matrix()).input(ints({1, 3}, {0, 0, 0})).error(), "");
}

TEST(Scatter, Reductions) {
  const struct {
    Reduce reduction;
    bool self;
    std::vector<double> want;
  } rows[] = {
      {Reduce::kNone, true, {3, 2, 10}}, {Reduce::kAdd, true, {14, 12, 10}}, {Reduce::kMul, true, {30, 20, 10}},
      {Reduce::kMin, true, {1, 2, 10}},  {Reduce::kMax, true, {10, 10, 10}}, {Reduce::kMean, true, {14.0 / 3, 6, 10}},
      {Reduce::kAdd, false, {4, 2, 10}}, {Reduce::kMean, false, {2, 2, 10}},
  };
  for (const auto& r : rows) {
    ScatterAttrs a;
    a.reduction = r.reduction;
    a.include_self = r.self;
    const Tensor x = floats({3}, {10, 10, 10}), updates = floats({3}, {1, 2, 3});
    expect_near(OpRunner(Op::kScatterElements, make_attrs<ScatterAttrs>(a))
                    .input(x)
                    .input(ints({3}, {0, 1, 0}))
                    .input(updates)
                    .run(),
                r.want);
    expect_near(OpRunner(Op::kScatterND, make_attrs<ScatterAttrs>(a))
                    .input(x)
                    .input(ints({3, 1}, {0, 1, 0}))
                    .input(updates)
                    .run(),
                r.want);
    expect_near(OpRunner(Op::kIndexSelectPut, make_attrs<ScatterAttrs>(a))
                    .input(x)
                    .input(ints({3}, {0, 1, 0}))
                    .input(updates)
                    .run(),
                r.want);
  }
  expect_equal(OpRunner(Op::kScatterNew, make_attrs<NoAttrs>())
                   .input(tensor(DType::kI32, {2, 1}, {1, 1}))
                   .input(tensor(DType::kI32, {2, 2}, {1, 2, 3, 4}))
                   .input(tensor(DType::kI32, {2}, {2, 2}))
                   .run(),
               {0, 0, 4, 6});
}

TEST(IndexTensors, AdvancedIndexing) {
  const auto attrs = make_attrs<IndexAttrs>();
  Tensor x(DType::kF32, {2, 3, 4});
  for (int64_t i = 0; i < 24; ++i) x.data<float>()[i] = static_cast<float>(i);
  // Adjacent indexed dimensions keep their position, separated ones come first.
  Tensor y = OpRunner(Op::kIndexTensors, attrs).input(x).absent().input(ints({2}, {2, 0})).run();
  EXPECT_EQ(y.shape(), (Shape{2, 2, 4}));
  EXPECT_EQ(values(y)[0], 8);
  y = OpRunner(Op::kIndexTensors, attrs).input(x).input(ints({2}, {0, 1})).absent().input(ints({1}, {-1})).run();
  EXPECT_EQ(y.shape(), (Shape{2, 3}));
  expect_equal(y, {3, 7, 11, 15, 19, 23});
  y = OpRunner(Op::kIndexTensors, attrs).input(x).input(mask({2, 3}, {0, 1, 0, 0, 0, 1})).run();
  EXPECT_EQ(y.shape(), (Shape{2, 4}));
  expect_equal(y, {4, 5, 6, 7, 20, 21, 22, 23});
  y = OpRunner(Op::kIndexTensors, attrs)
          .input(x)
          .input(mask({2}, {0, 1}))
          .absent()
          .input(ints({1}, {1}))
          .unknown_shapes()
          .run();
  EXPECT_EQ(y.shape(), (Shape{1, 3}));
  EXPECT_NE(OpRunner(Op::kIndexTensors, attrs).input(x).input(ints({1}, {2})).error(), "");
  EXPECT_NE(OpRunner(Op::kIndexTensors, attrs).input(x).input(mask({3}, {0, 1, 1})).error(), "");
}

TEST(IndexPut, ReplacesAndAdds) {
  IndexAttrs a;
  expect_equal(OpRunner(Op::kIndexPut, make_attrs<IndexAttrs>(a))
                   .input(matrix())
                   .input(floats({1}, {9}))
                   .input(ints({2}, {1, 1}))
                   .run(),
               {0, 1, 2, 9, 9, 9});
  a.accumulate = true;
  expect_equal(OpRunner(Op::kIndexPut, make_attrs<IndexAttrs>(a))
                   .input(matrix())
                   .input(floats({3}, {1, 2, 3}))
                   .input(ints({2}, {1, 1}))
                   .run(),
               {0, 1, 2, 5, 8, 11});
}

TEST(OneHot, NegativeIndices) {
  OneHotAttrs a;
  const Tensor depth = ints({}, {3}), pair = floats({2}, {0, 5});
  expect_equal(
      OpRunner(Op::kOneHot, make_attrs<OneHotAttrs>(a)).input(ints({2}, {-1, 3})).input(depth).input(pair).run(),
      {0, 0, 5, 0, 0, 0});
  a.wrap_negative = false;
  expect_equal(
      OpRunner(Op::kOneHot, make_attrs<OneHotAttrs>(a)).input(ints({2}, {-1, 1})).input(depth).input(pair).run(),
      {0, 0, 0, 0, 5, 0});
}

TEST(Lookup, SparseRowsAreAveragedInRuns) {
  EmbeddingSparseAttrs attrs;
  attrs.combiner = EmbeddingSparseAttrs::Combiner::kMean;
  const auto mean = [&](std::initializer_list<double> positions) {
    return OpRunner(Op::kEmbeddingLookupSparse, make_attrs<EmbeddingSparseAttrs>(attrs))
        .input(tensor(DType::kI32, {3}, {0, 1, 1}))
        .input(tensor(DType::kI32, {3, 2}, positions))
        .input(tensor(DType::kI32, {2}, {2, 3}))
        .input(floats({3}, {1, 3, 4}))
        .input(floats({2, 2}, {8, 16, 4, 12}))
        .run();
  };
  expect_near(mean({0, 0, 0, 1, 1, 0}), {5, 13, 4, 12});
  expect_near(mean({0, 0, 1, 0, 0, 1}), {(8 + 16) / 4.0, (16 + 48) / 4.0, 4, 12});
}

TEST(Lookup, QuantizedRowsAndMisses) {
  const Tensor table = quantized(DType::kI8, {2, 2}, {2, 4, 6, 8}, 0.5f, 0);
  const Tensor y = OpRunner(Op::kEmbeddingLookup, make_attrs<NoAttrs>())
                       .input(ints({2}, {1, 0}))
                       .input(table)
                       .outputs({ValueType::tensor(DType::kF32)})
                       .run();
  expect_equal(y, {3, 4, 1, 2});
  auto out = OpRunner(Op::kHashtableLookup, make_attrs<NoAttrs>())
                 .input(ints({2}, {5, 4}))
                 .input(ints({2}, {3, 5}))
                 .input(strings({"three", "five"}))
                 .outputs(2)
                 .run_all();
  ASSERT_TRUE(out.ok());
  EXPECT_EQ((*out)[0].tensor.data<std::string>()[0], "five");
  EXPECT_EQ((*out)[0].tensor.data<std::string>()[1], "");
  expect_equal((*out)[1].tensor, {1, 0});
}

TEST(Masked, SelectScatterCompress) {
  expect_equal(OpRunner(Op::kMaskedSelect, make_attrs<NoAttrs>()).input(matrix()).input(mask({3}, {1, 0, 1})).run(),
               {0, 2, 3, 5});
  expect_equal(OpRunner(Op::kMaskedScatter, make_attrs<NoAttrs>())
                   .input(matrix())
                   .input(mask({3}, {1, 0, 1}))
                   .input(floats({4}, {9, 8, 7, 6}))
                   .run(),
               {9, 1, 8, 7, 4, 6});
  EXPECT_NE(OpRunner(Op::kMaskedScatter, make_attrs<NoAttrs>())
                .input(matrix())
                .input(mask({3}, {1, 0, 1}))
                .input(floats({1}, {9}))
                .error(),
            "");
  expect_equal(OpRunner(Op::kCompress, make_attrs<AxisAttrs>(1)).input(matrix()).input(mask({2}, {0, 1})).run(),
               {1, 4});
}

TEST(Updates, SlicesAndCaches) {
  expect_equal(OpRunner(Op::kDynamicUpdateSlice, make_attrs<NoAttrs>())
                   .input(matrix())
                   .input(floats({1, 2}, {8, 9}))
                   .input(ints({2}, {5, -5}))
                   .run(),
               {0, 1, 2, 8, 9, 5});
  OpRunner scatter(Op::kSliceScatter, make_attrs<AxisAttrs>(1));
  scatter.input(matrix())
      .input(floats({2, 2}, {6, 7, 8, 9}))
      .input(ints({}, {0}))
      .input(ints({}, {99}))
      .input(ints({}, {2}));
  expect_equal(scatter.run(), {6, 1, 7, 8, 4, 9});
  ScatterAttrs a;
  a.axis = 1;
  a.reduction = Reduce::kAdd;  // circular
  expect_equal(OpRunner(Op::kTensorScatter, make_attrs<ScatterAttrs>(a))
                   .input(matrix())
                   .input(floats({2, 2}, {6, 7, 8, 9}))
                   .input(ints({2}, {2, 0}))
                   .run(),
               {7, 1, 6, 8, 9, 5});
}

}  // namespace
}  // namespace smelt
