// Ensembles of decision trees over rows of float32 features. A tree is an array of nodes that lie in the order of a
// walk; several walks advance together, since each waits for memory most of the time.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "backends/cpu/core/kernel.h"
#include "backends/cpu/ml/uniform_tree.h"
#include "base/checked.h"
#include "ops/ml/scores.h"
#include "ops/ml/tree.h"

namespace smelt {
namespace {

using Trees = TreeEnsembleAttrs;

/// A child below 0 is leaf ~child.
struct TreeNode {
  enum class Test : uint8_t { kAtMost, kBelow, kEqual };
  float split;
  int32_t feature;
  int32_t child[2];  ///< next where the row's feature passes the test against `split`; next else
  Test test;
  bool nan_passes;

  bool passes(float v) const {
    const bool passed = test == Test::kAtMost ? v <= split : test == Test::kBelow ? v < split : v == split;
    return passed || (nan_passes && std::isnan(v));
  }
};

/// A tree of `count` uniform nodes from `root` on. Every walk takes at least `sure` steps to a leaf, and at most
/// `deepest`.
struct UniformTree {
  int32_t root, count, sure, deepest;
};

/// Nodes of all trees in the order of a walk, and their roots.
class FlatTrees {
 public:
  /// nullopt, with the reason in `why`: a node that tests for membership, a threshold that float32 does not hold, a
  /// loop, or a feature that rows of `features` lack.
  static std::optional<FlatTrees> make(const Trees& a, int64_t features, const char*& why) {
    FlatTrees t;
    std::vector<int32_t> place(a.yes.size(), kUnseen);
    for (const int32_t root : a.roots) {
      if (root >= 0 && !t.add(a, root, features, place, why)) return std::nullopt;
      t.roots_.push_back(root < 0 ? root : place[static_cast<size_t>(root)]);
    }
    t.simplify();
    return t;
  }
  const TreeNode* nodes() const { return nodes_.data(); }
  const std::vector<int32_t>& roots() const { return roots_; }
  /// A tree for each root where all nodes have the test uniform_test(), which is none for equality; else empty.
  const std::vector<UniformTree>& uniform_trees() const { return uniform_trees_; }
  const UniformNode* uniform_nodes() const { return uniform_.data(); }
  TreeNode::Test uniform_test() const { return nodes_[0].test; }

 private:
  static constexpr int32_t kUnseen = -1, kOpen = -2;

  /// Adds what `root` reaches, children before their parents: a child that is still open closes a loop.
  bool add(const Trees& a, int32_t root, int64_t features, std::vector<int32_t>& place, const char*& why) {
    std::vector<int32_t> stack{root};
    while (!stack.empty()) {
      const auto at = static_cast<size_t>(stack.back());
      if (place[at] >= 0) {
        stack.pop_back();
        continue;
      }
      const bool opened = place[at] == kOpen;
      place[at] = kOpen;
      bool waits = false;
      for (const int32_t child : {a.yes[at], a.no[at]}) {
        if (child < 0 || place[static_cast<size_t>(child)] >= 0) continue;
        if (opened || place[static_cast<size_t>(child)] == kOpen) {
          why = "a tree has a loop";
          return false;
        }
        stack.push_back(child);
        waits = true;
      }
      if (waits) continue;
      const auto node = flat(a, at, features, place, why);
      if (!node) return false;
      place[at] = static_cast<int32_t>(nodes_.size());
      nodes_.push_back(*node);
      stack.pop_back();
    }
    return true;
  }
  static std::optional<TreeNode> flat(const Trees& a, size_t at, int64_t features, const std::vector<int32_t>& place,
                                      const char*& why) {
    const auto target = [&](int32_t child) { return child < 0 ? child : place[static_cast<size_t>(child)]; };
    const auto split = static_cast<float>(a.split[at]);
    using Test = TreeNode::Test;
    TreeNode n{split, a.feature[at], {target(a.yes[at]), target(a.no[at])}, Test::kAtMost, a.missing_is_yes[at] != 0};
    if (n.feature < 0 || n.feature >= features) {
      why = "a feature that the rows lack";
      return std::nullopt;
    }
    if (static_cast<double>(split) != a.split[at]) {
      why = "a threshold that float32 does not hold";
      return std::nullopt;
    }
    switch (a.mode[at]) {
      case Trees::Mode::kLessEqual:
      case Trees::Mode::kGreater:
        break;
      case Trees::Mode::kLess:
      case Trees::Mode::kGreaterEqual:
        n.test = Test::kBelow;
        break;
      case Trees::Mode::kEqual:
      case Trees::Mode::kNotEqual:
        n.test = Test::kEqual;
        break;
      case Trees::Mode::kMember:
        why = "a node that tests for membership";
        return std::nullopt;
    }
    const bool unequal = a.mode[at] == Trees::Mode::kNotEqual;
    if (unequal || a.mode[at] == Trees::Mode::kGreater || a.mode[at] == Trees::Mode::kGreaterEqual) {
      std::swap(n.child[0], n.child[1]);
      n.nan_passes = !unequal && !n.nan_passes;  // NaN is unequal to all numbers, and not greater than any
    }
    return n;
  }

