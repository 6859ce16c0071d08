#include "base/cat.h"
#include "ops/ml/ml.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

TEST(SvmF32, RegressorsOfEveryKernel) {
  for (auto kernel :
       {SvmAttrs::Kernel::kLinear, SvmAttrs::Kernel::kPoly, SvmAttrs::Kernel::kRbf, SvmAttrs::Kernel::kSigmoid})
    for (int64_t supports : {0, 1, 16, 37}) {
      constexpr int64_t kFeatures = 5;
      SvmAttrs a;
      a.kernel = kernel;
      a.gamma = 0.3;
      a.coef0 = 0.25;
      a.degree = 3;
      a.supports = supports;
      a.rho = {0.125f};
      const Tensor vectors = random_tensor(DType::kF32, {std::max<int64_t>(supports, 1), kFeatures}, -1, 1, 2);
      const Tensor weights = random_tensor(DType::kF32, {std::max<int64_t>(supports, 1)}, -1, 1, 3);
      auto& rows = supports ? a.support_vectors : a.coefficients;
      rows.assign(vectors.data<float>(), vectors.data<float>() + vectors.elements());
      if (supports) a.coefficients.assign(weights.data<float>(), weights.data<float>() + supports);
      check_on_cpu({Cat(to_string(kernel), ' ', supports),
                    Op::kSvm,
                    make_attrs<SvmAttrs>(a),
                    {random_tensor(DType::kF32, {7, kFeatures}, -1, 1, 1)}},
                   "svm_f32");
    }
}

}  // namespace
}  // namespace smelt
