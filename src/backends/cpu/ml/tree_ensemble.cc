// Ensembles of decision trees over rows of float32 features. A tree is an array of nodes that lie in the order of a
// walk; several walks advance together, since each waits for memory most of the time.
#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "backends/cpu/core/kernel.h"
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

/// A TreeNode of trees whose tests are all of one kind.
struct UniformNode {
  float split;
  int32_t feature;
  int32_t child[2];
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
  /// The nodes where all have the test uniform_test(), which is none for equality; else empty.
  const std::vector<UniformNode>& uniform() const { return uniform_; }
  TreeNode::Test uniform_test() const { return nodes_[0].test; }
  /// Steps that every walk from a root takes before it comes to a leaf. Precondition: uniform() is not empty.
  const std::vector<int32_t>& sure_steps() const { return sure_steps_; }

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
    const auto differs = [&](const TreeNode& n) { return n.test != nodes_[0].test || n.test == Test::kEqual; };
    if (nodes_.empty() || std::ranges::any_of(nodes_, differs)) return;
    std::vector<int32_t> steps;  // of a node to its nearest leaf; children come before their parents
    const auto steps_of = [&](int32_t at) { return at < 0 ? 0 : steps[static_cast<size_t>(at)]; };
    for (const TreeNode& n : nodes_) {
      uniform_.push_back({n.split, n.feature, {n.child[0], n.child[1]}});
      steps.push_back(1 + std::min(steps_of(n.child[0]), steps_of(n.child[1])));
    }
    for (const int32_t root : roots_) sure_steps_.push_back(steps_of(root));
  }

  std::vector<TreeNode> nodes_;
  std::vector<UniformNode> uniform_;
  std::vector<int32_t> roots_, sure_steps_;
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

/// walk() of kWalks walks through nodes of one test, without branches that depend on the rows; no feature is NaN. The
/// first `sure_steps` steps come to no leaf.
template <bool kBelow>
void walk_uniform(const UniformNode* nodes, const float* const* x, int32_t sure_steps, int32_t* at) {
  const auto next = [&](const UniformNode& n, const float* row) {
    const float v = row[n.feature];
    return n.child[static_cast<int>(kBelow ? !(v < n.split) : !(v <= n.split))];
  };
  for (; sure_steps > 0; --sure_steps)
#pragma GCC unroll 8
    for (int64_t i = 0; i < kWalks; ++i) at[i] = next(nodes[at[i]], x[i]);
  for (bool more = true; more;) {
    more = false;
    for (int64_t i = 0; i < kWalks; ++i) {
      const int32_t stepped = next(nodes[std::max(at[i], 0)], x[i]);
      at[i] = at[i] < 0 ? at[i] : stepped;
      more |= at[i] >= 0;
    }
  }
}

class TreeEnsembleF32 final : public Kernel {
 public:
  TreeEnsembleF32(const KernelSpec& spec, FlatTrees trees)
      : attrs_(spec.node.attrs),
        a_(static_cast<const Trees&>(*attrs_)),
        trees_(std::move(trees)),
        rows_(ml::rows_of(spec.inputs[0].shape)) {
    using Aggregate = Trees::Aggregate;
    const auto leaves = static_cast<int32_t>(a_.leaf_begin.size()) - 1;
    one_vote_ = a_.targets == 1 && (a_.aggregate == Aggregate::kSum || a_.aggregate == Aggregate::kAverage) &&
                a_.vote_weight.size() == static_cast<size_t>(leaves);
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
    ctx.threads().parallel_for(rows_.count, std::max(kWalks, kWork / steps), [&](int64_t begin, int64_t end) {
      int64_t row = begin;
      for (; row + kWalks <= end; row += kWalks) rows_of_trees(x, row, score, has);
      for (; row < end; ++row) trees_of_row(x, row, score, has);
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
  /// kWalks rows, tree after tree.
  void rows_of_trees(const float* x, int64_t row, double* score, char* has) const {
    const float* from[kWalks];
    for (int64_t i = 0; i < kWalks; ++i) from[i] = x + (row + i) * rows_.features;
    const bool uniform = !trees_.uniform().empty() && std::ranges::none_of(from[0], from[0] + kWalks * rows_.features,
                                                                           [](float v) { return std::isnan(v); });
    const bool below = uniform && trees_.uniform_test() == TreeNode::Test::kBelow;
    for (size_t t = 0; t < trees_.roots().size(); ++t) {
      int32_t at[kWalks];
      std::fill_n(at, kWalks, trees_.roots()[t]);
      if (uniform)
        (below ? walk_uniform<true> : walk_uniform<false>)(trees_.uniform().data(), from, trees_.sure_steps()[t], at);
      else
        walk(trees_.nodes(), from, kWalks, at);
      for (int64_t i = 0; i < kWalks; ++i) add(~at[i], row + i, score, has);
    }
  }
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
    if (one_vote_) {
      score[row] += a_.vote_weight[static_cast<size_t>(leaf)];
      has[row] = 1;
      return;
    }
    add_leaf_votes(a_, leaf, score + row * a_.targets, has + row * a_.targets);
  }

  AttrsPtr attrs_;
  const Trees& a_;
  FlatTrees trees_;
  ml::Rows rows_;
  bool one_vote_ = false;  ///< every leaf votes once, for the only target, and votes add up
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