  void simplify() {
    using Test = TreeNode::Test;
    const auto differs = [&](const TreeNode& n) {
      return n.test != nodes_[0].test || n.test == Test::kEqual || std::isnan(n.split);
    };
    if (nodes_.empty() || std::ranges::any_of(nodes_, differs)) return;
    const size_t most = 2 * nodes_.size() + roots_.size();  // nodes that are reached once each make no more
    for (const int32_t root : roots_) {
      std::vector<int32_t> level{root}, below;
      UniformTree tree{static_cast<int32_t>(uniform_.size()), 0, std::numeric_limits<int32_t>::max(), 0};
      uniform_.emplace_back();
      for (size_t at = uniform_.size() - 1; !level.empty(); ++tree.deepest, level.swap(below), below.clear()) {
        for (const int32_t node : level) {
          if (node < 0) {
            uniform_[at] = {std::numeric_limits<float>::quiet_NaN(), 0, static_cast<int32_t>(at), ~node};
            tree.sure = std::min(tree.sure, tree.deepest);
          } else {
            const TreeNode& n = nodes_[static_cast<size_t>(node)];
            uniform_[at] = {n.split, n.feature, static_cast<int32_t>(uniform_.size()), 0};
            uniform_.resize(uniform_.size() + 2);
            below.insert(below.end(), {n.child[0], n.child[1]});
          }
          ++at;
        }
        if (uniform_.size() > most) {
          uniform_.clear();
          uniform_trees_.clear();
          return;
        }
      }
      --tree.deepest;
      tree.count = static_cast<int32_t>(uniform_.size()) - tree.root;
      uniform_trees_.push_back(tree);
    }
  }

