#include "ops/ml/scores.h"

#include <algorithm>
#include <cmath>

#include "tensor/numeric.h"

namespace smelt::ml {

double logistic(double x) {
  const double v = 1 / (1 + std::exp(-std::fabs(x)));
  return x < 0 ? 1 - v : v;
}

namespace {

/// Winitzki's approximation of the inverse error function, in the form that model exporters are tested against.
double inverse_erf(double x) {
  const double sign = x < 0 ? -1 : 1;
  const double log = std::log((1 - x) * (1 + x));
  const double v = 2 / (3.14159 * 0.147) + 0.5 * log;
  return sign * std::sqrt(-v + std::sqrt(v * v - log / 0.147));
}

double probit(double x) { return 1.41421356 * inverse_erf(2 * x - 1); }

void softmax(std::pmr::vector<double>& s, bool keep_zeros) {
  const double top = *std::max_element(s.begin(), s.end());
  double sum = 0;
  for (double& v : s) {
    if (keep_zeros && std::fabs(v) <= 1e-7) {
      v *= std::exp(-top);
      continue;
    }
    v = std::exp(v - top);
    sum += v;
  }
  for (double& v : s) v /= sum;
}

}  // namespace

void finish_scores(std::pmr::vector<double>& s, PostTransform post, SecondClass second) {
  if (s.size() == 1) {
    if (post == PostTransform::kProbit) {
      s[0] = probit(s[0]);
    } else if (second == SecondClass::kComplement) {
      s = {1 - s[0], s[0]};
    } else if (second == SecondClass::kNegative) {
      const double v = s[0];
      const bool transformed = post == PostTransform::kLogistic;
      s = {transformed ? logistic(-v) : -v, transformed ? logistic(v) : v};
    }
    return;
  }
  if (s.empty()) return;
  switch (post) {
    case PostTransform::kNone:
      break;
    case PostTransform::kSoftmax:
      softmax(s, false);
      break;
    case PostTransform::kSoftmaxZero:
      softmax(s, true);
      break;
    case PostTransform::kLogistic:
      for (double& v : s) v = logistic(v);
      break;
    case PostTransform::kProbit:
      for (double& v : s) v = probit(v);
      break;
  }
}

Rows rows_of(const Shape& shape) {
  if (shape.rank() == 0) return {1, 1};
  if (shape.rank() == 1) return {1, shape[0]};
  int64_t features = 1;
  for (int k = 1; k < shape.rank(); ++k) features = shape[k] < 0 ? -1 : features * shape[k];
  return {shape[0], features};
}

std::vector<double> load_rows(const Tensor& x) {
  std::vector<double> out(static_cast<size_t>(x.elements()));
  to_doubles(x, out.data());
  if (x.dtype() != DType::kF64 && x.dtype() != DType::kF32)
    for (double& v : out) v = static_cast<double>(static_cast<float>(v));
  return out;
}

Status infer_model(InferContext& ctx, const ClassLabels& labels, bool classifier, int64_t width) {
  const ValueType& x = ctx.input(0);
  int64_t n = -1;
  if (x.ranked) {
    if (x.shape.rank() < 1) return InvalidModel("x is a scalar, rows of features expected");
    n = rows_of(x.shape).count;
  }
  int scores = 0;
  if (classifier) {
    ctx.set(0, ValueType::tensor(labels.strings.empty() ? DType::kI64 : DType::kString, Shape{n}));
    scores = 1;
  }
  ctx.set(scores, ValueType::tensor(DType::kF32, Shape{n, width}));
  return Ok();
}

Status set_label(Tensor& out, int64_t n, const ClassLabels& labels, size_t index) {
  if (index >= labels.size()) return InvalidModel("class ", index, " of ", labels.size(), " labels");
  if (labels.strings.empty())
    out.data<int64_t>()[n] = labels.ints[index];
  else
    out.data<std::string>()[n] = labels.strings[index];
  return Ok();
}

}  // namespace smelt::ml
