// Losses and pairwise distances, decomposed into gathers, elementwise kernels and reductions.
#include <charconv>
#include <cmath>

#include "backends/vulkan/core/type_checks.h"
#include "backends/vulkan/decompose/decomposition.h"
#include "ops/gather/gather.h"
#include "ops/matmul/matmul.h"
#include "ops/reduce/reduce.h"
#include "ops/softmax/softmax.h"

namespace smelt::vulkan {
namespace {

ValueId reduced(Decomposition& c, Reduction fn, ValueId x, int64_t axis) {
  ReduceAttrs a;
  a.fn = fn;
  return c.add(Op::kReduce, make_attrs<ReduceAttrs>(a), {x, c.i64({axis})});
}

ValueId function(Decomposition& c, Unary fn, ValueId x) { return c.add(Op::kUnary, make_attrs<UnaryAttrs>(fn), {x}); }

/// The loss of log-probabilities whose classes are dimension `axis`, in the shape of output 0.
ValueId negative_log_likelihood(Decomposition& c, const KernelSpec& spec, ValueId log_p, int axis) {
  const auto& attrs = spec.attrs<LossAttrs>();
  const Shape &scores = spec.inputs[0].shape, &target = spec.inputs[1].shape;
  const DType index = spec.inputs[1].dtype;
  const int64_t classes = scores[axis], samples = scores.elements() / classes;
  const auto number = [&](DType dtype, int64_t v) { return c.scalar(dtype, static_cast<double>(v)); };
  // A class of its own for labels below 0: picking it fails, and an ignored label picks the first class.
  ValueId label = c.reshape(c.input(1), {samples}), ignored = kNoValue;
  ValueId safe = c.where(c.binary(Binary::kLess, label, number(index, 0)), number(index, classes), label);
  if (attrs.has_ignore_index) {
    ignored = c.binary(Binary::kEqual, label, number(index, attrs.ignore_index));
    safe = c.where(ignored, number(index, 0), safe);
  }
  Shape place = scores;
  place[axis] = 1;
  GatherAttrs g;
  g.axis = axis;
  g.negative = false;
  const ValueId picked = c.add(Op::kGatherElements, make_attrs<GatherAttrs>(g),
                               {log_p, c.reshape(safe, std::vector<int64_t>(place.begin(), place.end()))});
  ValueId loss = function(c, Unary::kNeg, c.reshape(picked, {samples})), weight = kNoValue;
  g.axis = 0;
  if (spec.has(2)) {
    weight = c.add(Op::kGather, make_attrs<GatherAttrs>(g), {c.input(2), safe});
    loss = c.binary(Binary::kMul, weight, loss);
  }
  if (ignored != kNoValue) {
    const ValueId zero = c.scalar(DType::kF32, 0);
    loss = c.where(ignored, zero, loss);
    weight = c.where(ignored, zero, weight == kNoValue ? c.scalar(DType::kF32, 1) : weight);
  }
  switch (attrs.reduction) {
    case LossAttrs::Reduce::kNone:
      return c.reshape(loss, std::vector<int64_t>(target.begin(), target.end()));
    case LossAttrs::Reduce::kSum:
      return reduced(c, Reduction::kSum, loss, 0);
    case LossAttrs::Reduce::kMean:
      break;
  }
  if (weight == kNoValue) return reduced(c, Reduction::kMean, loss, 0);
  return c.binary(Binary::kDiv, reduced(c, Reduction::kSum, loss, 0), reduced(c, Reduction::kSum, weight, 0));
}

std::unique_ptr<Kernel> make_loss(const KernelSpec& spec, bool of_scores) {
  const ValueType &scores = spec.inputs[0], &target = spec.inputs[1];
  if (scores.dtype != DType::kF32 || (spec.has(2) && spec.inputs[2].dtype != DType::kF32))
    return spec.refuse(to_string(scores.dtype), " has no Vulkan kernel for losses");
  if (target.dtype != DType::kI32 && target.dtype != DType::kI64) return nullptr;
  const int axis = scores.shape.rank() > 1 ? 1 : 0;
  if (scores.shape.rank() == 0 || scores.shape.elements() == 0) return nullptr;
  const int64_t classes = scores.shape[axis];
  if (target.shape.elements() != scores.shape.elements() / classes) return nullptr;
  if (spec.has(2) && spec.inputs[2].shape != Shape{classes}) return nullptr;
  const auto& attrs = spec.attrs<LossAttrs>();
  if (attrs.has_ignore_index && !fits_int32(static_cast<double>(attrs.ignore_index))) return nullptr;
  Decomposition c(spec);
  ValueId log_p = c.input(0);
  if (of_scores) {
    SoftmaxAttrs a;
    a.kind = SoftmaxAttrs::Kind::kLogSoftmax;
    a.axis = axis;
    log_p = c.add(Op::kSoftmax, make_attrs<SoftmaxAttrs>(a), {log_p});
  }
  std::vector<ValueId> results{negative_log_likelihood(c, spec, log_p, axis)};
  if (spec.outputs.size() > 1) results.push_back(log_p);
  return c.kernel(results, "a target is not one of the classes");
}

}  // namespace

std::unique_ptr<Kernel> make_nll_loss(const KernelSpec& spec) { return make_loss(spec, false); }
std::unique_ptr<Kernel> make_cross_entropy_loss(const KernelSpec& spec) { return make_loss(spec, true); }

std::unique_ptr<Kernel> make_pairwise_distance(const KernelSpec& spec) {
  const std::string& metric = spec.attrs<EinsumAttrs>().equation;
  const bool square = metric == "sqeuclidean", largest = metric == "inf";
  double p = square || metric == "euclidean" ? 2 : 0;
  if (p == 0 && !largest) std::from_chars(metric.data(), metric.data() + metric.size(), p);
  if (!largest && p != 1 && p != 2) return spec.refuse("metric ", metric);
  if (!unquantized_floats(spec, {0, 1}, {0})) return nullptr;
  const Shape &a = spec.inputs[0].shape, &b = spec.inputs[1].shape;
  std::vector<int64_t> rows(a.begin(), a.end()), columns(b.begin(), b.end());
  rows.insert(rows.end() - 1, 1);
  columns.insert(columns.end() - 2, 1);
  Decomposition c(spec);
  const ValueId x = c.reshape(c.input(0), rows), y = c.reshape(c.input(1), columns);
  const ValueId apart =
      p == 2 ? c.binary(Binary::kSquaredDifference, x, y) : function(c, Unary::kAbs, c.binary(Binary::kSub, x, y));
  const ValueId sum = apart == kNoValue ? kNoValue : reduced(c, largest ? Reduction::kMax : Reduction::kSum, apart, -1);
  return c.kernel({p == 2 && !square ? function(c, Unary::kSqrt, sum) : sum});
}

}  // namespace smelt::vulkan
