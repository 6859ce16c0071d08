// Linear models, decision trees and feature transforms of ai.onnx.ml as ATen calls.
#include <algorithm>
#include <cmath>

#include "formats/common/tree_tables.h"
#include "formats/executorch/writer/call_ml.h"

namespace smelt::executorch {
using Trees = TreeEnsembleAttrs;

std::optional<int> feature_rows(CallWriter& w) {
  const ValueType& x = w.in_type(0);
  if (x.quant || x.shape.rank() != 2 || x.shape[1] == 0 || x.dtype == DType::kF64 || is_complex(x.dtype))
    return std::nullopt;
  return w.cast(w.in(0), DType::kF32);
}

int dense(CallWriter& w, int x, const std::vector<float>& matrix, int64_t k, const std::vector<float>& bias) {
  const auto m = static_cast<int64_t>(matrix.size()) / k;
  const int b = bias.empty() ? w.plan().null() : table(w, DType::kF32, bias, Shape{m});
  const int weights = table(w, DType::kF32, matrix, Shape{m, k});
  return w.plan().call("aten::linear", "out", {x, weights, b}, DType::kF32, Shape{w.shape(x)[0], m});
}

int first_largest(CallWriter& w, int x) {
  const int dim = w.plan().integer(1), keep = w.plan().boolean(false);
  return w.plan().call("aten::argmax", "out", {x, dim, keep}, DType::kI64, Shape{w.shape(x)[0]});
}

namespace {

/// 1 where the single column of x [n, 1] is above `bound`, else 0, int64 [n].
int above(CallWriter& w, int x, double bound) {
  const int hit = w.cast(w.compare("gt", x, w.number_like(x, bound)), DType::kI64);
  return w.plan().reshape(hit, Shape{w.shape(x)[0]});
}

}  // namespace

bool bind_labels(CallWriter& w, const ClassLabels& labels, int index) {
  if (!w.wants(0)) return true;
  if (!labels.strings.empty() || labels.ints.empty()) return false;
  const int names = table(w, DType::kI64, labels.ints, Shape{static_cast<int64_t>(labels.ints.size())});
  return w.out(0, look_up(w, names, index));
}

bool bind_scores(CallWriter& w, int output, int scores, PostTransform post, ml::SecondClass second) {
  if (!w.wants(output)) return true;
  PlanWriter& p = w.plan();
  int64_t columns = w.shape(scores)[1];
  if (post == PostTransform::kProbit) return false;
  int y = scores;
  if (columns == 1 && second != ml::SecondClass::kNone) {
    int other = w.unary("neg", y);
    if (second == ml::SecondClass::kComplement) {
      other = w.add(other, w.number_like(other, 1));
    } else if (post == PostTransform::kLogistic) {
      other = w.unary("sigmoid", other);
      y = w.unary("sigmoid", y);
    }
    const int list = p.list({other, y}), dim = p.integer(1);
    columns = 2;
    y = p.call("aten::cat", "out", {list, dim}, DType::kF32, Shape{w.shape(y)[0], 2});
  } else if (columns > 1 && post == PostTransform::kSoftmax) {
    const int dim = p.integer(1), half = p.boolean(false);
    y = w.call("aten::_softmax", {y, dim, half});
  } else if (columns > 1 && post == PostTransform::kSoftmaxZero) {
    // Zeros stay what they are and count for nothing.
    const int top = w.reduce("amax", y, {1}, true), none = w.number_like(y, 0);
    const int some = w.compare("gt", {w.unary("abs", y), w.number_like(y, 1e-7)});
    const int parts = w.select(some, w.unary("exp", w.sub(y, top)), none);
    const int kept = w.select(some, parts, w.mul(y, w.unary("exp", w.unary("neg", top))));
    y = w.div(kept, w.reduce("sum", parts, {1}, true));
  } else if (columns > 1 && post == PostTransform::kLogistic) {
    y = w.unary("sigmoid", y);
  }
  if (w.out_type(output).shape.back() != columns) return false;
  return w.out(output, w.cast(p.reshape(y, w.out_type(output).shape), w.out_type(output).dtype));
}

bool call_linear_model(CallWriter& w) {
  const auto& a = w.attrs<LinearModelAttrs>();
  const auto x = feature_rows(w);
  if (!x || a.targets < 1) return false;
  std::vector<float> bias(a.intercepts);
  bias.resize(static_cast<size_t>(a.targets), 0);
  const int scores = dense(w, *x, a.coefficients, static_cast<int64_t>(a.coefficients.size()) / a.targets, bias);
  const bool binary = a.classifier && a.targets == 1;
  if (binary && a.labels.size() < 2) {
    // One label: the positive class.
    if (!a.labels.strings.empty()) return false;
    const ClassLabels both{.ints = {0, a.labels.ints.empty() ? 1 : a.labels.ints[0]}};
    if (!bind_labels(w, both, above(w, scores, 0))) return false;
  } else if (a.classifier) {
    if (!bind_labels(w, a.labels, binary ? above(w, scores, 0) : first_largest(w, scores))) return false;
  }
  const auto other = a.post == PostTransform::kLogistic ? ml::SecondClass::kNegative : ml::SecondClass::kComplement;
  return bind_scores(w, a.classifier ? 1 : 0, scores, a.post,
                     binary && a.labels.size() == 2 ? other : ml::SecondClass::kNone);
}

bool call_feature_normalize(CallWriter& w) {
  using Norm = FeatureNormalizeAttrs::Norm;
  const auto x = feature_rows(w);
  if (!x) return false;
  const Norm norm = w.attrs<FeatureNormalizeAttrs>().norm;
  int size = norm == Norm::kMax  ? w.reduce("amax", *x, {1}, true)
             : norm == Norm::kL1 ? w.reduce("sum", w.unary("abs", *x), {1}, true)
                                 : w.unary("sqrt", w.reduce("sum", w.mul(*x, *x), {1}, true));
  // A row whose norm is 0 stays.
  const int some = w.compare("ne", size, w.number_like(size, 0));
  return w.out(0, w.div(*x, w.select(some, size, w.number_like(size, 1))));
}

bool call_impute(CallWriter& w) {
  const auto& a = w.attrs<ImputeAttrs>();
  const ValueType& t = w.in_type(0);
  const bool real = is_float(t.dtype);
  const size_t count = real ? a.floats.size() : a.ints.size();
  const int64_t columns = t.shape.rank() > 0 ? t.shape[t.shape.rank() == 1 ? 0 : 1] : 1;
  if (t.shape.rank() > 2 || t.quant || (count != 1 && static_cast<int64_t>(count) != columns)) return false;
  const int x = w.in(0);
  const Shape shape = count == 1 ? Shape{} : Shape{columns};
  const int values = real ? table(w, t.dtype, a.floats, shape) : table(w, t.dtype, a.ints, shape);
  const bool nan = real && std::isnan(a.replaced);
  const int replaced = nan ? x : w.number_like(x, real ? a.replaced : static_cast<double>(a.replaced_int));
  return w.out(0, w.select(w.compare(nan ? "ne" : "eq", x, replaced), values, x));
}

namespace {

const char* comparison(Trees::Mode mode) {
  switch (mode) {
    case Trees::Mode::kLessEqual:
      return "le";
    case Trees::Mode::kLess:
      return "lt";
    case Trees::Mode::kGreaterEqual:
      return "ge";
    case Trees::Mode::kGreater:
      return "gt";
    case Trees::Mode::kEqual:
      return "eq";
    default:
      return "ne";
  }
}

/// All trees of all rows walk one level down at a time, by look-ups in tables of nodes.
class TreeWalk {
 public:
  TreeWalk(CallWriter& w, int rows) : w_(w), a_(w.attrs<Trees>()), t_(a_), rows_(rows) {
    yes_ = table(w, DType::kI64, t_.yes, shape());
    no_ = table(w, DType::kI64, t_.no, shape());
    feature_ = table(w, DType::kI64, t_.feature, shape());
    split_ = table(w, DType::kF32, t_.split, shape());
    if (!t_.missing.empty()) missing_ = table(w, DType::kBool, t_.missing, shape());
    for (const std::vector<bool>& of : t_.nodes_of_a_mode) mode_tables_.push_back(table(w, DType::kBool, of, shape()));
  }

