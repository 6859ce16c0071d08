// The order of dimensions of a sum, one of whose operands is an image and the other is not.
#include <gtest/gtest.h>

#include <algorithm>

#include "ops/conv/conv.h"
#include "ops/core/builder.h"
#include "ops/elementwise/elementwise.h"
#include "ops/softmax/softmax.h"
#include "tests/support/module.h"
#include "tests/support/op_case.h"
#include "tests/support/written_model.h"

namespace smelt {
namespace {

using test::f32;

/// Convolution of x with channels last, and a sum with an input; then a convolution again, or a softmax of rows.
std::shared_ptr<Module> sum_of_image(bool image_behind) {
  const auto module = test::module_of_one_graph();
  Builder b(*module, 0);
  ConvAttrs a;
  a.layout = Layout::kChannelsLast;
  a.filter = FilterLayout::kOSI;
  const ValueId x = b.input("x", ValueType::tensor(DType::kF32, Shape{1, 4, 5, 3}));
  const ValueId z = b.input("z", ValueType::tensor(DType::kF32, Shape{1, 4, 5, 3}));
  const ValueId filter = b.constant("w", f32({3, 1, 1, 3}));
  const auto node = [&](Op op, AttrsPtr attrs, std::vector<ValueId> inputs) {
    const auto made = b.op(op, std::move(attrs), inputs);
    EXPECT_TRUE(made.ok());
    return made.ok() ? *made : kNoValue;
  };
  ValueId y = node(Op::kConv, make_attrs<ConvAttrs>(a), {x, filter});
  y = node(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kAdd), {z, y});
  y = node(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kTanh), {y});
  y = image_behind ? node(Op::kConv, make_attrs<ConvAttrs>(a), {y, filter})
                   : node(Op::kSoftmax, make_attrs<SoftmaxAttrs>(), {y});
  b.graph().outputs = {y};
  return module;
}

int64_t transposes(bool image_behind) {
  const auto back =
      test::expect_same_written(sum_of_image(image_behind), {f32({1, 4, 5, 3}), f32({1, 4, 5, 3}, 2)}, "onnx");
  return back ? std::ranges::count(module_of(*back).graphs[0].nodes, Op::kTranspose, &Node::op) : -1;
}

TEST(OnnxImageLayout, ReadersTellThatOfASum) {
  EXPECT_EQ(transposes(true), 3);   // both inputs, and the result
  EXPECT_EQ(transposes(false), 2);  // the image before and behind the convolution
}

}  // namespace
}  // namespace smelt
