#include "ops/core/strided_copy.h"

#include <algorithm>

#include "base/selection.h"
#include "ops/core/op.h"

namespace smelt {

#define SMELT_COPY_OP(name) Result<StridedCopies> copies_##name(const NodeSpec&);
#define SMELT_COPY_CASE SMELT_COPY_OP
#define SMELT_COPY_INDEXED SMELT_COPY_OP
#include "ops/core/copy_ops.inc"
#undef SMELT_COPY_OP

namespace {

using CopiesFn = Result<StridedCopies> (*)(const NodeSpec&);

/// copies_NAME() of an operator; nullptr: it has none.
CopiesFn copies_of(Op op) {
  switch (op) {
#define SMELT_COPY_OP(name) \
  case Op::k##name:         \
    return builds_op(#name) ? copies_##name : nullptr;
#include "ops/core/copy_ops.inc"
#undef SMELT_COPY_OP
#undef SMELT_COPY_CASE
#undef SMELT_COPY_INDEXED
    default:
      return nullptr;
  }
}

/// True if the elements from `offset` along `strides` lie in [0, elements). Precondition: no dimension is empty.
bool inside(const StridedCopy::Ints& dims, const StridedCopy::Ints& strides, int64_t offset, int64_t elements) {
  __int128 lowest = offset, highest = offset;
  for (size_t d = 0; d < dims.size(); ++d) {
    const __int128 reach = static_cast<__int128>(dims[d] - 1) * strides[d];
    (reach < 0 ? lowest : highest) += reach;
  }
  return lowest >= 0 && highest < elements;
}

}  // namespace

void StridedCopy::erase_dim(size_t d) {
  dims.erase(d);
  in_strides.erase(d);
  out_strides.erase(d);
}

int64_t StridedCopy::elements() const {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return n;
}

void StridedCopy::simplify() {
  size_t last = 0;  // dimensions that are kept
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == 1) continue;
    if (last > 0 && in_strides[last - 1] == in_strides[d] * dims[d] &&
        out_strides[last - 1] == out_strides[d] * dims[d]) {
      --last;
      dims[last] *= dims[d];
    } else {
      dims[last] = dims[d];
    }
    in_strides[last] = in_strides[d];
    out_strides[last++] = out_strides[d];
  }
  dims.resize(last);
  in_strides.resize(last);
  out_strides.resize(last);
}

Result<StridedCopies> strided_copies(const NodeSpec& spec) {
  const CopiesFn copies = copies_of(spec.node.op);
  if (!copies) return Unsupported(to_string(spec.node.op), " has no strided copies");
  SMELT_ASSIGN(StridedCopies all, copies(spec));
  std::erase_if(all.copies, [&](const StridedCopy& c) {
    return spec.node.outputs[c.output] == kNoValue || std::ranges::any_of(c.dims, [](int64_t d) { return d <= 0; });
  });
  for (StridedCopy& c : all.copies) {
    c.simplify();
    const ValueType &x = spec.inputs[c.input], &y = spec.outputs[c.output];
    if (x.dtype != y.dtype)
      return InvalidInput("input ", c.input, " is ", to_string(x.dtype), ", ", to_string(y.dtype), " expected");
    if (!inside(c.dims, c.in_strides, c.in_offset, x.shape.elements()) ||
        !inside(c.dims, c.out_strides, c.out_offset, y.shape.elements()))
      return InvalidInput("input ", c.input, " of shape ", x.shape.str(), " does not give output ", c.output,
                          " of shape ", y.shape.str());
  }
  return all;
}

}  // namespace smelt
