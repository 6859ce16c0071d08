#include <cmath>
#include <limits>
#include <random>

#include "base/cat.h"
#include "ops/ml/ml.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

using Trees = TreeEnsembleAttrs;

constexpr int64_t kFeatures = 6;

/// Random trees; nodes use every mode in `modes`, thresholds are multiples of a quarter, so that features meet them.
Trees random_trees(int trees, int depth, const std::vector<Trees::Mode>& modes, int64_t targets) {
  std::minstd_rand random(7);
  Trees a;
  a.targets = targets;
  a.leaf_begin = {0};
  const auto leaf = [&] {
    for (int64_t votes = 1 + static_cast<int64_t>(random() % 2); votes > 0; --votes) {
      a.vote_target.push_back(static_cast<int32_t>(random() % static_cast<uint32_t>(targets)));
      a.vote_weight.push_back(static_cast<double>(random() % 100) / 32 - 1);
    }
    a.leaf_begin.push_back(static_cast<int32_t>(a.vote_target.size()));
    return ~static_cast<int32_t>(a.leaf_begin.size() - 2);
  };
  const auto grow = [&](auto&& self, int left) -> int32_t {
    if (left == 0 || random() % 8 == 0) return leaf();
    const size_t at = a.yes.size();
    a.yes.push_back(0), a.no.push_back(0);
    a.feature.push_back(static_cast<int32_t>(random() % kFeatures));
    a.mode.push_back(modes[random() % modes.size()]);
    a.split.push_back(static_cast<double>(random() % 17) / 4 - 2);
    a.missing_is_yes.push_back(random() % 2);
    a.members.emplace_back();
    const int32_t yes = self(self, left - 1), no = self(self, left - 1);
    a.yes[at] = yes, a.no[at] = no;
    return static_cast<int32_t>(at);
  };
  for (int t = 0; t < trees; ++t) a.roots.push_back(grow(grow, depth));
  return a;
}

/// Features on the thresholds and between them, some missing.
Tensor rows(int64_t n) {
  Tensor x = random_tensor(DType::kF32, {n, kFeatures}, -9, 9, 3);
  for (int64_t i = 0; i < x.elements(); ++i) {
    float& v = x.data<float>()[i];
    v = i % 11 == 0 ? std::numeric_limits<float>::quiet_NaN() : std::nearbyint(v) / 4;
  }
  return x;
}

TEST(TreeEnsemble, RegressorsOfEveryModeAndAggregate) {
  using Mode = Trees::Mode;
  const std::vector<Mode> all{Mode::kLessEqual, Mode::kLess,  Mode::kGreaterEqual,
                              Mode::kGreater,   Mode::kEqual, Mode::kNotEqual};
  for (const auto aggregate :
       {Trees::Aggregate::kSum, Trees::Aggregate::kAverage, Trees::Aggregate::kMin, Trees::Aggregate::kMax})
    for (const int64_t n : {1, 5, 29})
      for (const int trees : {1, 13}) {
        Trees a = random_trees(trees, 6, all, 3);
        a.aggregate = aggregate;
        a.base = {0.5, -0.25, 1};
        OpCase c{Cat(to_string(aggregate), ' ', n, " rows ", trees, " trees"),
                 Op::kTreeEnsemble,
                 make_attrs<Trees>(a),
                 {rows(n)}};
        c.threaded = true;
        check_on_cpu(c, "tree_ensemble", 0);
      }
}

// Trees of one test, by rows with and without missing features; one vote a leaf, or several.
TEST(TreeEnsemble, OneTestInAllNodes) {
  using Mode = Trees::Mode;
  for (const Mode mode : {Mode::kLessEqual, Mode::kLess, Mode::kGreaterEqual, Mode::kGreater, Mode::kEqual})
    for (const bool missing : {false, true})
      for (const bool one_vote : {false, true}) {
        Trees a = random_trees(13, 6, {mode}, 1);
        if (one_vote) {
          a.vote_target.assign(a.leaf_begin.size() - 1, 0);
          a.vote_weight.resize(a.leaf_begin.size() - 1);
          for (size_t i = 0; i < a.leaf_begin.size(); ++i) a.leaf_begin[i] = static_cast<int32_t>(i);
        }
        Tensor x = rows(one_vote ? 29 : 300);
        for (int64_t i = 0; !missing && i < x.elements(); ++i)
          if (std::isnan(x.data<float>()[i])) x.data<float>()[i] = 0.25f;
        OpCase c{Cat("mode ", static_cast<int>(mode), missing ? " missing" : "", one_vote ? " one vote" : ""),
                 Op::kTreeEnsemble,
                 make_attrs<Trees>(a),
                 {x}};
        c.threaded = true;
        check_on_cpu(c, "tree_ensemble", 0);
      }
}

TEST(TreeEnsemble, Classifiers) {
  for (const int64_t targets : {2, 4})
    for (const auto post : {PostTransform::kNone, PostTransform::kSoftmax, PostTransform::kLogistic}) {
      Trees a = random_trees(9, 4, {Trees::Mode::kLessEqual}, targets);
      a.classifier = true;
      a.post = post;
      a.labels.ints = {3, 1, 4, 15};
      a.labels.ints.resize(static_cast<size_t>(targets));
      check_on_cpu({Cat(targets, " classes ", to_string(post)), Op::kTreeEnsemble, make_attrs<Trees>(a), {rows(19)}},
                   "tree_ensemble", 0);
    }
}

/// The reference kernel reports a loop and a missing feature; the fast kernel leaves both to it.
TEST(TreeEnsemble, BrokenTreesAreLeftToTheReference) {
  Trees loop = random_trees(3, 5, {Trees::Mode::kLess}, 1);
  loop.no[0] = 0;
  Trees wide = random_trees(3, 5, {Trees::Mode::kLess}, 1);
  wide.feature[0] = kFeatures;
  for (const Trees& a : {loop, wide}) {
    const OpCase c{"broken", Op::kTreeEnsemble, make_attrs<Trees>(a), {rows(40)}};
    KernelRunner runner(c);
    EXPECT_EQ(runner.choose(best_isa(), PackCache::Mode::kPack), nullptr);
    EXPECT_FALSE(runner.reference().ok());
  }
}

}  // namespace
}  // namespace smelt
