// Images with channels last in programs of ATen's operators, which take channels first.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "convert/convert.h"
#include "ops/conv/conv.h"
#include "ops/core/builder.h"
#include "ops/core/op.h"
#include "ops/elementwise/elementwise.h"
#include "ops/pool/pool.h"
#include "ops/reduce/reduce.h"
#include "ops/shape/shape.h"
#include "ops/softmax/softmax.h"
#include "runtime/model_access.h"
#include "tests/support/op_case.h"
#include "tests/support/written_model.h"

namespace smelt {
namespace {

/// A network between an input and an output with channels first, as a graph of operators with channels last.
class Network {
 public:
  Network(Shape input, std::vector<int64_t> perm) : b_(start()) {
    x_ = b_.input("x", ValueType::tensor(DType::kF32, input));
    add(Op::kTranspose, make_attrs<TransposeAttrs>(TransposeAttrs(std::move(perm))));
  }
  Network& add(Op op, AttrsPtr attrs, std::vector<ValueId> more = {}) {
    more.insert(more.begin(), x_);
    const auto y = b_.op(op, std::move(attrs), more);
    EXPECT_TRUE(y.ok()) << (y.ok() ? "" : y.error().message());
    if (y.ok()) x_ = *y;
    return *this;
  }
  /// A convolution of [N, H, W, C] with padding.
  Network& conv(int64_t from, int64_t to, int64_t height, int64_t width) {
    ConvAttrs a;
    a.strides = a.dilations = {1, 1};
    a.pads = {height / 2, width / 2, height / 2, width / 2};
    a.layout = Layout::kChannelsLast;
    a.filter = FilterLayout::kOSI;
    return add(Op::kConv, make_attrs<ConvAttrs>(a), {constant({to, height, width, from}), constant({to})});
  }
  Network& binary(Binary fn, ValueId y) { return add(Op::kBinary, make_attrs<BinaryAttrs>(fn), {y}); }
  ValueId constant(Shape shape) {
    return b_.constant("w", test::random_tensor(DType::kF32, shape, -0.5, 0.5, ++seed_));
  }
  ValueId numbers(const std::vector<int64_t>& list) {
    Tensor t(DType::kI64, Shape{static_cast<int64_t>(list.size())});
    std::ranges::copy(list, t.data<int64_t>());
    return b_.constant("", t);
  }
  ValueId value() const { return x_; }
  Builder& builder() { return b_; }
  std::shared_ptr<Module> module() {
    b_.graph().outputs = {x_};
    return module_;
  }

 private:
  Builder start() {
    module_->format = "test";
    module_->graphs.emplace_back().name = "main";
    module_->methods.push_back({.name = "main", .graph = 0});
    return Builder(*module_, 0);
  }
  std::shared_ptr<Module> module_ = std::make_shared<Module>();
  Builder b_;
  ValueId x_ = kNoValue;
  uint32_t seed_ = 0;
};

/// Checks the module as a program, and how many of its nodes are Transposes.
void expect_transposes(Network& network, const Shape& input, int64_t count) {
  convert::Options options;
  options.write.delegate = "none";
  const auto back = test::expect_same_written(
      network.module(), {Datum(test::random_tensor(DType::kF32, input, -1, 1, 77))}, "pte", options);
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(std::ranges::count(module_of(*back).graphs[0].nodes, Op::kTranspose, &Node::op), count);
}

TEST(ChannelsFirst, NodesBetweenImages) {
  Network n({1, 3, 6, 8}, {0, 2, 3, 1});
  n.conv(3, 5, 3, 3).add(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kRelu));
  n.binary(Binary::kMul, n.constant({5})).binary(Binary::kAdd, n.constant({6, 1, 1}));
  const ValueId left = n.value();
  n.conv(5, 5, 1, 1).binary(Binary::kSub, left);
  n.add(Op::kPad, make_attrs<PadAttrs>(), {n.numbers({0, 1, 0, 2, 0, 0, 3, 1})});
  n.add(Op::kSlice, make_attrs<NoAttrs>(), {n.numbers({1, 2}), n.numbers({7, 5}), n.numbers({1, 3})});
  SoftmaxAttrs softmax;
  n.add(Op::kSoftmax, make_attrs<SoftmaxAttrs>(softmax));
  n.add(Op::kConcat, make_attrs<AxisAttrs>(-1), {n.value()});
  n.add(Op::kTranspose, make_attrs<TransposeAttrs>(TransposeAttrs({0, 3, 1, 2})));
  expect_transposes(n, {1, 3, 6, 8}, 0);
}

TEST(ChannelsFirst, SignalsAsImages) {
  Network n({2, 4, 9}, {0, 2, 1});
  n.add(Op::kUnsqueeze, make_attrs<NoAttrs>(), {n.numbers({1})});
  n.conv(4, 6, 1, 3).add(Op::kSqueeze, make_attrs<NoAttrs>(), {n.numbers({1})});
  n.add(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kTanh)).add(Op::kUnsqueeze, make_attrs<NoAttrs>(), {n.numbers({1})});
  n.conv(6, 3, 1, 1).add(Op::kSqueeze, make_attrs<NoAttrs>(), {n.numbers({-3})});
  ReduceAttrs mean;
  mean.fn = Reduction::kMean;
  mean.keep_dims = false;
  n.add(Op::kReduce, make_attrs<ReduceAttrs>(mean), {n.numbers({1})});
  expect_transposes(n, {2, 4, 9}, 0);
}

/// The order of the graph is made where a node asks for it.
TEST(ChannelsFirst, NodesOfTheirOwnOrder) {
  Network n({1, 3, 4, 4}, {0, 2, 3, 1});
  n.conv(3, 6, 3, 3);
  ReduceAttrs sum;
  sum.fn = Reduction::kSum;
  sum.keep_dims = false;
  n.add(Op::kReduce, make_attrs<ReduceAttrs>(sum), {n.numbers({2})});
  n.add(Op::kReshape, make_attrs<ReshapeAttrs>(), {n.numbers({1, 24})});
  expect_transposes(n, {1, 3, 4, 4}, 1);
}

}  // namespace
}  // namespace smelt