  /// Leaves that the rows reach, int64 [n, trees].
  int leaves(size_t depth) {
    const int64_t n = w_.shape(rows_)[0];
    std::vector<int32_t> roots;
    for (int64_t row = 0; row < n; ++row) roots.insert(roots.end(), t_.roots.begin(), t_.roots.end());
    int at = table(w_, DType::kI64, roots, Shape{n, static_cast<int64_t>(t_.roots.size())});
    for (size_t level = 0; level < depth; ++level) at = step(at);
    return w_.sub(at, w_.number_like(at, static_cast<double>(a_.yes.size())));
  }

 private:
  Shape shape() const { return Shape{static_cast<int64_t>(t_.yes.size())}; }
  int step(int at) {
    PlanWriter& p = w_.plan();
    const int features = look_up(w_, feature_, at), dim = p.integer(1), sparse = p.boolean(false);
    const int x = p.call("aten::gather", "out", {rows_, dim, features, sparse}, DType::kF32, w_.shape(at));
    const int split = look_up(w_, split_, at);
    int yes = -1;
    for (size_t m = 0; m < t_.modes.size(); ++m) {
      int met = w_.compare(comparison(t_.modes[m]), x, split);
      if (!mode_tables_.empty()) met = w_.binary("logical_and", met, look_up(w_, mode_tables_[m], at));
      yes = yes < 0 ? met : w_.binary("logical_or", yes, met);
    }
    if (missing_ >= 0)
      yes = w_.binary("logical_or", yes, w_.binary("logical_and", {w_.compare("ne", x, x), look_up(w_, missing_, at)}));
    return w_.select({yes, look_up(w_, yes_, at), look_up(w_, no_, at)});
  }

