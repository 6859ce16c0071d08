#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "ops/common/index.h"
#include "ops/common/infer.h"
#include "ops/core/op.h"
#include "ops/softmax/softmax.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

/// Scores [N, C, d...]; a single sample is [C].
AxisView classes_of(const Shape& shape) { return axis_view(shape, shape.rank() > 1 ? 1 : 0); }

ValueType loss_type(const LossAttrs& attrs, const ValueType& scores, const ValueType& target) {
  ValueType type = ValueType::tensor(scores.dtype, Shape{});
  if (attrs.reduction == LossAttrs::Reduce::kNone) {
    type.ranked = target.ranked;
    type.shape = target.shape;
  }
  return type;
}

/// Weighted negative log-likelihood of log-probabilities; writes y as attrs.reduction says.
Status nll(KernelContext& ctx, const LossAttrs& attrs, const AxisView& v, const std::vector<double>& log_p) {
  const Tensor& target = ctx.input(1);
  const int64_t samples = v.outer * v.inner;
  if (target.elements() != samples)
    return InvalidInput("targets of shape ", target.shape().str(), " for scores of shape ", ctx.input(0).shape().str());
  std::vector<double> weight(static_cast<size_t>(v.extent), 1.0);
  if (ctx.has(2)) {
    if (ctx.input(2).elements() != v.extent)
      return InvalidInput("weights have ", ctx.input(2).elements(), " elements, ", v.extent, " expected");
    to_doubles(ctx.input(2), weight.data());
  }
  double sum = 0, total = 0;
  for (int64_t s = 0; s < samples; ++s) {
    const int64_t label = get_int(target, s);
    double loss = 0;
    if (!(attrs.has_ignore_index && label == attrs.ignore_index)) {
      if (label < 0 || label >= v.extent)
        return InvalidInput("target ", label, " is not one of ", v.extent, " classes");
      const double w = weight[static_cast<size_t>(label)];
      loss = -w * log_p[static_cast<size_t>(((s / v.inner) * v.extent + label) * v.inner + s % v.inner)];
      total += w;
    }
    sum += loss;
    if (attrs.reduction == LossAttrs::Reduce::kNone && ctx.wants(0)) set_double(ctx.output(0), s, loss);
  }
  if (attrs.reduction != LossAttrs::Reduce::kNone && ctx.wants(0))
    set_double(ctx.output(0), 0, attrs.reduction == LossAttrs::Reduce::kMean ? sum / total : sum);
  return Ok();
}

}  // namespace

Status infer_NllLoss(InferContext& ctx) {
  ctx.set(0, loss_type(ctx.attrs<LossAttrs>(), ctx.input(0), ctx.input(1)));
  return Ok();
}

Status reference_NllLoss(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  if (x.rank() == 0) return InvalidInput("scores without a class dimension");
  std::vector<double> values(static_cast<size_t>(x.elements()));
  to_doubles(x, values.data());
  return nll(ctx, ctx.attrs<LossAttrs>(), classes_of(x.shape()), values);
}

Status infer_CrossEntropyLoss(InferContext& ctx) {
  ctx.set(0, loss_type(ctx.attrs<LossAttrs>(), ctx.input(0), ctx.input(1)));
  return same_as_input(ctx, 0, 1);
}

Status reference_CrossEntropyLoss(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  if (x.rank() == 0) return InvalidInput("scores without a class dimension");
  const AxisView v = classes_of(x.shape());
  std::vector<double> values(static_cast<size_t>(x.elements()));
  to_doubles(x, values.data());
  for (int64_t o = 0; o < v.outer; ++o)
    for (int64_t i = 0; i < v.inner; ++i) {
      double* p = values.data() + o * v.extent * v.inner + i;
      double largest = -std::numeric_limits<double>::infinity(), sum = 0;
      for (int64_t k = 0; k < v.extent; ++k) largest = std::max(largest, p[k * v.inner]);
      for (int64_t k = 0; k < v.extent; ++k) sum += std::exp(p[k * v.inner] - largest);
      const double log_sum = largest + std::log(sum);
      for (int64_t k = 0; k < v.extent; ++k) p[k * v.inner] -= log_sum;
    }
  if (ctx.wants(1)) from_doubles(values.data(), ctx.output(1));
  return nll(ctx, ctx.attrs<LossAttrs>(), v, values);
}

}  // namespace smelt
