#pragma once

#include <numeric>
#include <vector>

#include "backends/vulkan/decompose/decomposition.h"
#include "ops/gather/gather.h"

/// Nodes that several decompositions around indices share.
namespace smelt::vulkan {

inline bool is_index_type(DType dtype) { return dtype == DType::kI32 || dtype == DType::kI64; }

/// True if no operand is quantized.
inline bool unquantized(const KernelSpec& spec) {
  for (const ValueType& t : spec.inputs)
    if (t.dtype != DType::kInvalid && t.quant) return false;
  return !spec.outputs[0].quant;
}

inline std::vector<int64_t> dims_of(const Shape& s) { return {s.begin(), s.end()}; }

/// x, int32 or int64, clamped to [low, high] and cast to int32; kNoValue for other types.
inline ValueId clamped_int32(Decomposition& c, ValueId x, int64_t low, int64_t high) {
  const DType dtype = c.dtype(x);
  if (!is_index_type(dtype)) return kNoValue;
  const auto bound = [&](int64_t v) { return c.scalar(dtype, static_cast<double>(v)); };
  return c.cast(c.add(Op::kClamp, make_attrs<NoAttrs>(), {x, bound(low), bound(high)}), DType::kI32);
}

/// The int32 constant 0, 1, ..., n - 1 along dimension `axis` of `rank`; the other dimensions are 1.
inline ValueId iota(Decomposition& c, int64_t n, int rank, int axis) {
  Shape shape = Shape::of_rank(rank, 1);
  shape[axis] = n;
  Tensor t(DType::kI32, shape);
  std::iota(t.data<int32_t>(), t.data<int32_t>() + n, 0);
  return c.constant(std::move(t));
}

inline ValueId scatter_nd(Decomposition& c, ValueId x, ValueId tuples, ValueId updates,
                          ScatterAttrs::Reduce reduction) {
  ScatterAttrs a;
  a.reduction = reduction;
  return c.add(Op::kScatterND, make_attrs<ScatterAttrs>(a), {x, tuples, updates});
}

}  // namespace smelt::vulkan
