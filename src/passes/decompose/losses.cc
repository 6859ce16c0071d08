// Losses and pairwise distances, decomposed into gathers, elementwise kernels and reductions.
#include <charconv>
#include <cmath>

#include "ops/core/decomposition.h"
#include "ops/gather/gather.h"
#include "ops/matmul/matmul.h"
#include "ops/reduce/reduce.h"
#include "ops/softmax/softmax.h"
#include "passes/decompose/rules.h"

namespace smelt::decomposition {
namespace {

ValueId reduced(Decomposition& c, Reduction fn, ValueId x, int64_t axis) {
  ReduceAttrs a;
  a.fn = fn;
  return c.add(Op::kReduce, make_attrs<ReduceAttrs>(a), {x, c.i64({axis})});
}

/// The loss of log-probabilities whose classes are dimension `axis`, in the shape of output 0.
ValueId negative_log_likelihood(Decomposition& c, const NodeSpec& spec, ValueId log_p, int axis) {
  const auto& attrs = spec.attrs<LossAttrs>();
  const Shape &scores = spec.inputs[0].shape, &target = spec.inputs[1].shape;
  const DType index = spec.inputs[1].dtype;
  const int64_t classes = scores[axis], samples = scores.elements() / classes;
  const auto number = [&](DType dtype, int64_t v) { return c.scalar(dtype, static_cast<double>(v)); };
  // A class of its own for labels below 0: picking it fails, and an ignored label picks the first class.
  ValueId label = c.reshape(c.input(1), {samples}), ignored = kNoValue;
  const ValueId below = c.binary(Binary::kLess, label, number(index, 0));
  ValueId safe = c.where(below, number(index, classes), label);
  if (attrs.has_ignore_index) {
    ignored = c.binary(Binary::kEqual, label, number(index, attrs.ignore_index));
    safe = c.where(ignored, number(index, 0), safe);
  }
  Shape place = scores;
  place[axis] = 1;
  GatherAttrs g;
  g.axis = axis;
  g.negative = false;
  const ValueId gathered =
      c.add(Op::kGatherElements, make_attrs<GatherAttrs>(g), {log_p, c.reshape(safe, dims_of(place))});
  ValueId loss = c.unary(Unary::kNeg, c.reshape(gathered, {samples})), weight = kNoValue;
  g.axis = 0;
  if (spec.has(2)) {
    weight = c.add(Op::kGather, make_attrs<GatherAttrs>(g), {c.cast(c.input(2), DType::kF32), safe});
    loss = c.binary(Binary::kMul, weight, loss);
  }
  if (ignored != kNoValue) {
    const ValueId zero = c.scalar(DType::kF32, 0);
    loss = c.where(ignored, zero, loss);
    weight = c.where(ignored, zero, weight == kNoValue ? c.scalar(DType::kF32, 1) : weight);
  }
  switch (attrs.reduction) {
    case LossAttrs::Reduce::kNone:
      return c.reshape(loss, dims_of(target));
    case LossAttrs::Reduce::kSum:
      return reduced(c, Reduction::kSum, loss, 0);
    case LossAttrs::Reduce::kMean:
      break;
  }
  if (weight == kNoValue) return reduced(c, Reduction::kMean, loss, 0);
  const ValueId sum = reduced(c, Reduction::kSum, loss, 0);
  return c.binary(Binary::kDiv, sum, reduced(c, Reduction::kSum, weight, 0));
}

std::optional<DecomposedNode> loss(const NodeSpec& spec, bool of_scores) {
  const ValueType &scores = spec.inputs[0], &target = spec.inputs[1];
  if (!unquantized(spec, {0}, kFloatTypes) || (spec.has(2) && !unquantized(spec, {2}, kFloatTypes)) ||
      !unquantized(spec, {1}, kIndexTypes))
    return std::nullopt;
  const int axis = scores.shape.rank() > 1 ? 1 : 0;
  if (scores.shape.rank() == 0 || scores.shape.elements() == 0) return std::nullopt;
  const int64_t classes = scores.shape[axis];
  if (target.shape.elements() != scores.shape.elements() / classes) return std::nullopt;
  if (spec.has(2) && spec.inputs[2].shape != Shape{classes}) return std::nullopt;
  const auto& attrs = spec.attrs<LossAttrs>();
  if (attrs.has_ignore_index && attrs.ignore_index != static_cast<int32_t>(attrs.ignore_index)) return std::nullopt;
  Decomposition c(spec);
  ValueId log_p = c.cast(c.input(0), DType::kF32);
  if (of_scores) {
    SoftmaxAttrs a;
    a.kind = SoftmaxAttrs::Kind::kLogSoftmax;
    a.axis = axis;
    log_p = c.add(Op::kSoftmax, make_attrs<SoftmaxAttrs>(a), {log_p});
  }
  std::vector<ValueId> results{negative_log_likelihood(c, spec, log_p, axis)};
  if (of_scores) results.push_back(log_p);
  for (size_t i = 0; i < spec.outputs.size(); ++i) results[i] = c.cast(results[i], spec.outputs[i].dtype);
  return c.finish(std::move(results));
}

}  // namespace

std::optional<DecomposedNode> nll_loss(const NodeSpec& spec) { return loss(spec, false); }
std::optional<DecomposedNode> cross_entropy_loss(const NodeSpec& spec) { return loss(spec, true); }

std::optional<DecomposedNode> pairwise_distance(const NodeSpec& spec) {
  const std::string& metric = spec.attrs<EinsumAttrs>().equation;
  const bool square = metric == "sqeuclidean", largest = metric == "inf";
  double p = square || metric == "euclidean" ? 2 : 0;
  if (p == 0 && !largest) std::from_chars(metric.data(), metric.data() + metric.size(), p);
  if (!largest && p != 1 && p != 2) return std::nullopt;
  if (!unquantized(spec, {0, 1}, kFloatTypes)) return std::nullopt;
  std::vector<int64_t> rows = dims_of(spec.inputs[0].shape), columns = dims_of(spec.inputs[1].shape);
  rows.insert(rows.end() - 1, 1);
  columns.insert(columns.end() - 2, 1);
  Decomposition c(spec);
  const ValueId x = c.reshape(c.cast(c.input(0), DType::kF32), rows),
                y = c.reshape(c.cast(c.input(1), DType::kF32), columns);
  const ValueId apart =
      p == 2 ? c.binary(Binary::kSquaredDifference, x, y) : c.unary(Unary::kAbs, c.binary(Binary::kSub, x, y));
  const ValueId sum = apart == kNoValue ? kNoValue : reduced(c, largest ? Reduction::kMax : Reduction::kSum, apart, -1);
  return c.finish({c.cast(p == 2 && !square ? c.unary(Unary::kSqrt, sum) : sum, spec.outputs[0].dtype)});
}

}  // namespace smelt::decomposition
