#include "bench/kernels/cases.h"
#include "ops/ml/ml.h"

namespace smelt::bench {
using namespace smelt::test;

SMELT_BENCH_CASES(ml) {
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
