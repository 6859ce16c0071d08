// Support vector machines of ai.onnx.ml as ATen calls.
#include <algorithm>

#include "formats/executorch/writer/call_ml.h"

namespace smelt::executorch {
namespace {

/// The kernel's value of each row and each vector, [n, vectors].
int svm_kernel(CallWriter& w, const SvmAttrs& a, int x, const std::vector<float>& vectors, int64_t features) {
  const auto count = static_cast<int64_t>(vectors.size()) / features;
  if (a.kernel == SvmAttrs::Kernel::kRbf) {
    const int rows = w.plan().reshape(x, Shape{w.shape(x)[0], 1, features});
    const int distance = w.sub(rows, table(w, DType::kF32, vectors, Shape{1, count, features}));
    const int sum = w.reduce("sum", w.mul(distance, distance), {2}, false);
    return w.unary("exp", w.mul(sum, w.number_like(sum, -a.gamma)));
  }
  const int product = dense(w, x, vectors, features, {});
  if (a.kernel == SvmAttrs::Kernel::kLinear) return product;
  const int line = w.add(w.mul(product, w.number_like(product, a.gamma)), w.number_like(product, a.coef0));
  if (a.kernel == SvmAttrs::Kernel::kPoly)
    return w.binary("pow", line, w.number_like(line, a.degree), "Tensor_Tensor_out");
  return w.unary("tanh", line);
}

/// Classes whose pairwise probabilities are coupled: a round has some calls for each.
constexpr size_t kMostCoupled = 64;

/// Probabilities [n, classes] from pairwise ones r [n, classes, classes] (r[i, j]: i against j), by the fixed-point
/// iteration of Wu, Lin and Weng, "Probability estimates for multi-class classification by pairwise coupling", second
/// method.
std::optional<int> coupled(CallWriter& w, int r, int64_t classes) {
  PlanWriter& p = w.plan();
  const int64_t n = w.shape(r)[0];
  Tensor eye(DType::kF32, Shape{classes, classes}), even(DType::kF32, Shape{n, classes});
  for (int64_t t = 0; t < classes; ++t) set_double(eye, t * classes + t, 1);
  for (int64_t i = 0; i < even.elements(); ++i) set_double(even, i, 1.0 / static_cast<double>(classes));
  const int own = w.reduce("sum", w.mul(r, r), {1}, true);
  const int q = w.sub(w.mul(own, p.constant(eye)), w.mul(p.permute(r, {0, 2, 1}), r));
  const auto number = [&](double v) { return p.number(DType::kF32, v); };
  const int eps = number(0.005 / static_cast<double>(classes)), one = number(1), two = number(2);
  const int rounds = p.number(DType::kI64, static_cast<double>(std::max<int64_t>(100, classes)));
  const auto out = p.loop(
      p.number(DType::kBool, 1), {p.number(DType::kI64, 0), p.constant(even)},
      [&](const std::vector<int>& carried) -> std::optional<std::vector<int>> {
        const int before = carried[1];
        const auto product_of = product(w, q, p.reshape(before, Shape{n, classes, 1}));
        if (!product_of) return std::nullopt;
        int qp = p.reshape(*product_of, Shape{n, classes}), now = before;
        int pqp = w.reduce("sum", w.mul(before, qp), {1}, true);
        const int worst = w.reduce("amax", w.unary("abs", w.sub(qp, pqp)), {1}, true);
        const int open = w.compare("ge", worst, eps);
        for (int64_t t = 0; t < classes; ++t) {
          const int row = p.reshape(sliced(w, q, 1, t, t + 1), Shape{n, classes}), at = sliced(w, row, 1, t, t + 1);
          const int entry_of = sliced(w, qp, 1, t, t + 1);
          const int step = w.div(w.sub(pqp, entry_of), at), grown = w.add(step, one);
          Tensor unit(DType::kF32, Shape{1, classes});
          set_double(unit, t, 1);
          now = w.div(w.add(now, w.mul(step, p.constant(unit))), grown);
          const int more = w.mul(step, w.add(w.mul(step, at), w.mul(two, entry_of)));
          pqp = w.div(w.div(w.add(pqp, more), grown), grown);
          qp = w.div(w.add(qp, w.mul(step, row)), grown);
        }
        const int round = w.add(carried[0], p.number(DType::kI64, 1)), keep = p.boolean(false);
        const int some = p.call("aten::any", "dims_out", {open, p.integers({0, 1}), keep}, DType::kBool, Shape{});
        return std::vector<int>{w.binary("logical_and", some, w.compare("lt", round, rounds)), round,
                                w.select(open, now, before)};
      });
  return out ? std::optional((*out)[1]) : std::nullopt;
}

/// Probabilities of the classes from the decision values of all pairs.
std::optional<int> probabilities(CallWriter& w, const SvmAttrs& a, int scores, int64_t classes) {
  PlanWriter& p = w.plan();
  const int64_t n = w.shape(scores)[0], pairs = w.shape(scores)[1];
  const auto first = [&](const std::vector<float>& v) { return std::vector<float>(v.begin(), v.begin() + pairs); };
  const int slope = table(w, DType::kF32, first(a.prob_a), Shape{1, pairs});
  const int line = w.add(w.mul(scores, slope), table(w, DType::kF32, first(a.prob_b), Shape{1, pairs}));
  const int of_first = w.clamp(w.unary("sigmoid", w.unary("neg", line)), 1e-7, 1 - 1e-7);
  // Entry [i, j] is that of its pair, entry [j, i] what remains of 1.
  std::vector<float> spread(static_cast<size_t>(classes * classes * pairs), 0),
      rest(static_cast<size_t>(classes * classes), 0);
  for (int64_t i = 0, pair = 0; i < classes; ++i)
    for (int64_t j = i + 1; j < classes; ++j, ++pair) {
      spread[static_cast<size_t>((i * classes + j) * pairs + pair)] = 1;
      spread[static_cast<size_t>((j * classes + i) * pairs + pair)] = -1;
      rest[static_cast<size_t>(j * classes + i)] = 1;
    }
  return coupled(w, p.reshape(dense(w, of_first, spread, pairs, rest), Shape{n, classes, classes}), classes);
}

/// Decision values of all pairs of classes, and the votes that they cast.
bool pairwise_svm(CallWriter& w, const SvmAttrs& a, int kernel) {
  const size_t classes = a.vectors_per_class.size(), pairs = classes * (classes - 1) / 2;
  size_t total = 0;
  std::vector<size_t> start;
  for (const int64_t n : a.vectors_per_class) {
    start.push_back(total);
    total += static_cast<size_t>(n);
  }
  if (a.labels.size() != classes || classes < 2 || classes > kMostCoupled || a.rho.size() < pairs ||
      (!a.prob_a.empty() && (a.prob_a.size() < pairs || a.prob_b.size() < pairs)))
    return false;
  std::vector<float> matrix(pairs * total, 0), votes(classes * pairs, 0), first(classes, 0);
  for (size_t i = 0, p = 0; i < classes; ++i)
    for (size_t j = i + 1; j < classes; ++j, ++p) {
      const auto set = [&](size_t of, size_t row) {
        for (size_t m = start[of]; m < start[of] + static_cast<size_t>(a.vectors_per_class[of]); ++m)
          matrix[p * total + m] = a.coefficients[row * total + m];
      };
      set(i, j - 1);
      set(j, i);
      votes[i * pairs + p] = 1;
      votes[j * pairs + p] = -1;
      first[j] += 1;
    }
  const std::vector<float> rho(a.rho.begin(), a.rho.begin() + static_cast<std::ptrdiff_t>(pairs));
  const int scores = dense(w, kernel, matrix, static_cast<int64_t>(total), rho);
  const int won = w.cast(w.compare("gt", scores, w.number_like(scores, 0)), DType::kF32);
  if (!bind_labels(w, a.labels, first_largest(w, dense(w, won, votes, static_cast<int64_t>(pairs), first))))
    return false;
  if (!a.prob_a.empty()) {
    const auto p = probabilities(w, a, scores, static_cast<int64_t>(classes));
    return p && bind_scores(w, 1, *p, a.post, ml::SecondClass::kNone);
  }
  const bool positive = std::ranges::all_of(a.coefficients, [](float c) { return c >= 0; });
  ml::SecondClass second = ml::SecondClass::kNone;
  if (a.rho.size() == 1 && classes == 2)
    second = a.post == PostTransform::kNone || (a.post == PostTransform::kLogistic && !positive)
                 ? ml::SecondClass::kNegative
                 : ml::SecondClass::kComplement;
  return bind_scores(w, 1, scores, a.post, second);
}

/// A classifier without support vectors: a score of each class.
bool linear_svm(CallWriter& w, const SvmAttrs& a, int kernel) {
  const double rho = a.rho.empty() ? 0 : static_cast<double>(a.rho[0]);
  const int scores = w.add(kernel, w.number_like(kernel, rho));
  const bool positive = std::ranges::all_of(a.coefficients, [](float c) { return c >= 0; });
  int label = first_largest(w, scores);
  ml::SecondClass second = ml::SecondClass::kNone;
  if (a.rho.size() == 1 && a.labels.size() == 2) {
    const bool negative = a.post == PostTransform::kNone || (a.post == PostTransform::kLogistic && !positive);
    second = negative ? ml::SecondClass::kNegative : ml::SecondClass::kComplement;
    if (a.prob_a.empty()) {
      const int top = w.reduce("amax", scores, {1}, false);
      const int up =
          positive ? w.compare("ge", top, w.number_like(top, 0.5)) : w.compare("gt", top, w.number_like(top, 0));
      label = w.select(up, w.number_like(label, 1), label);
    }
  }
  return bind_labels(w, a.labels, label) && bind_scores(w, 1, scores, a.post, second);
}

}  // namespace

bool call_svm(CallWriter& w) {
  const auto& a = w.attrs<SvmAttrs>();
  const auto x = feature_rows(w);
  const bool supported = a.classifier ? !a.vectors_per_class.empty() : a.supports > 0;
  if (!x) return false;
  const int kernel = svm_kernel(w, a, *x, supported ? a.support_vectors : a.coefficients, w.shape(*x)[1]);
  if (a.classifier) return supported ? pairwise_svm(w, a, kernel) : linear_svm(w, a, kernel);
  const float rho = a.rho.empty() ? 0 : a.rho[0];
  int sum = supported ? dense(w, kernel, a.coefficients, a.supports, {rho})
                      : w.add(w.reduce("sum", kernel, {1}, true), w.number_like(kernel, rho));
  if (a.one_class)
    sum = w.select(w.compare("gt", sum, w.number_like(sum, 0)), w.number_like(sum, 1), w.number_like(sum, -1));
  return bind_scores(w, 0, sum, PostTransform::kNone, ml::SecondClass::kNone);
}

}  // namespace smelt::executorch
