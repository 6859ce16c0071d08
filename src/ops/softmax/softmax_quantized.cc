#include "ops/softmax/softmax_quantized.h"

namespace smelt {

bool softmax_fixed(const SoftmaxAttrs&, const AxisView&, const Tensor&, Tensor&) { return false; }

}  // namespace smelt
