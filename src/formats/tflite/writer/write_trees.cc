// Ensembles of decision trees: all trees of all rows walk one level down at a time, by look-ups in tables of nodes.
#include <algorithm>
#include <cmath>

#include "formats/common/tree_tables.h"
#include "formats/tflite/writer/scores.h"

namespace smelt::tflite {
namespace {

using Code = tfl::BuiltinOperator;
using Trees = TreeEnsembleAttrs;

Code comparison(Trees::Mode mode) {
  switch (mode) {
    case Trees::Mode::kLessEqual:
      return Code::LESS_EQUAL;
    case Trees::Mode::kLess:
      return Code::LESS;
    case Trees::Mode::kGreaterEqual:
      return Code::GREATER_EQUAL;
    case Trees::Mode::kGreater:
      return Code::GREATER;
    case Trees::Mode::kEqual:
      return Code::EQUAL;
    default:
      return Code::NOT_EQUAL;
  }
}

class Walk {
 public:
  Walk(OpWriter& w, int rows) : w_(w), s_(w.subgraph()), a_(w.attrs<Trees>()), t_(a_), rows_(rows) {
    const Shape shape{static_cast<int64_t>(t_.yes.size())};
    yes_ = i32_table(s_, t_.yes, shape);
    no_ = i32_table(s_, t_.no, shape);
    feature_ = i32_table(s_, t_.feature, shape);
    split_ = f32_table(s_, t_.split, shape);
    if (!t_.missing.empty()) missing_ = bool_table(s_, t_.missing, shape);
    for (const std::vector<bool>& of : t_.nodes_of_a_mode) mode_tables_.push_back(bool_table(s_, of, shape));
  }
  /// Leaves that the rows reach, int32 [n, trees].
  int leaves(size_t depth) {
    int at = i32_table(s_, t_.roots, Shape{static_cast<int64_t>(t_.roots.size())});
    // A tree of one leaf still takes a step, which gives the result its rows.
    for (size_t level = 0; level < std::max<size_t>(depth, 1); ++level) at = step(at, level == 0);
    return w_.sub(at, w_.number_like(at, static_cast<double>(a_.yes.size())));
  }

 private:
  int look_up(int table, int at, DType dtype) { return s_.add(Code::GATHER, {table, at}, dtype, gather_options(0)); }
  int both(IntList ab) { return s_.add(Code::LOGICAL_AND, ab, DType::kBool); }
  int either(int a, int b) { return s_.add(Code::LOGICAL_OR, {a, b}, DType::kBool); }
  /// The entries behind `at`: [trees] of the roots, [n, trees] later.
  int step(int at, bool first) {
    const int x = s_.add(Code::GATHER, {rows_, look_up(feature_, at, DType::kI32)}, DType::kF32,
                         gather_options(1, first ? 0 : 1));
    const int split = look_up(split_, at, DType::kF32);
    int yes = -1;
    for (size_t m = 0; m < t_.modes.size(); ++m) {
      int met = w_.compare(comparison(t_.modes[m]), x, split);
      if (!mode_tables_.empty()) met = both({met, look_up(mode_tables_[m], at, DType::kBool)});
      yes = yes < 0 ? met : either(yes, met);
    }
    if (missing_ >= 0)
      yes = either(yes, both({w_.compare(Code::NOT_EQUAL, x, x), look_up(missing_, at, DType::kBool)}));
    return s_.add(Code::SELECT_V2, {yes, look_up(yes_, at, DType::kI32), look_up(no_, at, DType::kI32)}, DType::kI32,
                  select_options());
  }

