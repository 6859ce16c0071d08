#include "formats/executorch/xnnpack/lower.h"
#include "ops/elementwise/elementwise.h"
#include "ops/pool/pool.h"
#include "ops/reduce/reduce.h"
#include "ops/resize/resize.h"

namespace smelt::executorch {

using fb_xnnpack::XNodeUnion;

namespace {

constexpr uint32_t kLegacyCoordinates = 4, kAlignCorners = 8, kKeepDims = 0x40;

/// What every kind of pooling table has.
template <class Pooling>
Result<PoolAttrs> pool_attrs(const Pooling& n) {
  PoolAttrs a;
  SMELT_ASSIGN(const int64_t kh, xnn_size(n.pooling_height(), "pooling height", 1));
  SMELT_ASSIGN(const int64_t kw, xnn_size(n.pooling_width(), "pooling width", 1));
  a.kernel = {kh, kw};
  a.strides = {kh, kw};
  a.dilations = {1, 1};
  a.layout = Layout::kChannelsLast;
  SMELT_TRY(read_padding(n, a));
  return a;
}

}  // namespace

Status XnnLowering::pooling(const Node& node) {
  const auto& n = *static_cast<const fb_xnnpack::_XNNPooling2D*>(node.xnode_union());
  SMELT_ASSIGN(auto attrs, pool_attrs(n));
  SMELT_ASSIGN(const int64_t sy, xnn_size(n.stride_height(), "vertical stride", 1));
  SMELT_ASSIGN(const int64_t sx, xnn_size(n.stride_width(), "horizontal stride", 1));
  attrs.strides = {sy, sx};
  if (node.xnode_union_type() == XNodeUnion::XNNAvgPooling2d) {
    attrs.kind = PoolKind::kAverage;
  } else {
    SMELT_ASSIGN(const int64_t dy, xnn_size(n.dilation_height(), "vertical dilation", 1));
    SMELT_ASSIGN(const int64_t dx, xnn_size(n.dilation_width(), "horizontal dilation", 1));
    attrs.dilations = {dy, dx};
  }
  SMELT_ASSIGN(attrs.act, xnn_clamp(node));
  return emit(Op::kPool, std::move(attrs), {n.input_id()}, n.output_id());
}

/// Windows side by side; the index counts within the window, column by column.
Status XnnLowering::argmax_pooling(const Node& node) {
  const auto& n = *node.xnode_union_as_XNNArgMaxPooling2d();
  SMELT_ASSIGN(auto attrs, pool_attrs(n));
  attrs.index = PoolAttrs::Index::kWindowColumn;
  attrs.index_dtype = DType::kI64;
  const uint32_t values = n.output_value_id(), indices = n.output_index_id();
  const DType dtype = values == kXnnInvalidId ? DType::kF32 : compute_type(values);
  const ValueId x = real(n.input_id(), dtype);
  const auto out = add_n(Op::kPool, std::move(attrs), {x}, 2);
  if (values != kXnnInvalidId) SMELT_TRY(bind(values, convert(*this, out[0], value(values).type)));
  if (indices == kXnnInvalidId) return status();
  // Outside the graph an index is int64, whatever type the graph declares for it.
  SMELT_TRY(bind(indices, out[1]));
  if (value(indices).output) return Ok();
  return bind(indices, convert(*this, out[1], value(indices).type));
}

Status XnnLowering::global_average(const Node& node) {
  const auto& n = *node.xnode_union_as_XNNGlobalAvgPooling2d();
  SMELT_ASSIGN(const Activation act, xnn_clamp(node));
  ReduceAttrs attrs;
  attrs.fn = Reduction::kMean;
  attrs.keep_dims = (n.flags() & kKeepDims) != 0;
  attrs.rounding = Rounding::kXnnpack;
  SMELT_TRY(emit(Op::kReduce, std::move(attrs), {n.input_id()}, n.output_id(), {i64({-3, -2})}));
  if (act.kind == ActKind::kNone) return Ok();
  const Bounds range = activation_bounds(act);
  return emit_unary(UnaryAttrs(Unary::kClamp, range.lo, range.hi), n.output_id(), n.output_id());
}

Status XnnLowering::resize_node(const Node& node) {
  const auto& n = *node.xnode_union_as_XNNStaticResizeBilinear2D();
  SMELT_ASSIGN(const int64_t height, xnn_size(n.new_height(), "height", 1));
  SMELT_ASSIGN(const int64_t width, xnn_size(n.new_width(), "width", 1));
  ResizeAttrs attrs;
  attrs.mode = ResizeAttrs::Mode::kLinear;
  attrs.axes = {1, 2};
  attrs.tflite = true;
  attrs.rounding = Rounding::kXnnpack;
  if ((n.flags() & kAlignCorners) != 0)
    attrs.coord = ResizeAttrs::Coord::kAlignCorners;
  else if ((n.flags() & kLegacyCoordinates) != 0)
    attrs.coord = ResizeAttrs::Coord::kAsymmetric;
  return emit(Op::kResize, std::move(attrs), {n.input_id()}, n.output_id(), {kNoValue, kNoValue, i64({height, width})});
}

}  // namespace smelt::executorch