  std::vector<TreeNode> nodes_;
  std::vector<UniformNode> uniform_;
  std::vector<UniformTree> uniform_trees_;
  std::vector<int32_t> roots_;
};

constexpr int64_t kWalks = 8;  ///< at a time

/// Follows `count` walks to their leaves: at[i] is a root before and a leaf afterwards, x[i] the row of walk i.
void walk(const TreeNode* nodes, const float* const* x, int64_t count, int32_t* at) {
  bool more = true;
  while (more) {
    more = false;
    for (int64_t i = 0; i < count; ++i) {
      if (at[i] < 0) continue;
      const TreeNode& n = nodes[at[i]];
      at[i] = n.child[n.passes(x[i][n.feature]) ? 0 : 1];
      more = more || at[i] >= 0;
    }
  }
}

/// walk() of kWalks walks through a tree of one test; no feature is NaN.
template <bool kBelow>
void walk_uniform(const UniformNode* nodes, const float* const* x, const UniformTree& tree, int32_t* leaves) {
  const auto next = [&](int32_t at, const float* row) {
    const UniformNode& n = nodes[at];
    const float v = row[n.feature];
    return n.next + static_cast<int32_t>(kBelow ? v >= n.split : v > n.split);
  };
  int32_t at[kWalks];
  std::fill_n(at, kWalks, tree.root);
  int32_t steps = 0;
  for (; steps < tree.sure; ++steps)
#pragma GCC unroll 8
    for (int64_t i = 0; i < kWalks; ++i) at[i] = next(at[i], x[i]);
  for (bool moves = true; moves && steps < tree.deepest; ++steps) {
    int32_t change = 0;
#pragma GCC unroll 8
    for (int64_t i = 0; i < kWalks; ++i) {
      const int32_t to = next(at[i], x[i]);
      change |= to ^ at[i];
      at[i] = to;
    }
    moves = change != 0;
  }
  for (int64_t i = 0; i < kWalks; ++i) leaves[i] = nodes[at[i]].leaf;
}

class TreeEnsembleF32 final : public Kernel {
 public:
  TreeEnsembleF32(const KernelSpec& spec, FlatTrees trees)
      : attrs_(spec.node.attrs),
        a_(static_cast<const Trees&>(*attrs_)),
        trees_(std::move(trees)),
        side_by_side_(tree_rows(spec.isa)),
        rows_(ml::rows_of(spec.inputs[0].shape)) {
    using Aggregate = Trees::Aggregate;
    const auto leaves = static_cast<int32_t>(a_.leaf_begin.size()) - 1;
    const auto small = std::ranges::count_if(trees_.uniform_trees(), [&](const UniformTree& t) { return is_small(t); });
    turns_ = 8 * small >= rows_.features;
    sums_ = a_.aggregate == Aggregate::kSum || a_.aggregate == Aggregate::kAverage;
    one_vote_ = sums_ && a_.vote_weight.size() == static_cast<size_t>(leaves);
    for (int32_t i = 0; one_vote_ && i <= leaves; ++i) one_vote_ = a_.leaf_begin[static_cast<size_t>(i)] == i;
  }
  size_t scratch_bytes() const override {
    return static_cast<size_t>(rows_.count * a_.targets) * (sizeof(double) + sizeof(char)) + TreeVotes::bytes(a_);
  }
  Status run(KernelContext& ctx) const override {
    if (rows_.count == 0) return Ok();
    const size_t votes = static_cast<size_t>(rows_.count * a_.targets);
    auto* score = static_cast<double*>(ctx.scratch(scratch_bytes()));
    if (!score) return Error(ErrorCode::kLimit, "no memory for the votes of trees");
    auto* has = reinterpret_cast<char*>(score + votes);
    std::fill_n(score, votes, 0.0);
    std::fill_n(has, votes, char{0});
    const float* x = ctx.input(0).data<float>();
    constexpr int64_t kWork = 1 << 14;  // steps that pay for a thread
    const int64_t steps = 8 * std::max<int64_t>(1, static_cast<int64_t>(trees_.roots().size()));
    const int64_t share = ceil_div(rows_.count, int64_t{ctx.threads().threads()});  // trees pass by few times
    const int64_t grain = std::max(round_up(std::min(share, kMostRows / 2), kWalks), kWork / steps);
    ctx.threads().parallel_for(rows_.count, grain, [&](int64_t begin, int64_t end) {
      const int64_t together =
          std::clamp<int64_t>(kCachedFeatures / std::max<int64_t>(1, rows_.features), kWalks, kMostRows) & -kWalks;
      while (begin + kWalks <= end) {
        const int64_t count = std::min(together, (end - begin) & -kWalks);
        rows_of_trees(x, begin, count, score, has);
        begin += count;
      }
      for (; begin < end; ++begin) trees_of_row(x, begin, score, has);
    });
    std::pmr::monotonic_buffer_resource memory(has + votes, TreeVotes::bytes(a_));
    TreeVotes v(a_, &memory);
    for (int64_t n = 0; n < rows_.count; ++n, score += a_.targets, has += a_.targets) {
      v.score.assign(score, score + a_.targets);
      v.has.assign(has, has + a_.targets);
      SMELT_TRY(finish_tree_row(ctx, a_, n, v));
      if ((n & 255) == 0) SMELT_TRY(ctx.tick());
    }
    return Ok();
  }

 private:
  static constexpr int64_t kCachedFeatures = 4096;  ///< of rows that stay in a level-1 cache while trees pass by
  static constexpr int64_t kMostRows = 256;

