#include "ops/reduce/reduce_quantized.h"

#include <vector>

#include "base/error.h"
#include "ops/common/real.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

Status through_float(const ReduceAttrs& attrs, const ReducePlan& plan, const Tensor& x, Tensor& y) {
  const std::vector<float> v = real_values(x);
  const std::vector<double> wide(v.begin(), v.end());
  const std::vector<double> r = reduce_doubles(attrs, plan, wide.data());
  const std::vector<float> narrow(r.begin(), r.end());
  store_real(narrow.data(), y);
  return Ok();
}

}  // namespace

Status reduce_quantized(const ReduceAttrs& attrs, const ReducePlan& plan, const Tensor& x, Tensor& y) {
  return through_float(attrs, plan, x, y);
}

}  // namespace smelt
