#include <cstdint>

#include "bench/kernels/cases.h"
#include "ops/ml/ml.h"

namespace smelt::bench {
using namespace smelt::test;

namespace {

/// Complete trees whose features and thresholds follow from the position of a node.
TreeEnsembleAttrs complete_trees(int32_t trees, int depth, int32_t features) {
  TreeEnsembleAttrs a;
  const int32_t inner = (1 << depth) - 1, leaves = 1 << depth;
  for (int32_t t = 0; t < trees; ++t) {
    const int32_t first = t * inner;
    a.roots.push_back(first);
    for (int32_t i = 0; i < inner; ++i) {
      const auto child = [&](int32_t c) { return c < inner ? first + c : ~(t * leaves + c - inner); };
      a.yes.push_back(child(2 * i + 1));
      a.no.push_back(child(2 * i + 2));
      a.feature.push_back((i * 7 + t) % features);
      a.split.push_back((i * 13 + t) % 31 / 8.0 - 2);
    }
    for (int32_t i = 0; i < leaves; ++i) {
      a.leaf_begin.push_back(t * leaves + i);
      a.vote_target.push_back(0);
      a.vote_weight.push_back(i % 5);
    }
  }
  a.leaf_begin.push_back(trees * leaves);
  a.mode.assign(a.yes.size(), TreeEnsembleAttrs::Mode::kLessEqual);
  a.missing_is_yes.assign(a.yes.size(), 0);
  a.members.resize(a.yes.size());
  return a;
}

}  // namespace

SMELT_BENCH_CASES(ml) {
  for (const int64_t rows : {1, 256})
    cases.add({rows == 1 ? "trees/one_row" : "trees/rows",
               Op::kTreeEnsemble,
               make_attrs<TreeEnsembleAttrs>(complete_trees(100, 8, 16)),
               {f32({rows, 16})}},
              static_cast<double>(rows) * 100 * 8);
  constexpr int64_t kSupports = 200, kFeatures = 16;
  const Tensor vectors = f32({kSupports, kFeatures}, 2), weights = f32({kSupports}, 3);
  SvmAttrs a;
  a.kernel = SvmAttrs::Kernel::kRbf;
  a.gamma = 0.3;
  a.supports = kSupports;
  a.rho = {0.125f};
  a.support_vectors.assign(vectors.data<float>(), vectors.data<float>() + vectors.elements());
  a.coefficients.assign(weights.data<float>(), weights.data<float>() + kSupports);
  cases.add({"svm/rbf", Op::kSvm, make_attrs<SvmAttrs>(a), {f32({64, kFeatures})}}, 2.0 * 64 * kSupports * kFeatures);
}

}  // namespace smelt::bench
