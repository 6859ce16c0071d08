// Linear models and support vector machines.
#include <algorithm>
#include <cmath>

#include "ops/ml/scores.h"
#include "ops/ml/svm.h"
#include "tensor/numeric.h"

namespace smelt {

namespace {

void write_row(Tensor& out, int64_t n, int64_t width, std::span<const double> s) {
  for (int64_t k = 0; k < width; ++k)
    set_double(out, n * width + k, k < static_cast<int64_t>(s.size()) ? s[static_cast<size_t>(k)] : 0.0);
}

size_t first_largest(std::span<const double> s) {
  return static_cast<size_t>(std::max_element(s.begin(), s.end()) - s.begin());
}

/// The sum of term(k) for k < n, in four partial partial.
template <class Term>
double sum_of(int64_t n, Term&& term) {
  double partial[4] = {};
  int64_t k = 0;
  for (; k + 4 <= n; k += 4)
    for (int64_t j = 0; j < 4; ++j) partial[j] += term(k + j);
  for (; k < n; ++k) partial[0] += term(k);
  return (partial[0] + partial[1]) + (partial[2] + partial[3]);
}
double dot(const float* a, const double* b, int64_t n) {
  return sum_of(n, [&](int64_t k) { return static_cast<double>(a[k]) * b[k]; });
}

int64_t linear_width(const LinearModelAttrs& a) {
  return a.classifier && a.targets == 1 && a.labels.size() == 2 ? 2 : a.targets;
}

}  // namespace

Status infer_LinearModel(InferContext& ctx) {
  const auto& a = ctx.attrs<LinearModelAttrs>();
  const ValueType& x = ctx.input(0);
  if (x.ranked && a.targets > 0) {
    const int64_t features = ml::rows_of(x.shape).features;
    if (features >= 0 && features * a.targets != static_cast<int64_t>(a.coefficients.size()))
      return InvalidModel(a.coefficients.size(), " coefficients for ", a.targets, " targets and ", features,
                          " features");
  }
  return ml::infer_model(ctx, a.labels, a.classifier, linear_width(a));
}

Status reference_LinearModel(KernelContext& ctx) {
  const auto& a = ctx.attrs<LinearModelAttrs>();
  const auto rows = ml::rows_of(ctx.input(0).shape());
  const auto x = ml::load_rows(ctx.input(0));
  const int out = a.classifier ? 1 : 0;
  const bool binary = a.classifier && a.targets == 1;
  std::pmr::vector<double> s;
  for (int64_t n = 0; n < rows.count; ++n) {
    s.assign(static_cast<size_t>(a.targets), 0);
    for (int64_t t = 0; t < a.targets; ++t) {
      const double bias = t < static_cast<int64_t>(a.intercepts.size()) ? a.intercepts[static_cast<size_t>(t)] : 0;
      const double sum =
          bias + dot(a.coefficients.data() + t * rows.features, x.data() + n * rows.features, rows.features);
      s[static_cast<size_t>(t)] = sum;
    }
    if (a.classifier && ctx.wants(0)) {
      if (binary && a.labels.size() < 2) {
        // One label: the positive class is 1.
        if (a.labels.strings.empty())
          ctx.output(0).data<int64_t>()[n] = s[0] > 0 ? (a.labels.empty() ? 1 : a.labels.ints[0]) : 0;
        else
          ctx.output(0).data<std::string>()[n] = s[0] > 0 ? a.labels.strings[0] : std::string();
      } else {
        SMELT_TRY(ml::set_label(ctx.output(0), n, a.labels, binary ? (s[0] > 0 ? 1 : 0) : first_largest(s)));
      }
    }
    const bool second = binary && a.labels.size() == 2;
    const auto other = a.post == PostTransform::kLogistic ? ml::SecondClass::kNegative : ml::SecondClass::kComplement;
    ml::finish_scores(s, a.post, second ? other : ml::SecondClass::kNone);
    if (ctx.wants(out)) write_row(ctx.output(out), n, linear_width(a), s);
  }
  return ctx.tick();
}

namespace {

double kernel(const SvmAttrs& a, const double* x, const float* v, int64_t n) {
  if (a.kernel == SvmAttrs::Kernel::kRbf) {
    const double distance = sum_of(n, [&](int64_t k) {
      const double d = x[k] - static_cast<double>(v[k]);
      return d * d;
    });
    return std::exp(-a.gamma * distance);
  }
  const double sum = dot(v, x, n);
  switch (a.kernel) {
    case SvmAttrs::Kernel::kPoly:
      return std::pow(a.gamma * sum + a.coef0, a.degree);
    case SvmAttrs::Kernel::kSigmoid:
      return std::tanh(a.gamma * sum + a.coef0);
    default:
      return sum;
  }
}

/// Probabilities of several classes from pairwise ones (row.pairs[i, j]: i against j), by the fixed-point iteration of
/// Wu, Lin and Weng, "Probability estimates for multi-class classification by pairwise coupling", second method.
void couple(int64_t classes, SvmRow& row) {
  const auto at = [&](int64_t i, int64_t j) { return static_cast<size_t>(i * classes + j); };
  const auto& r = row.pairs;
  auto &p = row.probabilities, &q = row.products, &qp = row.multiplied;
  p.assign(static_cast<size_t>(classes), 1.0 / static_cast<double>(classes));
  q.assign(static_cast<size_t>(classes * classes), 0);
  qp.assign(static_cast<size_t>(classes), 0);
  for (int64_t t = 0; t < classes; ++t)
    for (int64_t j = 0; j < classes; ++j) {
      if (j == t) continue;
      q[at(t, t)] += r[at(j, t)] * r[at(j, t)];
      q[at(t, j)] = -r[at(j, t)] * r[at(t, j)];
    }
  const double eps = 0.005 / static_cast<double>(classes);
  for (int64_t round = 0; round < std::max<int64_t>(100, classes); ++round) {
    double pqp = 0;
    for (int64_t t = 0; t < classes; ++t) {
      qp[t] = 0;
      for (int64_t j = 0; j < classes; ++j) qp[t] += q[at(t, j)] * p[j];
      pqp += p[t] * qp[t];
    }
    double worst = 0;
    for (int64_t t = 0; t < classes; ++t) worst = std::max(worst, std::fabs(qp[t] - pqp));
    if (worst < eps) break;
    for (int64_t t = 0; t < classes; ++t) {
      const double diff = (-qp[t] + pqp) / q[at(t, t)];
      p[t] += diff;
      pqp = (pqp + diff * (diff * q[at(t, t)] + 2 * qp[t])) / (1 + diff) / (1 + diff);
      for (int64_t j = 0; j < classes; ++j) {
        qp[j] = (qp[j] + diff * q[at(t, j)]) / (1 + diff);
        p[j] /= 1 + diff;
      }
    }
  }
}

/// Pairwise decision values of a classifier with support vectors, and the votes that they cast.
void pairwise(const SvmAttrs& a, SvmRow& row) {
  const std::span<const double> k = row.kernel;
  auto& scores = row.values;
  auto& votes = row.votes;
  const auto classes = static_cast<int64_t>(a.vectors_per_class.size());
  const auto total = static_cast<int64_t>(k.size());
  scores.clear();
  votes.assign(static_cast<size_t>(classes), 0);
  int64_t start_i = 0;
  for (int64_t i = 0; i < classes; ++i) {
    int64_t start_j = start_i + a.vectors_per_class[i];
    for (int64_t j = i + 1; j < classes; ++j) {
      double sum = a.rho[scores.size()];
      for (int64_t m = 0; m < a.vectors_per_class[i]; ++m)
        sum += static_cast<double>(a.coefficients[(j - 1) * total + start_i + m]) * k[start_i + m];
      for (int64_t m = 0; m < a.vectors_per_class[j]; ++m)
        sum += static_cast<double>(a.coefficients[i * total + start_j + m]) * k[start_j + m];
      scores.push_back(sum);
      ++votes[sum > 0 ? i : j];
      start_j += a.vectors_per_class[j];
    }
    start_i += a.vectors_per_class[i];
  }
}

/// The pairwise decision values become probabilities of the classes.
void to_probabilities(const SvmAttrs& a, SvmRow& row) {
  const auto classes = static_cast<int64_t>(a.vectors_per_class.size());
  const auto& scores = row.values;
  auto& r = row.pairs;
  r.assign(static_cast<size_t>(classes * classes), 0);
  size_t index = 0;
  for (int64_t i = 0; i < classes; ++i)
    for (int64_t j = i + 1; j < classes; ++j, ++index) {
      const double v =
          1 - ml::logistic(scores[index] * static_cast<double>(a.prob_a[index]) + static_cast<double>(a.prob_b[index]));
      r[i * classes + j] = std::clamp(v, 1e-7, 1 - 1e-7);
      r[j * classes + i] = 1 - r[i * classes + j];
    }
  couple(classes, row);
  row.values.assign(row.probabilities.begin(), row.probabilities.end());
}

int64_t svm_width(const SvmAttrs& a) {
  if (!a.classifier) return 1;
  const auto classes = static_cast<int64_t>(a.vectors_per_class.empty() ? a.labels.size() : a.vectors_per_class.size());
  if (a.vectors_per_class.empty() || !a.prob_a.empty()) return std::max<int64_t>(classes, 1);
  return classes > 2 ? classes * (classes - 1) / 2 : 2;
}

Status classify_row(KernelContext& ctx, const SvmAttrs& a, int64_t n, SvmRow& row) {
  std::pmr::vector<double>& scores = row.values;
  std::pmr::vector<int64_t>& votes = row.votes;
  if (!a.vectors_per_class.empty()) {
    pairwise(a, row);
    if (!a.prob_a.empty()) to_probabilities(a, row);
  } else {
    votes.clear();
    scores.clear();
    for (const double k : row.kernel) scores.push_back(k + (a.rho.empty() ? 0.0 : static_cast<double>(a.rho[0])));
  }
  bool positive = true;
  for (const float c : a.coefficients) positive = positive && c >= 0;
  size_t label = votes.empty() ? first_largest(scores)
                               : static_cast<size_t>(std::max_element(votes.begin(), votes.end()) - votes.begin());
  ml::SecondClass second = ml::SecondClass::kNone;
  if (a.rho.size() == 1 && a.labels.size() == 2) {
    const bool negative = a.post == PostTransform::kNone || (a.post == PostTransform::kLogistic && !positive);
    second = negative ? ml::SecondClass::kNegative : ml::SecondClass::kComplement;
    if (votes.empty() && a.prob_a.empty()) {
      const double top = scores[label];
      if (positive ? top >= 0.5 : top > 0) label = 1;
    }
  }
  if (ctx.wants(0)) SMELT_TRY(ml::set_label(ctx.output(0), n, a.labels, label));
  ml::finish_scores(scores, a.post, second);
  if (ctx.wants(1)) write_row(ctx.output(1), n, svm_width(a), scores);
  return Ok();
}

}  // namespace

Status infer_Svm(InferContext& ctx) {
  const auto& a = ctx.attrs<SvmAttrs>();
  const ValueType& x = ctx.input(0);
  const int64_t features = x.ranked ? ml::rows_of(x.shape).features : -1;
  const auto size = [&](const std::vector<float>& v) { return static_cast<int64_t>(v.size()); };
  if (features >= 0) {
    int64_t vectors = 0;
    for (const int64_t v : a.vectors_per_class) vectors += v;
    if (!a.classifier && a.supports > 0) vectors = a.supports;
    const int64_t classes = a.classifier ? std::max<int64_t>(1, static_cast<int64_t>(a.labels.size())) : 1;
    if (vectors == 0 ? size(a.coefficients) != classes * features : size(a.support_vectors) != vectors * features)
      return InvalidModel("support vectors or coefficients do not fit ", features, " features");
  }
  return ml::infer_model(ctx, a.labels, a.classifier, svm_width(a));
}

Status reference_Svm(KernelContext& ctx) {
  const auto& a = ctx.attrs<SvmAttrs>();
  const auto rows = ml::rows_of(ctx.input(0).shape());
  const auto x = ml::load_rows(ctx.input(0));
  const std::vector<float>& vectors = svm_vectors(a);
  const size_t features = static_cast<size_t>(rows.features);
  const size_t count = features == 0 ? 0 : vectors.size() / features;
  std::vector<double> k(count);
  SvmRow row(a, k);
  for (int64_t n = 0; n < rows.count; ++n) {
    SMELT_TRY(ctx.tick());
    for (size_t m = 0; m < count; ++m)
      k[m] = kernel(a, x.data() + n * rows.features, vectors.data() + m * features, rows.features);
    SMELT_TRY(svm_row(ctx, a, n, row));
  }
  return Ok();
}

const std::vector<float>& svm_vectors(const SvmAttrs& a) {
  const bool supported = a.classifier ? !a.vectors_per_class.empty() : a.supports > 0;
  return supported ? a.support_vectors : a.coefficients;
}

SvmRow::SvmRow(const SvmAttrs& a, std::span<const double> of_kernel, std::pmr::memory_resource* memory)
    : kernel(of_kernel),
      values(memory),
      votes(memory),
      pairs(memory),
      products(memory),
      probabilities(memory),
      multiplied(memory) {
  const size_t classes = a.vectors_per_class.size();
  values.reserve(std::max({size_t{2}, kernel.size(), classes * classes}));
}

size_t SvmRow::bytes(const SvmAttrs& a, size_t kernel) {
  const size_t classes = a.vectors_per_class.size();
  return sizeof(double) * (2 + kernel + 3 * classes * classes + 3 * classes);
}

Status svm_row(KernelContext& ctx, const SvmAttrs& a, int64_t n, SvmRow& row) {
  if (a.classifier) return classify_row(ctx, a, n, row);
  double sum = a.rho.empty() ? 0 : static_cast<double>(a.rho[0]);
  for (size_t m = 0; m < row.kernel.size(); ++m)
    sum += (a.supports > 0 ? static_cast<double>(a.coefficients[m]) : 1.0) * row.kernel[m];
  if (a.one_class) sum = sum > 0 ? 1 : -1;
  row.values.assign(1, sum);
  write_row(ctx.output(0), n, 1, row.values);  // no transform, as in ONNX Runtime
  return Ok();
}

}  // namespace smelt
