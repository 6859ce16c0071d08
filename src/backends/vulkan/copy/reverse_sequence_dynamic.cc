// ReverseSequence with lengths that are not constant, by computed indices.
#include "backends/vulkan/decompose/index_nodes.h"
#include "ops/common/index.h"
#include "ops/shape/shape.h"

namespace smelt::vulkan {

std::unique_ptr<Kernel> make_reverse_sequence_dynamic(const KernelSpec& spec) {
  const auto& a = spec.attrs<DiagonalAttrs>();
  const Shape& x = spec.inputs[0].shape;
  const auto time_axis = normalize_axis(a.axis1, x.rank()), batch_axis = normalize_axis(a.axis2, x.rank());
  if (!time_axis.ok() || !batch_axis.ok()) return nullptr;
  const int time = *time_axis, batch = *batch_axis;
  const int64_t extent = x[time];
  if (extent > INT32_MAX - 2 || spec.inputs[1].shape.elements() != x[batch]) return nullptr;
  Decomposition c(spec);
  Shape along = Shape::of_rank(x.rank(), 1);
  along[batch] = x[batch];
  ValueId n = c.reshape(clamped_int32(c, c.input(1), -1, extent + 1), dims_of(along));
  const auto number = [&](int64_t v) { return c.scalar(DType::kI32, static_cast<double>(v)); };
  if (n == kNoValue) return nullptr;
  n = c.where(c.binary(Binary::kLess, n, number(0)), number(extent + 1), n);  // no place in time: a fault
  const ValueId t = iota(c, extent, x.rank(), time);
  const ValueId mirrored = c.binary(Binary::kSub, c.binary(Binary::kSub, n, number(1)), t);
  const ValueId from = c.expand(c.where(c.binary(Binary::kLess, t, n), mirrored, t), x);
  GatherAttrs g;
  g.axis = time;
  g.negative = false;
  return c.kernel({c.add_as(Op::kGatherElements, make_attrs<GatherAttrs>(g), {c.input(0), from}, spec.outputs[0])},
                  "a length is beyond the time dimension");
}

}  // namespace smelt::vulkan
