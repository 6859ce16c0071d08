#include "ops/shape/rules.h"

#include "base/error.h"
#include "tensor/numeric.h"

namespace smelt {

Status need_tensors(const InferContext& ctx, int count) {
  for (int i = 0; i < count; ++i) {
    if (!ctx.has(i)) return InvalidModel("input ", i, " is missing");
    if (ctx.input(i).kind != ValueType::Kind::kTensor) return InvalidModel("input ", i, " is not a tensor");
  }
  for (int i = count; i < ctx.inputs(); ++i)
    if (ctx.has(i) && ctx.input(i).kind != ValueType::Kind::kTensor)
      return InvalidModel("input ", i, " is not a tensor");
  return Ok();
}

Result<int> axis_of(int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) return InvalidModel("axis ", axis, " is out of range for rank ", rank);
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

Result<std::vector<int>> axes_of(const std::vector<int64_t>& axes, int rank) {
  std::vector<int> out;
  uint32_t seen = 0;
  for (int64_t a : axes) {
    SMELT_ASSIGN(const int axis, axis_of(a, rank));
    if (seen >> axis & 1) return InvalidModel("axis ", a, " is given twice");
    seen |= 1u << axis;
    out.push_back(axis);
  }
  return out;
}

ValueType like(const ValueType& x, const Shape& shape, int axis) {
  QuantPtr quant = x.quant;
  if (quant && quant->kind == Quantization::Kind::kPerAxis && axis >= 0 && axis != quant->axis) {
    auto moved = std::make_shared<Quantization>(*quant);
    moved->axis = axis;
    quant = std::move(moved);
  }
  return ValueType::tensor(x.dtype, shape, std::move(quant));
}

ValueType like_unranked(const ValueType& x) {
  ValueType t = ValueType::tensor(x.dtype);
  t.quant = x.quant;
  return t;
}

Result<int64_t> broadcast_dim(int64_t a, int64_t b) {
  if (a == b || b == 1) return a;
  if (a == 1) return b;
  if (a < 0) return b;
  if (b < 0) return a;
  return InvalidModel("dimensions ", a, " and ", b, " do not broadcast");
}

Result<Shape> broadcast_both(const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  Shape out = Shape::of_rank(rank, 1);
  for (int i = 0; i < rank; ++i) {
    const int ia = i - (rank - a.rank()), ib = i - (rank - b.rank());
    auto d = broadcast_dim(ia < 0 ? 1 : a[ia], ib < 0 ? 1 : b[ib]);
    if (!d.ok()) return InvalidModel("shapes ", a.str(), " and ", b.str(), " do not broadcast");
    out[i] = *d;
  }
  return out;
}

Result<Shape> shape_from(const std::vector<int64_t>& dims) {
  if (dims.size() > static_cast<size_t>(Shape::kMaxRank))
    return Unsupported("a shape of ", dims.size(), " dimensions; at most ", Shape::kMaxRank, " are supported");
  for (int64_t d : dims)
    if (d < 0) return InvalidModel("a shape has the negative dimension ", d);
  return Shape(std::span<const int64_t>(dims));
}

std::optional<int64_t> entries_of(const InferContext& ctx, int i) {
  if (!ctx.has(i)) return std::nullopt;
  const ValueType& t = ctx.input(i);
  if (!t.ranked || !t.shape.is_static()) return std::nullopt;
  auto n = t.shape.checked_elements();
  if (!n.ok()) return std::nullopt;
  return *n;
}

std::vector<int64_t> ints_of(const Tensor& t) {
  std::vector<int64_t> out(static_cast<size_t>(t.elements()));
  to_ints(t, out.data());
  return out;
}

std::optional<int64_t> int_of(const InferContext& ctx, int i) {
  auto v = ctx.ints(i);
  if (!v || v->empty()) return std::nullopt;
  return v->front();
}

Status same_dtype(const InferContext& ctx, int a, int b) {
  const DType x = ctx.input(a).dtype, y = ctx.input(b).dtype;
  if (x != y && x != DType::kInvalid && y != DType::kInvalid)
    return InvalidModel("input ", b, " is ", to_string(y), ", ", to_string(x), " expected as of input ", a);
  return Ok();
}

Result<int64_t> index_of(int64_t index, int64_t extent, bool negative) {
  if (index >= extent || index < (negative ? -extent : 0))
    return InvalidInput("index ", index, " is out of range for an extent of ", extent);
  return index < 0 ? index + extent : index;
}

Status expect_shape(const Tensor& output, const Shape& shape) {
  if (!(output.shape() == shape))
    return InvalidInput("the result has shape ", shape.str(), " but ", output.shape().str(), " was planned");
  return Ok();
}

}  // namespace smelt
