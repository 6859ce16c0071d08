#include "base/cat.h"
#include "ops/normalization/normalization.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

TEST(LayerNormF32, OperandsAndSizes) {
  for (bool rms : {false, true})
    for (int64_t n : {1, 9, 16, 23, 31, 37, 40, 48, 49, 63, 64, 80, 96, 112, 128, 129, 256})
      for (int operands : {1, 2, 3}) {
        auto attrs = std::make_shared<LayerNormAttrs>();
        attrs->rms = rms;
        OpCase c{Cat("n ", n, " operands ", operands), Op::kLayerNorm, attrs, {f32({3, 4, n})}, {1, 2}};
        if (operands > 1) c.inputs.push_back(f32({n}, 2));
        if (operands > 2) c.inputs.push_back(f32({n}, 3));
        check_on_cpu(c, "layer_norm_f32", {1e-5, 1e-5});
      }
}

}  // namespace
}  // namespace smelt
