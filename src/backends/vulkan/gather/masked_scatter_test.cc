// Operators composed of others: masks, lengths and indices that are dynamic; losses and distances.
#include "ops/detection/detection.h"
#include "ops/gather/gather.h"
#include "ops/matmul/matmul.h"
#include "ops/shape/shape.h"
#include "ops/softmax/softmax.h"
#include "tests/support/vulkan_check.h"

namespace smelt::vulkan {
namespace {

class VulkanMasks : public VulkanTest {
 protected:
  static void fails(const OpCase& c, const std::string& word) {
    SCOPED_TRACE(c.label);
    const auto run = run_on_gpu(c);
    ASSERT_FALSE(run.ok());
    EXPECT_EQ(run.error().code(), ErrorCode::kInvalidInput);
    EXPECT_NE(run.error().message().find(word), std::string::npos) << run.error().message();
    EXPECT_FALSE(OpRunner(c).run_all().ok());
  }
  static Tensor values(DType dtype, const Shape& shape) {
    Tensor t(dtype, shape);
    for (int64_t i = 0; i < t.elements(); ++i) set_double(t, i, dtype == DType::kBool ? i % 2 : (i * 7 % 23) + 1);
    return t;
  }
};

TEST_F(VulkanMasks, TrianglesOnDynamicDiagonals) {
  for (bool upper : {false, true})
    for (DType dtype : {DType::kF32, DType::kF16, DType::kI64, DType::kU8, DType::kBool})
      for (double k : {0.0, -2.0, 3.0, 1e12, -1e12}) {
        TriangleAttrs a;
        a.upper = upper;
        check_on_gpu({Cat(to_string(dtype), " ", k),
                      Op::kTriangle,
                      make_attrs<TriangleAttrs>(a),
                      {values(dtype, {2, 4, 5}), tensor(DType::kI64, {}, {k})}},
                     "where");
      }
}

TEST_F(VulkanMasks, SequencesOfDynamicLengths) {
  for (bool batch_first : {false, true})
    for (DType length : {DType::kI32, DType::kI64})
      for (DType dtype : {DType::kF32, DType::kI8, DType::kI64}) {
        DiagonalAttrs a;
        a.axis1 = batch_first ? 1 : 0;
        a.axis2 = batch_first ? 0 : 1;
        OpCase c{Cat(to_string(dtype), " ", to_string(length)), Op::kReverseSequence, make_attrs<DiagonalAttrs>(a)};
        c.inputs = {values(dtype, batch_first ? Shape{3, 5, 2} : Shape{5, 3, 2}), tensor(length, {3}, {0, 5, 3})};
        if (dtype == DType::kI8) {
          c.inputs[0].set_quant(per_tensor(0.5f, 2));
          c.outputs[0].quant = c.inputs[0].quant();
        }
        check_on_gpu(c, "gather_elements|legalized_types");
        for (double bad : {-1.0, 6.0}) {
          c.inputs[1] = tensor(length, {3}, {0, bad, 3});
          fails(c, "out of range");
        }
      }
}

TEST_F(VulkanMasks, MaskedScatter) {
  for (DType dtype : {DType::kF32, DType::kF16, DType::kI64, DType::kU8, DType::kBool}) {
    OpCase c{to_string(dtype), Op::kMaskedScatter, make_attrs<NoAttrs>()};
    c.inputs = {values(dtype, {3, 4}), tensor(DType::kBool, {3, 4}, {0, 1, 1, 0, 0, 0, 1, 1, 1, 0, 0, 1}),
                values(dtype, {2, 4})};
    check_on_gpu(c, "gather|legalized_types");
    c.inputs[1] = tensor(DType::kBool, {4}, {0, 1, 1, 0});
    check_on_gpu(c, "gather|legalized_types");
    c.inputs[2] = values(dtype, {5});
    fails(c, "out of range");
  }
}

TEST_F(VulkanMasks, SparseToDense) {
  for (DType index : {DType::kI32, DType::kI64})
    for (DType dtype : {DType::kF32, DType::kI32, DType::kI64, DType::kU8}) {
      OpCase c{Cat(to_string(dtype), " ", to_string(index)), Op::kSparseToDense, make_attrs<NoAttrs>()};
      c.constants = {1};
      c.inputs = {tensor(index, {3, 2}, {0, 1, 2, 3, 1, 0}), tensor(index, {2}, {3, 4}), values(dtype, {3}),
                  tensor(dtype, {}, {9})};
      check_on_gpu(c, "scatter_nd|scatter_nd_small|legalized_types");
      c.inputs[2] = tensor(dtype, {}, {5});
      check_on_gpu(c, "scatter_nd|scatter_nd_small|legalized_types");
      c.inputs[0] = tensor(index, {3, 2}, {0, 1, 2, 4, 1, 0});
      fails(c, "out of range");
      c.inputs[0] = tensor(index, {3, 2}, {0, 1, 2, -1, 1, 0});
      fails(c, "out of range");
      c.inputs[0] = tensor(index, {4}, {1, 6, 0, 6});
      c.inputs[1] = tensor(index, {1}, {7});
      c.inputs[2] = values(dtype, {4});
      check_on_gpu(c, "scatter_nd|scatter_nd_small|legalized_types");
    }
}

TEST_F(VulkanMasks, AccumulatesAtIndices) {
  for (DType dtype : {DType::kF32, DType::kF16, DType::kI64, DType::kU8}) {
    IndexAttrs a;
    a.accumulate = true;
    OpCase c{to_string(dtype), Op::kIndexPut, make_attrs<IndexAttrs>(a)};
    c.inputs = {values(dtype, {3, 4}), values(dtype, {3}), tensor(DType::kI64, {3}, {0, 2, -3}),
                tensor(DType::kI64, {3}, {1, 3, 1})};
    check_on_gpu(c, "scatter_nd|scatter_nd_small|legalized_types");
    c.inputs = {values(dtype, {3, 4}), values(dtype, {4}), tensor(DType::kI64, {2, 3}, {0, 2, 0, 1, 1, 0})};
    check_on_gpu(c, "scatter_nd|scatter_nd_small|legalized_types");
    c.inputs = {values(dtype, {3, 4}), values(dtype, {1}), tensor(DType::kI32, {2, 1}, {0, 2}),
                tensor(DType::kI32, {3}, {1, 3, 1})};
    check_on_gpu(c, "scatter_nd|scatter_nd_small|legalized_types");
    c.constants = {2, 3};
    check_on_gpu(c, "scatter_nd|scatter_nd_small|legalized_types");
    c.inputs[3] = tensor(DType::kI32, {3}, {1, 4, 1});
    c.constants.clear();
    fails(c, "out of range");
  }
}

TEST_F(VulkanMasks, Losses) {
  for (Op op : {Op::kNllLoss, Op::kCrossEntropyLoss})
    for (auto reduction : {LossAttrs::Reduce::kNone, LossAttrs::Reduce::kMean, LossAttrs::Reduce::kSum})
      for (int options = 0; options < 4; ++options)
        for (const Shape& rest : {Shape{}, Shape{2, 3}}) {
          LossAttrs a;
          a.reduction = reduction;
          a.has_ignore_index = options & 1;
          a.ignore_index = -100;
          Shape scores{4, 5}, target{4};
          for (int64_t d : rest) {
            scores.push_back(d);
            target.push_back(d);
          }
          Tensor labels(DType::kI64, target);
          for (int64_t i = 0; i < labels.elements(); ++i)
            labels.data<int64_t>()[i] = i % 3 == 0 && a.has_ignore_index ? -100 : i * 3 % 5;
          OpCase c{Cat(to_string(op), " ", to_string(reduction), " ", options, " ", rest.str()), op,
                   make_attrs<LossAttrs>(a)};
          c.inputs = {random_tensor(DType::kF32, scores, -3, 3, 1), labels};
          if (options & 2) c.inputs.push_back(random_tensor(DType::kF32, {5}, 0.1, 2, 2));
          if (op == Op::kCrossEntropyLoss) c.outputs.resize(rest.rank() ? 2 : 1);
          check_on_gpu(c, op == Op::kNllLoss ? "gather_elements" : "softmax_float");
          for (int64_t bad : {5, -1}) {
            c.inputs[1] = labels.clone();
            c.inputs[1].data<int64_t>()[1] = bad;
            fails(c, "out of range");
          }
        }
}

TEST_F(VulkanMasks, Distances) {
  for (const char* metric : {"euclidean", "sqeuclidean", "inf", "1", "2"}) {
    EinsumAttrs a;
    a.equation = metric;
    for (const Shape& batch : {Shape{}, Shape{2}}) {
      Shape x = batch, y = batch;
      for (int64_t d : {4, 7}) x.push_back(d);
      for (int64_t d : {5, 7}) y.push_back(d);
      check_on_gpu({Cat(metric, " ", x.str()),
                    Op::kPairwiseDistance,
                    make_attrs<EinsumAttrs>(a),
                    {random_tensor(DType::kF32, x, -1, 1, 1), random_tensor(DType::kF32, y, -1, 1, 2)}},
                   "reduce");
    }
  }
}

TEST_F(VulkanMasks, ShapeConstants) {
  GridPriorsAttrs a;
  a.stride = 8;
  for (DType dtype : {DType::kF32, DType::kF16})
    check_on_gpu({to_string(dtype), Op::kGridPriors, make_attrs<GridPriorsAttrs>(a), {values(dtype, {1, 2, 3, 5})}},
                 "");
}

}  // namespace
}  // namespace smelt::vulkan
