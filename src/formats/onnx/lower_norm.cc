// Normalizations and losses of ai.onnx.
#include "formats/onnx/microsoft.h"
#include "formats/onnx/ops.h"
#include "ops/elementwise/elementwise.h"
#include "ops/normalization/normalization.h"
#include "ops/random/random.h"
#include "ops/shape/shape.h"
#include "ops/softmax/softmax.h"

namespace smelt::onnx {
namespace {

/// Opsets before 9 with spatial = 0: statistics for each element of a sample.
void batch_norm_by_element(NodeContext& n) {
  const ValueId x = n.in(0);
  const ValueId var = n.binary(Binary::kAdd, n.in(4), n.scalar_like(x, n.f("epsilon", 1e-5f)));
  const ValueId inverse = n.unary(Unary::kRsqrt, var);
  const ValueId centred = n.binary(Binary::kSub, x, n.in(3));
  const ValueId y = n.binary(Binary::kMul, n.binary(Binary::kMul, centred, inverse), n.in(1));
  n.bind(0, n.binary(Binary::kAdd, y, n.in(2)));
}

void lower_batch_norm(NodeContext& n) {
  if (n.version() < 9 && n.i("spatial", 1) == 0 && n.rank(n.in(3)) != 1) return batch_norm_by_element(n);
  BatchNormAttrs a;
  a.epsilon = n.f("epsilon", 1e-5f);
  a.momentum = n.f("momentum", 0.9f);
  a.training = n.version() >= 14 ? n.flag("training_mode") : n.wanted() > 1;
  if (!a.training && n.wanted() > 1) return n.fail("has ", n.wanted(), " outputs without training_mode");
  n.emit(Op::kBatchNorm, a, {n.in(0), n.in(1), n.in(2), n.in(3), n.in(4)});
}

void lower_instance_norm(NodeContext& n) {
  GroupNormAttrs a;
  a.groups = 0;
  a.epsilon = n.f("epsilon", 1e-5f);
  n.emit(Op::kGroupNorm, a, {n.in(0), n.in(1), n.in(2)});
}

void lower_group_norm(NodeContext& n) {
  GroupNormAttrs a;
  a.groups = n.i("num_groups", 0);
  if (a.groups < 1) return n.fail("num_groups is ", a.groups);
  a.epsilon = n.f("epsilon", 1e-5f);
  a.per_group_affine = n.version() < 21;
  n.i("stash_type", 1);
  n.emit(Op::kGroupNorm, a, {n.in(0), n.in(1), n.in(2)});
}

void lower_lrn(NodeContext& n) {
  LrnAttrs a;
  a.size = n.i("size", 0);
  if (a.size < 1) return n.fail("size is ", a.size);
  a.alpha = n.f("alpha", 1e-4f) / static_cast<double>(a.size);
  a.beta = n.f("beta", 0.75);
  a.bias = n.f("bias", 1);
  n.emit(Op::kLRN, a, {n.in(0)});
}

void lower_lp_norm(NodeContext& n) {
  LpNormAttrs a;
  a.axis = n.i("axis", -1);
  a.p = n.i("p", 2);
  if (a.p != 1 && a.p != 2) return n.fail("p is ", a.p, ", 1 or 2 expected");
  n.emit(Op::kLpNorm, a, {n.in(0)});
}

void lower_mvn(NodeContext& n) {
  MeanVarianceNormAttrs a;
  if (n.has_attr("axes"))
    a.axes = n.ints("axes");
  else if (n.version() < 9 && n.flag("across_channels"))
    a.axes = {1, 2, 3};
  else if (n.version() < 9)
    a.axes = {2, 3};
  n.emit(Op::kMeanVarianceNorm, a, {n.in(0)});
}

LossAttrs read_loss(NodeContext& n) {
  LossAttrs a;
  const std::string r = n.s("reduction", "mean");
  if (r == "none")
    a.reduction = LossAttrs::Reduce::kNone;
  else if (r == "sum")
    a.reduction = LossAttrs::Reduce::kSum;
  else if (r != "mean")
    n.fail("reduction is '", r, "'");
  a.has_ignore_index = n.has_attr("ignore_index");
  a.ignore_index = n.i("ignore_index", 0);
  return a;
}

void lower_loss(NodeContext& n) {
  n.emit(n.op() == "SoftmaxCrossEntropyLoss" ? Op::kCrossEntropyLoss : Op::kNllLoss, pack(read_loss(n)),
         n.operands(2, 3));
}

void lower_dropout(NodeContext& n) {
  const ValueId x = n.in(0);
  if (n.version() >= 12 && n.has(2)) {
    RandomAttrs a;
    a.kind = RandomAttrs::Kind::kDropoutMask;
    a.seeded = n.has_attr("seed");
    a.seed = static_cast<double>(n.i("seed", 0));
    return n.emit(Op::kDropout, a, {x, n.has(1) ? n.in(1) : n.scalar(DType::kF32, 0.5), n.in(2)});
  }
  n.ignore(1);
  n.bind(0, x);
  if (!n.wants(1)) return;
  const ValueId shape = n.dims_of(x);
  // Nothing is dropped. Before opset 12 peers give a mask of zeros all the same.
  const ValueId mask = n.version() >= 12   ? n.scalar(DType::kBool, 1)
                       : n.version() >= 10 ? n.scalar(DType::kBool, 0)
                                           : n.scalar_like(x, 0);
  n.bind(1, n.fill(shape, mask));
}

constexpr OpEntry kOps[] = {
    {"BatchNormalization", 1, lower_batch_norm},
    {"InstanceNormalization", 1, lower_instance_norm},
    {"GroupNormalization", 18, lower_group_norm},
    {"LayerNormalization", 1, lower_layer_norm},
    {"SimplifiedLayerNormalization", 1, lower_layer_norm},
    {"RMSNormalization", 23, lower_layer_norm},
    {"LRN", 1, lower_lrn},
    {"LpNormalization", 1, lower_lp_norm},
    {"MeanVarianceNormalization", 1, lower_mvn},
    {"NegativeLogLikelihoodLoss", 12, lower_loss},
    {"SoftmaxCrossEntropyLoss", 12, lower_loss},
    {"Dropout", 1, lower_dropout},
};

}  // namespace

void lower_layer_norm(NodeContext& n) {
  LayerNormAttrs a;
  a.axis = n.i("axis", -1);
  a.epsilon = n.f("epsilon", 1e-5f);
  a.rms = n.op() != "LayerNormalization";
  const DType stash = dtype_of(n.i("stash_type", 1));
  if (!is_float(stash)) return n.fail("stash_type is no floating-point type");
  a.stash = stash;
  std::vector<ValueId> in = n.operands(1, 3);
  // Simplified normalization counts its outputs as y, inverse standard deviation.
  if (n.op() == "SimplifiedLayerNormalization" && n.wants(1)) {
    const auto out = n.add_n(Op::kLayerNorm, a, in, 3);
    n.bind(0, out[0]);
    return n.bind(1, out[2]);
  }
  n.emit(Op::kLayerNorm, a, in);
}

std::span<const OpEntry> norm_ops() { return kOps; }

}  // namespace smelt::onnx