  CallWriter& w_;
  const Trees& a_;
  const formats::TreeWalkTables t_;
  int rows_;
  int yes_ = -1, no_ = -1, feature_ = -1, split_ = -1, missing_ = -1;
  std::vector<int> mode_tables_;
};

/// Sums, means, minima or maxima of `votes`, [n, targets]; nullopt where the aggregate wants votes for all targets.
std::optional<int> tree_scores(CallWriter& w, const formats::TreeVotes& votes, int leaves) {
  const auto& a = w.attrs<Trees>();
  using Aggregate = Trees::Aggregate;
  const bool sums = a.aggregate == Aggregate::kSum || a.aggregate == Aggregate::kAverage;
  if (!sums && !votes.all) return std::nullopt;
  const Shape shape{static_cast<int64_t>(a.leaf_begin.size()) - 1, a.targets};
  const int found = look_up(w, table(w, DType::kF32, votes.weights, shape), leaves);
  const int scores = w.reduce(sums ? "sum" : a.aggregate == Aggregate::kMin ? "amin" : "amax", found, {1}, false);
  if (a.aggregate != Aggregate::kAverage) return scores;
  return w.div(scores, w.number_like(scores, static_cast<double>(a.roots.size())));
}

/// Columns of sums [n, 2] for formats::two_classes().
struct SumColumns {
  CallWriter& w;
  int sums;
  int column(int64_t k) { return sliced(w, sums, 1, k, k + 1, 1); }
  int plus(int x, double v) { return w.add(x, w.number_like(x, v)); }
  int times(int x, double v) { return w.mul(x, w.number_like(x, v)); }
  int negated(int x) { return w.unary("neg", x); }
};

bool finish_two_classes(CallWriter& w, const formats::TreeVotes& v, int sums) {
  const auto& a = w.attrs<Trees>();
  const auto found = formats::two_classes(a, v, SumColumns{w, sums});
  if (!found || !bind_labels(w, a.labels, above(w, found->positive, found->bound))) return false;
  if (found->other < 0) return bind_scores(w, 1, found->first, a.post, found->second);
  return bind_scores(w, 1, concatenated(w, {found->first, found->other}, 1), a.post, found->second);
}

}  // namespace

bool call_tree_ensemble(CallWriter& w) {
  const auto& a = w.attrs<Trees>();
  const auto depth = formats::tree_depth(a);
  const auto rows = feature_rows(w);
  if (!depth || !rows || a.roots.empty() || a.yes.empty() || a.leaf_begin.size() < 2) return false;
  const int64_t features = w.shape(*rows)[1];
  if (std::ranges::count(a.mode, Trees::Mode::kMember) > 0 ||
      std::ranges::any_of(a.feature, [&](int32_t f) { return f >= features; }))
    return false;
  if (a.classifier && (a.labels.size() != static_cast<size_t>(a.targets) || a.targets < 2)) return false;
  const formats::TreeVotes votes(a);
  const auto sums = tree_scores(w, votes, TreeWalk(w, *rows).leaves(*depth));
  if (!sums) return false;
  if (a.classifier && a.targets == 2) return finish_two_classes(w, votes, *sums);
  // Base values of targets that no tree voted for, and such targets themselves, have rules of their own.
  if (!votes.all && (a.classifier || !(a.targets == 1 || a.base.empty()))) return false;
  int scores = *sums;
  if (!a.base.empty()) {
    std::vector<double> base(a.base);
    base.resize(static_cast<size_t>(a.targets), 0);
    scores = w.add(scores, table(w, DType::kF32, base, Shape{1, a.targets}));
  }
  if (a.classifier && !bind_labels(w, a.labels, first_largest(w, scores))) return false;
  return bind_scores(w, a.classifier ? 1 : 0, scores, a.post, ml::SecondClass::kNone);
}

/// Values by integer keys: the entry behind the largest position of an equal key, the fallback in front of all.
bool call_label_encode(CallWriter& w) {
  const auto& a = w.attrs<LabelEncodeAttrs>();
  const ValueType& x = w.in_type(0);
  const int64_t n = a.keys.elements();
  const DType type = a.values.dtype();
  if (!is_integer(a.keys.dtype()) || x.dtype != a.keys.dtype() || n == 0 || type == DType::kString) return false;
  PlanWriter& p = w.plan();
  Shape column = x.shape;
  column.push_back(1);
  std::vector<int64_t> positions;
  Tensor entries(type, Shape{n + 1});
  for (int64_t i = 0; i <= n; ++i) {
    if (i > 0) positions.push_back(i);
    const Tensor& from = i == 0 ? a.fallback : a.values;
    const int64_t k = std::max<int64_t>(i - 1, 0);
    if (is_float(type))
      set_double(entries, i, get_double(from, k));
    else
      set_int(entries, i, get_int(from, k));
  }
  const int equal = w.compare("eq", {p.reshape(w.in(0), column), p.constant(a.keys)});
  const int found = w.mul({w.cast(equal, DType::kI64), table(w, DType::kI64, positions, Shape{n})});
  const int from = p.constant(entries);
  return w.out(0, look_up(w, from, w.reduce("amax", found, {x.shape.rank()}, false)));
}

/// 1 where a category equals the element, along a new last axis.
bool call_category_one_hot(CallWriter& w) {
  const auto& a = w.attrs<CategoryOneHotAttrs>();
  const ValueType& x = w.in_type(0);
  if (!a.zeros || a.ints.empty() || x.dtype == DType::kString || is_complex(x.dtype) || x.quant) return false;
  Shape column = x.shape;
  column.push_back(1);
  const int categories = table(w, DType::kI64, a.ints, Shape{static_cast<int64_t>(a.ints.size())});
  const int value = w.plan().reshape(w.cast(w.in(0), DType::kI64), column);
  const int hit = w.cast(w.compare("eq", value, categories), DType::kF32);
  return w.out(0, w.plan().reshape(hit, w.out_type(0).shape));
}

/// Columns of all inputs side by side, cut or filled up with zeros to the sizes given.
bool call_feature_concat(CallWriter& w) {
  const auto& a = w.attrs<FeatureConcatAttrs>();
  const int64_t rows = w.out_type(0).shape[0];
  std::vector<int> parts;
  for (int i = 0; i < w.inputs(); ++i) {
    const ValueType& x = w.in_type(i);
    if (x.quant || is_complex(x.dtype) || rows == 0 || x.shape.elements() % rows != 0) return false;
    const int64_t columns = x.shape.elements() / rows;
    const int64_t take = a.sizes.empty() ? columns : a.sizes[static_cast<size_t>(i)];
    const int part = w.plan().reshape(w.cast(w.in(i), DType::kF32), Shape{rows, columns});
    parts.push_back(take < columns ? sliced(w, part, 1, 0, take) : bordered(w, part, 1, 0, take - columns, 0));
  }
  return w.out(0, concatenated(w, parts, 1));
}

/// The values [n, c] alone, since the format has no maps: column k belongs to key k.
bool call_zip_map(CallWriter& w) {
  const auto& keys = w.attrs<MapAttrs>().keys;
  const Shape& shape = w.in_type(0).shape;
  if (shape.rank() != 2 || shape[1] != static_cast<int64_t>(keys.size())) return false;
  return w.out(0, w.in(0));
}

}  // namespace smelt::executorch