  OpWriter& w_;
  SubgraphWriter& s_;
  const Trees& a_;
  const formats::TreeWalkTables t_;
  int rows_;
  int yes_ = -1, no_ = -1, feature_ = -1, split_ = -1, missing_ = -1;
  std::vector<int> mode_tables_;
};

/// Sums of votes [n, targets].
struct Sums {
  int scores = -1, voted = -1;  ///< `voted`: float32 [n, targets], 0 where nobody voted; -1 if all targets have votes
};

std::optional<Sums> add_votes(OpWriter& w, const formats::TreeVotes& votes, int leaves) {
  const auto& a = w.attrs<Trees>();
  SubgraphWriter& s = w.subgraph();
  const bool sums = a.aggregate == Trees::Aggregate::kSum || a.aggregate == Trees::Aggregate::kAverage;
  if (!sums && !votes.all) return std::nullopt;
  const Shape shape{static_cast<int64_t>(a.leaf_begin.size()) - 1, a.targets};
  const auto of_trees = [&](const std::vector<float>& table, Code code) {
    const int found = s.add(Code::GATHER, {f32_table(s, table, shape), leaves}, DType::kF32, gather_options(0));
    return w.reduce(code, found, {1}, false);
  };
  Sums out;
  out.scores = of_trees(votes.weights, sums                                    ? Code::SUM
                                       : a.aggregate == Trees::Aggregate::kMin ? Code::REDUCE_MIN
                                                                               : Code::REDUCE_MAX);
  if (a.aggregate == Trees::Aggregate::kAverage)
    out.scores = w.div(out.scores, s.f32(static_cast<double>(a.roots.size())));
  if (!votes.all) out.voted = of_trees(votes.voted, Code::REDUCE_MAX);
  return out;
}

/// Adds the base values where there are votes, or everywhere.
int with_base(OpWriter& w, const Sums& v, bool to_all) {
  const auto& a = w.attrs<Trees>();
  if (a.base.empty()) return v.scores;
  std::vector<float> values(a.base.begin(), a.base.end());
  values.resize(static_cast<size_t>(a.targets), 0);
  int base = f32_table(w.subgraph(), values, Shape{1, a.targets});
  if (!to_all && v.voted >= 0) base = w.mul(v.voted, base);
  return w.add(v.scores, base);
}

/// Columns of sums [n, 2] for formats::two_classes().
struct SumColumns {
  OpWriter& w;
  int sums;
  int column(int64_t k) {
    SubgraphWriter& s = w.subgraph();
    return s.add(Code::SLICE, {sums, s.i32({0, k}), s.i32({-1, 1})}, DType::kF32,
                 options_of<tfl::SliceOptions>([](auto& b) { return tfl::CreateSliceOptions(b); }));
  }
  int plus(int x, double v) { return w.add(x, w.subgraph().f32(v)); }
  int times(int x, double v) { return w.mul(x, w.subgraph().f32(v)); }
  int negated(int x) { return w.call(Code::NEG, {x}); }
};

bool finish_two_classes(OpWriter& w, const formats::TreeVotes& v, int sums) {
  const auto& a = w.attrs<Trees>();
  const auto found = formats::two_classes(a, v, SumColumns{w, sums});
  if (!found) return false;
  bind_labels(w, a.labels, above(w, found->positive, found->bound));
  if (found->other < 0) return bind_scores(w, 1, found->first, 1, a.post, found->second);
  const int scores =
      w.subgraph().add(Code::CONCATENATION, {found->first, found->other}, DType::kF32, concat_options(1));
  return bind_scores(w, 1, scores, 2, a.post, found->second);
}

}  // namespace

bool write_tree_ensemble(OpWriter& w) {
  const auto& a = w.attrs<Trees>();
  SubgraphWriter& s = w.subgraph();
  const auto depth = formats::tree_depth(a);
  const auto features = w.in_type(0).ranked && w.rank(0) == 2 ? w.in_type(0).shape[1] : 0;
  const bool fits = std::ranges::all_of(a.feature, [&](int32_t f) { return f < features; });
  const auto sets = std::ranges::count(a.mode, Trees::Mode::kMember);
  // Two classes by a base value alone: no tree votes.
  if (!depth || !fits || sets > 0 || a.roots.empty() || a.yes.empty() || a.leaf_begin.size() < 2) return false;
  if (a.classifier && a.labels.size() != static_cast<size_t>(a.targets)) return false;
  const auto rows = feature_rows(w);
  if (!rows) return false;
  Walk walk(w, *rows);
  const formats::TreeVotes votes(a);
  const auto sums = add_votes(w, votes, walk.leaves(*depth));
  if (!sums) return false;
  if (!a.classifier)
    return bind_scores(w, 0, with_base(w, *sums, a.targets == 1), a.targets, a.post, ml::SecondClass::kNone);
  if (a.targets == 2) return finish_two_classes(w, votes, sums->scores);
  if (a.targets < 2) return false;
  const int scores = with_base(w, *sums, true);
  int ranked = scores;
  if (sums->voted >= 0 && a.base.size() != static_cast<size_t>(a.targets)) {
    // Targets without votes are no candidates.
    const int has = w.compare(Code::GREATER, sums->voted, s.f32(0));
    ranked = s.add(Code::SELECT_V2, {has, scores, s.f32(-INFINITY)}, DType::kF32, select_options());
  }
  bind_labels(w, a.labels, first_largest(s, ranked));
  return bind_scores(w, 1, scores, a.targets, a.post, ml::SecondClass::kNone);
}

}  // namespace smelt::tflite