  bool uniform(const float* x) const {
    bool numbers = !trees_.uniform_trees().empty();
    for (int64_t i = 0; i < kWalks * rows_.features; ++i) numbers &= !std::isnan(x[i]);
    return numbers;
  }
  /// `count` rows, a multiple of kWalks and at most kMostRows, tree after tree.
  void rows_of_trees(const float* x, int64_t row, int64_t count, double* score, char* has) const {
    constexpr int64_t kTogether = TreeRows::kRows;
    static_assert(kTogether == 2 * kWalks);
    const float* from[kMostRows];
    bool fast[kMostRows / kWalks + 1] = {};
    float columns[kCachedFeatures];
    for (int64_t i = 0; i < count; ++i) from[i] = x + (row + i) * rows_.features;
    for (int64_t i = 0; i < count; i += kWalks) fast[i / kWalks] = uniform(from[i]);
    const bool turns = turns_ && count * rows_.features <= kCachedFeatures;
    const auto turned = [&](int64_t i) {
      return turns && i % kTogether == 0 && fast[i / kWalks] && fast[i / kWalks + 1];
    };
    for (int64_t i = 0; i < count; i += kTogether)
      for (int64_t f = 0; turned(i) && f < rows_.features; ++f)
        for (int64_t j = 0; j < kTogether; ++j) columns[i * rows_.features + f * kTogether + j] = from[i + j][f];
    for (size_t t = 0; t < trees_.roots().size(); ++t) {
      const UniformTree tree = trees_.uniform_trees().empty() ? UniformTree{} : trees_.uniform_trees()[t];
      int32_t leaves[kTogether];
      for (int64_t i = 0, n = 0; i < count; i += n) {
        n = kWalks;
        if (is_small(tree) && turned(i)) {
          n = kTogether;
          side_by_side_.leaves[below()](trees_.uniform_nodes(), tree.root, tree.count, columns + i * rows_.features,
                                        leaves);
        } else if (fast[i / kWalks]) {
          (below() ? walk_uniform<true> : walk_uniform<false>)(trees_.uniform_nodes(), from + i, tree, leaves);
        } else {
          std::fill_n(leaves, kWalks, trees_.roots()[t]);
          walk(trees_.nodes(), from + i, kWalks, leaves);
          for (int64_t j = 0; j < kWalks; ++j) leaves[j] = ~leaves[j];
        }
        for (int64_t j = 0; j < n; ++j) add(leaves[j], row + i + j, score, has);
      }
    }
  }
  bool is_small(const UniformTree& tree) const { return tree.count <= side_by_side_.most_nodes; }
  bool below() const { return trees_.uniform_test() == TreeNode::Test::kBelow; }
  /// One row, kWalks trees at a time.
  void trees_of_row(const float* x, int64_t row, double* score, char* has) const {
    const float* from[kWalks];
    std::fill_n(from, kWalks, x + row * rows_.features);
    const auto trees = static_cast<int64_t>(trees_.roots().size());
    for (int64_t t = 0; t < trees; t += kWalks) {
      const int64_t count = std::min(kWalks, trees - t);
      int32_t at[kWalks];
      std::copy_n(trees_.roots().begin() + t, count, at);
      walk(trees_.nodes(), from, count, at);
      for (int64_t i = 0; i < count; ++i) add(~at[i], row, score, has);
    }
  }
  void add(int32_t leaf, int64_t row, double* score, char* has) const {
    score += row * a_.targets;
    has += row * a_.targets;
    const auto vote = [&](size_t k) {
      const int32_t target = a_.vote_target[k];
      score[target] += a_.vote_weight[k];
      has[target] = 1;
    };
    if (one_vote_) return vote(static_cast<size_t>(leaf));
    if (!sums_) return add_leaf_votes(a_, leaf, score, has);
    for (int32_t k = a_.leaf_begin[static_cast<size_t>(leaf)]; k < a_.leaf_begin[static_cast<size_t>(leaf) + 1]; ++k)
      vote(static_cast<size_t>(k));
  }

  AttrsPtr attrs_;
  const Trees& a_;
  FlatTrees trees_;
  const TreeRows& side_by_side_;
  bool turns_;  ///< there are enough small trees for rows to be turned to columns
  ml::Rows rows_;
  bool sums_;              ///< votes add up
  bool one_vote_ = false;  ///< they do, and every leaf has one
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_tree_ensemble(const KernelSpec& spec) {
  const auto& a = spec.attrs<TreeEnsembleAttrs>();
  const char* why = "";
  auto trees = FlatTrees::make(a, ml::rows_of(spec.inputs[0].shape).features, why);
  if (!trees) return spec.refuse(why);
  return std::make_unique<TreeEnsembleF32>(spec, std::move(*trees));
}

}  // namespace smelt
