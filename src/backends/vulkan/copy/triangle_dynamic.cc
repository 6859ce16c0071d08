// Triangle on a diagonal that is not constant, by comparison and selection.
#include "backends/vulkan/decompose/index_nodes.h"
#include "ops/shape/shape.h"

namespace smelt::vulkan {

std::unique_ptr<Kernel> make_triangle_dynamic(const KernelSpec& spec) {
  const Shape& x = spec.inputs[0].shape;
  if (!unquantized(spec) || !spec.has(1) || x.rank() < 2 || spec.inputs[1].shape.elements() != 1) return nullptr;
  const int64_t rows = x[x.rank() - 2], columns = x.back();
  if (rows + columns > INT32_MAX) return nullptr;
  Decomposition c(spec);
  const ValueId k = c.reshape(clamped_int32(c, c.input(1), -rows - columns, rows + columns), {1});
  const ValueId diagonal = c.binary(Binary::kAdd, iota(c, rows, 2, 0), k);  // its column in each row
  const bool upper = spec.attrs<TriangleAttrs>().upper;
  const ValueId kept = c.binary(upper ? Binary::kLessEqual : Binary::kGreaterEqual, diagonal, iota(c, columns, 2, 1));
  return c.kernel({c.where(kept, c.input(0), c.scalar(spec.inputs[0].dtype, 0))});
}

}  // namespace smelt::vulkan
