#include <cstring>

#include "cpu/kernel.h"
#include "cpu/testing.h"
#include "ops/shape/shape.h"
#include "support/coverage.h"
#include "support/op_runner.h"

namespace smelt {
namespace {

/// Kernel `want` takes the node, and the CPU back-end gives what the reference gives, to the bit.
void check(Op op, const AttrsPtr& attrs, const Tensor& x, int pieces, const Shape& piece, const char* want) {
  Node node;
  node.op = op;
  node.attrs = attrs;
  node.inputs = {0};
  const std::vector<ValueType> in{ValueType::tensor(x.dtype(), x.shape())};
  const std::vector<ValueType> out(static_cast<size_t>(pieces), ValueType::tensor(x.dtype(), piece));
  for (int i = 0; i < pieces; ++i) node.outputs.push_back(i + 1);
  const std::vector<const Tensor*> constants{nullptr};
  PackCache packs;
  const KernelInfo* chosen = nullptr;
  ASSERT_TRUE(make_kernel({node, in, constants, out, best_isa(), 1, packs}, &chosen));
  EXPECT_STREQ(chosen->name, want);
  const auto run = [&](BackendKind backend) {
    return test::OpRunner(op, attrs).input(x).outputs(pieces).backend(backend).run_all();
  };
  const auto expected = run(BackendKind::kReference), got = run(BackendKind::kCpu);
  ASSERT_TRUE(expected.ok() && got.ok());
  for (size_t i = 0; i < expected->size(); ++i) {
    const Tensor &e = (*expected)[i].tensor, &g = (*got)[i].tensor;
    ASSERT_EQ(g.shape(), e.shape());
    EXPECT_EQ(std::memcmp(g.raw(), e.raw(), e.bytes()), 0) << "piece " << i;
  }
  test::note_compared(want);
}

TEST(Split, PiecesOfEveryAxisAndWidth) {
  for (DType dtype : {DType::kI8, DType::kF16, DType::kF32, DType::kI64})
    for (int axis = 0; axis < 3; ++axis) {
      const Tensor x = testing::random_tensor(dtype, {4, 6, 8}, -9, 9, 1);
      SplitAttrs halves;
      halves.axis = axis;
      halves.count = 2;
      Shape piece = x.shape();
      piece[axis] /= 2;
      check(Op::kSplit, make_attrs<SplitAttrs>(halves), x, 2, piece, "split");
      Shape rest;
      for (int d = 0; d < 3; ++d)
        if (d != axis) rest.push_back(x.dim(d));
      check(Op::kUnstack, make_attrs<AxisAttrs>(axis), x, static_cast<int>(x.dim(axis)), rest, "unstack");
    }
}

}  // namespace
}  // namespace smelt
