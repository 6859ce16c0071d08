// Ensembles of decision trees.
#include <algorithm>
#include <cmath>

#include "ops/ml/scores.h"
#include "ops/ml/tree.h"
#include "tensor/numeric.h"

namespace smelt {

namespace {

using Trees = TreeEnsembleAttrs;

bool goes_yes(const Trees& a, size_t node, double v) {
  if (std::isnan(v) && a.missing_is_yes[node]) return true;
  const double split = a.split[node];
  switch (a.mode[node]) {
    case Trees::Mode::kLessEqual:
      return v <= split;
    case Trees::Mode::kLess:
      return v < split;
    case Trees::Mode::kGreaterEqual:
      return v >= split;
    case Trees::Mode::kGreater:
      return v > split;
    case Trees::Mode::kEqual:
      return v == split;
    case Trees::Mode::kNotEqual:
      return v != split;
    case Trees::Mode::kMember:
      return std::ranges::find(a.members[node], v) != a.members[node].end();
  }
  return false;
}

/// The leaf that a row reaches; -1 when the tree loops or asks for a feature that the row lacks.
int32_t find_leaf(const Trees& a, int32_t root, const double* row, int64_t features) {
  int32_t at = root;
  for (size_t steps = 0; at >= 0; ++steps) {
    const auto node = static_cast<size_t>(at);
    if (steps > a.yes.size() || a.feature[node] >= features) return -1;
    at = goes_yes(a, node, row[a.feature[node]]) ? a.yes[node] : a.no[node];
  }
  return ~at;
}

using Votes = TreeVotes;

Status vote(const Trees& a, const double* row, int64_t features, Votes& v) {
  std::fill(v.score.begin(), v.score.end(), 0.0);
  std::fill(v.has.begin(), v.has.end(), 0);
  for (const int32_t root : a.roots) {
    const int32_t leaf = find_leaf(a, root, row, features);
    if (leaf < 0) return InvalidInput("a tree has a loop, or asks for a feature beyond the ", features, " given");
    add_leaf_votes(a, leaf, v.score.data(), v.has.data());
  }
  return Ok();
}

/// Adds the base values; with `to_all` also to what got no votes.
void add_base(const Trees& a, Votes& v, bool to_all) {
  for (size_t k = 0; k < a.base.size() && k < v.score.size(); ++k) {
    if (!v.has[k] && !to_all) continue;
    v.score[k] += a.base[k];
    v.has[k] = 1;
  }
}

/// Two classes: the votes may all be for one class; then the other follows from it. What tells the class is the score
/// of the second one, or of the first where the second has no votes.
size_t finish_binary(const Trees& a, Votes& v, ml::SecondClass& second) {
  std::pmr::vector<double>& s = v.score;
  const bool both = v.has[1];
  if (a.base.size() == 2) {
    if (v.has[1]) {
      s[1] = a.base[1] + s[0];
      s[0] = -s[1];
    } else {
      s[1] += a.base[1];
      s[0] += a.base[0];
      v.has[0] = 1;
    }
  } else {
    if (a.base.size() == 1) s[0] += a.base[0];
    if (!v.has[1]) s.pop_back();
  }
  const double positive = both ? s[1] : v.has[0] ? s[0] : 0;
  if (a.one_vote_class) {
    const bool is_positive = a.positive_weights ? positive > 0.5 : positive > 0;
    second = a.positive_weights ? ml::SecondClass::kComplement : ml::SecondClass::kNegative;
    return is_positive ? 1 : 0;
  }
  if (s.size() == 1) second = ml::SecondClass::kNegative;
  return positive > 0 ? 1 : 0;
}

/// More than two classes: the first of the largest among those with votes; base values count as votes.
size_t finish_classes(const Trees& a, Votes& v) {
  add_base(a, v, true);
  size_t label = v.score.size();
  for (size_t k = 0; k < v.score.size(); ++k)
    if (v.has[k] && (label == v.score.size() || v.score[k] > v.score[label])) label = k;
  return label == v.score.size() ? 0 : label;
}

}  // namespace

Status infer_TreeEnsemble(InferContext& ctx) {
  const auto& a = ctx.attrs<Trees>();
  const int64_t width = a.classifier ? std::max<int64_t>(1, static_cast<int64_t>(a.labels.size())) : a.targets;
  SMELT_TRY(ml::infer_model(ctx, a.labels, a.classifier, width));
  if (!a.classifier && ctx.declared(0).dtype == DType::kF64) {
    const int64_t n = ctx.input(0).ranked ? ml::rows_of(ctx.input(0).shape).count : -1;
    ctx.set(0, ValueType::tensor(DType::kF64, Shape{n, width}));
  }
  return Ok();
}

void add_leaf_votes(const TreeEnsembleAttrs& a, int32_t leaf, double* score, char* has) {
  for (int32_t k = a.leaf_begin[leaf]; k < a.leaf_begin[leaf + 1]; ++k) {
    const auto target = static_cast<size_t>(a.vote_target[k]);
    double& s = score[target];
    const double w = a.vote_weight[k];
    if (a.aggregate == Trees::Aggregate::kMin)
      s = has[target] ? std::min(s, w) : w;
    else if (a.aggregate == Trees::Aggregate::kMax)
      s = has[target] ? std::max(s, w) : w;
    else
      s += w;
    has[target] = 1;
  }
}

Status finish_tree_row(KernelContext& ctx, const TreeEnsembleAttrs& a, int64_t n, TreeVotes& v) {
  if (a.aggregate == Trees::Aggregate::kAverage && !a.roots.empty())
    for (double& s : v.score) s /= static_cast<double>(a.roots.size());
  ml::SecondClass second = ml::SecondClass::kNone;
  if (a.classifier) {
    const size_t label = a.targets == 2 ? finish_binary(a, v, second) : finish_classes(a, v);
    if (ctx.wants(0)) SMELT_TRY(ml::set_label(ctx.output(0), n, a.labels, label));
  } else {
    add_base(a, v, a.targets == 1);
  }
  for (size_t k = 0; k < v.score.size() && v.score.size() > 1; ++k)
    if (!v.has[k]) v.score[k] = 0;
  ml::finish_scores(v.score, a.post, second);
  const int out = a.classifier ? 1 : 0;
  const int64_t width = a.classifier ? static_cast<int64_t>(a.labels.size()) : a.targets;
  for (int64_t k = 0; k < width && ctx.wants(out); ++k)
    set_double(ctx.output(out), n * width + k,
               k < static_cast<int64_t>(v.score.size()) ? v.score[static_cast<size_t>(k)] : 0.0);
  return Ok();
}

Status reference_TreeEnsemble(KernelContext& ctx) {
  const auto& a = ctx.attrs<Trees>();
  const auto rows = ml::rows_of(ctx.input(0).shape());
  const auto x = ml::load_rows(ctx.input(0));
  Votes v(a);
  for (int64_t n = 0; n < rows.count; ++n) {
    v.score.resize(static_cast<size_t>(a.targets));
    v.has.resize(static_cast<size_t>(a.targets));
    SMELT_TRY(vote(a, x.data() + n * rows.features, rows.features, v));
    SMELT_TRY(finish_tree_row(ctx, a, n, v));
    if ((n & 255) == 0) SMELT_TRY(ctx.tick());
  }
  return Ok();
}

}  // namespace smelt
