#include <algorithm>

#include "backends/vulkan/decompose/index_nodes.h"

namespace smelt::vulkan {
namespace {

/// x with negative indices replaced by INT32_MAX, which is out of range: ScatterND would count them from the end.
ValueId without_negative(Decomposition& c, ValueId x) {
  const DType dtype = c.dtype(x);
  return c.where(c.binary(Binary::kLess, x, c.scalar(dtype, 0)), c.scalar(dtype, INT32_MAX), x);
}

}  // namespace

std::unique_ptr<Kernel> make_sparse_to_dense(const KernelSpec& spec) {
  const Shape &indices = spec.inputs[0].shape, &y = spec.outputs[0].shape;
  const int64_t tuple = indices.rank() == 2 ? indices[1] : 1, tuples = indices.elements() / std::max<int64_t>(tuple, 1);
  if (!unquantized(spec) || !is_index_type(spec.inputs[0].dtype) || tuple != y.rank() || tuples == 0) return nullptr;
  const int64_t n = spec.inputs[2].shape.elements();
  const bool one = spec.inputs[2].shape.rank() == 0 || (n == 1 && tuples != 1);
  if (spec.inputs[3].shape.elements() != 1 || (!one && n != tuples)) return nullptr;
  Decomposition c(spec);
  ValueId values = c.reshape(c.input(2), {n});
  if (one) values = c.expand(values, Shape{tuples});
  const ValueId dense = c.expand(c.reshape(c.input(3), {1}), Shape{y.elements()});
  const ValueId places = c.reshape(without_negative(c, c.input(0)), {tuples, tuple});
  return c.kernel({scatter_nd(c, c.reshape(dense, dims_of(y)), places, values, ScatterAttrs::Reduce::kNone)});
}

}  // namespace smelt::vulkan
