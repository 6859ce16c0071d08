// Operators that move elements: reshaping, slicing, joining, padding, reversing.
#include "formats/tflite/lowering.h"
#include "ops/elementwise/elementwise.h"
#include "ops/shape/shape.h"

namespace smelt::tflite {
namespace {
using Code = tfl::BuiltinOperator;
}  // namespace

/// The shape comes from input 1, or from the options of old files.
Status lower_reshape(OperatorContext& c) {
  ValueId shape = kNoValue;
  if (c.has(1) && (!c.in_type(1).ranked || c.in_type(1).shape.rank() == 1)) {
    shape = c.in(1);
  } else {
    const auto* o = c.options<tfl::ReshapeOptions>();
    std::vector<int64_t> dims;
    if (o && o->new_shape()) dims.assign(o->new_shape()->begin(), o->new_shape()->end());
    if (!o) return InvalidModel("neither a shape tensor nor ReshapeOptions");
    // Writers once could not express a scalar but by [0].
    if (dims.size() == 1 && dims[0] == 0) dims.clear();
    shape = c.i64(dims);
  }
  return c.emit(Op::kReshape, ReshapeAttrs(), {c.in(0), shape});
}

Status lower_squeeze(OperatorContext& c) {
  const auto* o = c.options<tfl::SqueezeOptions>();
  std::vector<ValueId> ins{c.in(0)};
  if (o && o->squeeze_dims() && o->squeeze_dims()->size() > 0)
    ins.push_back(c.i64(std::vector<int64_t>(o->squeeze_dims()->begin(), o->squeeze_dims()->end())));
  return c.emit(Op::kSqueeze, ins);
}

Status lower_expand_dims(OperatorContext& c) { return c.emit(Op::kUnsqueeze, {c.in(0), c.in(1)}); }

Status lower_transpose(OperatorContext& c) { return c.emit(Op::kTranspose, TransposeAttrs(), {c.in(0), c.in(1)}); }

Status lower_concat(OperatorContext& c) {
  const auto* o = c.options<tfl::ConcatenationOptions>();
  const auto attrs = make_attrs<AxisAttrs>(o ? o->axis() : 0);
  if (!o || o->fused_activation_function() == tfl::ActivationFunctionType::NONE)
    return c.emit(Op::kConcat, attrs, c.ins());
  const ValueId y =
      c.add_as(Op::kConcat, attrs, c.ins(), ValueType{.dtype = c.out_type(0).dtype, .quant = c.out_type(0).quant});
  return c.emit_activation(y, o->fused_activation_function());
}

Status lower_pack(OperatorContext& c) {
  const auto* o = c.options<tfl::PackOptions>();
  if (o && o->values_count() != 0 && o->values_count() != c.inputs())
    return InvalidModel("values_count ", o->values_count(), " with ", c.inputs(), " inputs");
  return c.emit(Op::kStack, AxisAttrs(o ? o->axis() : 0), c.ins());
}

Status lower_unpack(OperatorContext& c) {
  const auto* o = c.options<tfl::UnpackOptions>();
  if (o && o->num() != c.outputs()) return InvalidModel("num ", o->num(), " with ", c.outputs(), " outputs");
  return c.emit_all(Op::kUnstack, AxisAttrs(o ? o->axis() : 0), {c.in(0)});
}

Status lower_split(OperatorContext& c) {
  const auto* o = c.options<tfl::SplitOptions>();
  if (o && o->num_splits() != c.outputs())
    return InvalidModel("num_splits ", o->num_splits(), " with ", c.outputs(), " outputs");
  SplitAttrs a;
  a.count = c.outputs();
  if (!c.const_tensor(0)) return c.emit_all(Op::kSplit, a, {c.in(1), kNoValue, c.in(0)});
  SMELT_ASSIGN(const auto axis, c.const_ints(0, "the axis"));
  if (axis.size() != 1) return InvalidModel("the axis has ", axis.size(), " elements");
  a.axis = axis[0];
  const ValueType& x = c.in_type(1);
  if (x.ranked) {
    const int64_t d = a.axis < 0 ? a.axis + x.shape.rank() : a.axis;
    if (d < 0 || d >= x.shape.rank()) return InvalidModel("axis ", a.axis, " of shape ", x.shape.str());
    const int64_t extent = x.shape[static_cast<int>(d)];
    if (extent >= 0 && extent % a.count != 0)
      return InvalidModel("a dimension of ", extent, " does not split into ", a.count, " equal parts");
  }
  return c.emit_all(Op::kSplit, a, {c.in(1)});
}

Status lower_split_v(OperatorContext& c) {
  const auto* o = c.options<tfl::SplitVOptions>();
  if (o && o->num_splits() != c.outputs())
    return InvalidModel("num_splits ", o->num_splits(), " with ", c.outputs(), " outputs");
  SplitAttrs a;
  if (!c.const_tensor(2)) return c.emit_all(Op::kSplit, a, {c.in(0), c.in(1), c.in(2)});
  SMELT_ASSIGN(const auto axis, c.const_ints(2, "the axis"));
  if (axis.size() != 1) return InvalidModel("the axis has ", axis.size(), " elements");
  a.axis = axis[0];
  ValueId sizes = c.in(1);
  if (c.const_tensor(1)) {
    SMELT_ASSIGN(auto extents, c.const_ints(1, "the sizes"));
    if (static_cast<int>(extents.size()) != c.outputs())
      return InvalidModel(extents.size(), " sizes with ", c.outputs(), " outputs");
    // One piece may be -1: what the others leave.
    int64_t sum = 0;
    int64_t* rest = nullptr;
    for (int64_t& p : extents) {
      if (p == -1 && !rest)
        rest = &p;
      else if (p < 0)
        return InvalidModel("a piece of ", p);
      else
        sum += p;
    }
    const ValueType& x = c.in_type(0);
    if (rest && x.ranked) {
      const int64_t d = a.axis < 0 ? a.axis + x.shape.rank() : a.axis;
      if (d < 0 || d >= x.shape.rank()) return InvalidModel("axis ", a.axis, " of shape ", x.shape.str());
      if (x.shape[static_cast<int>(d)] >= 0) {
        *rest = x.shape[static_cast<int>(d)] - sum;
        if (*rest < 0) return InvalidModel("pieces of ", sum, " in a dimension of ", x.shape[static_cast<int>(d)]);
      }
    }
    sizes = c.i64(extents);
  }
  return c.emit_all(Op::kSplit, a, {c.in(0), sizes});
}

Status lower_slice(OperatorContext& c) { return c.emit(Op::kSliceSize, c.ins()); }

Status lower_strided_slice(OperatorContext& c) {
  StridedSliceAttrs a;
  if (const auto* o = c.options<tfl::StridedSliceOptions>()) {
    a.begin_mask = o->begin_mask();
    a.end_mask = o->end_mask();
    a.ellipsis_mask = o->ellipsis_mask();
    a.new_axis_mask = o->new_axis_mask();
    a.shrink_axis_mask = o->shrink_axis_mask();
    a.offset = o->offset();
  }
  return c.emit(Op::kStridedSlice, a, c.ins());
}

Status lower_pad(OperatorContext& c) {
  PadAttrs a;
  a.pairs = true;
  return c.emit(Op::kPad, a, c.ins());
}

Status lower_mirror_pad(OperatorContext& c) {
  const auto* o = c.options<tfl::MirrorPadOptions>();
  if (o) SMELT_TRY(check_enumerator(o->mode(), "mode"));
  PadAttrs a;
  a.pairs = true;
  a.mode = o && o->mode() == tfl::MirrorPadMode::SYMMETRIC ? PadAttrs::Mode::kSymmetric : PadAttrs::Mode::kReflect;
  return c.emit(Op::kPad, a, {c.in(0), c.in(1)});
}

Status lower_tile(OperatorContext& c) { return c.emit(Op::kTile, c.ins()); }

Status lower_depth_space(OperatorContext& c) {
  BlockAttrs a;
  a.layout = Layout::kChannelsLast;
  a.to_depth = c.code() == Code::SPACE_TO_DEPTH;
  if (const auto* o = c.options<tfl::SpaceToDepthOptions>())
    a.block = o->block_size();
  else if (const auto* d = c.options<tfl::DepthToSpaceOptions>())
    a.block = d->block_size();
  else
    return InvalidModel("the options are missing");
  if (a.block < 1) return InvalidModel("block size ", a.block);
  return c.emit(Op::kDepthSpace, a, {c.in(0)});
}

Status lower_space_to_batch(OperatorContext& c) { return c.emit(Op::kSpaceToBatch, c.ins()); }
Status lower_batch_to_space(OperatorContext& c) { return c.emit(Op::kBatchToSpace, c.ins()); }

Status lower_shape(OperatorContext& c) {
  ShapeOfAttrs a;
  a.to = c.out_type(0).dtype;
  return c.emit(Op::kShapeOf, a, {c.in(0)});
}

Status lower_rank(OperatorContext& c) {
  ShapeOfAttrs a;
  a.to = c.out_type(0).dtype;
  return c.emit(Op::kRankOf, a, {c.in(0)});
}

Status lower_fill(OperatorContext& c) { return c.emit(Op::kFill, c.ins()); }

Status lower_zeros_like(OperatorContext& c) {
  const ValueId shape = c.dims_of(c.in(0));
  return c.emit(Op::kFill, {shape, c.scalar(c.out_type(0).dtype, 0)});
}

Status lower_range(OperatorContext& c) { return c.emit(Op::kRange, c.ins()); }
Status lower_reverse(OperatorContext& c) { return c.emit(Op::kReverse, c.ins()); }

Status lower_reverse_sequence(OperatorContext& c) {
  SMELT_ASSIGN(const auto* o, c.need_options<tfl::ReverseSequenceOptions>());
  DiagonalAttrs a;
  a.axis1 = o->seq_dim();
  a.axis2 = o->batch_dim();
  return c.emit(Op::kReverseSequence, a, c.ins());
}

Status lower_matrix_diag(OperatorContext& c) { return c.emit(Op::kMatrixDiag, c.ins()); }
Status lower_matrix_set_diag(OperatorContext& c) { return c.emit(Op::kMatrixSetDiag, c.ins()); }
Status lower_broadcast_to(OperatorContext& c) { return c.emit(Op::kExpand, c.ins()); }
Status lower_broadcast_args(OperatorContext& c) { return c.emit(Op::kBroadcastShape, c.ins()); }
Status lower_dynamic_update_slice(OperatorContext& c) { return c.emit(Op::kDynamicUpdateSlice, c.ins()); }

ValueId insert_gaps(OperatorContext& c, ValueId x, ValueId value, int axis, int64_t gap) {
  const ValueType t = c.type(x);
  const int64_t extent = c.dim(x, axis), stride = gap + 1;
  if (extent < 0) c.unsupported("gaps in a dimension that is not known");
  if (extent > (int64_t{1} << 31) / stride) c.fail(LimitReached("gaps of ", gap, " elements"));
  if (!c.ok()) return kNoValue;
  // [n] -> [n, 1], padded to [n, stride], flattened to [n * stride], cut to (n - 1) * stride + 1.
  const int64_t rank = t.shape.rank() + 1;
  std::vector<int64_t> pads(static_cast<size_t>(rank) * 2, 0), flat(t.shape.begin(), t.shape.end());
  pads[static_cast<size_t>(axis + 1) * 2 + 1] = gap;
  flat[static_cast<size_t>(axis)] = extent * stride;
  PadAttrs pad;
  pad.pairs = true;
  const ValueId widths = c.constant(Tensor::from<int64_t>(DType::kI64, Shape{rank, 2}, pads));
  const ValueId wide = c.add(Op::kPad, pad, {c.unsqueeze(x, {axis + 1}), widths, value});
  const int64_t end = extent == 0 ? 0 : extent * stride - gap;
  return c.add(Op::kSlice, {c.reshape(wide, flat), c.i64({0}), c.i64({end}), c.i64({axis})});
}

Status lower_dilate(OperatorContext& c) {
  SMELT_ASSIGN(const auto dilations, c.const_ints(1, "the dilations"));
  const ValueType& t = c.in_type(0);
  if (!t.ranked || static_cast<int>(dilations.size()) != t.shape.rank())
    return InvalidModel(dilations.size(), " dilations for shape ", t.shape.str());
  ValueId x = c.in(0);
  for (size_t d = 0; d < dilations.size(); ++d) {
    if (dilations[d] < 1) return InvalidModel("dilation ", dilations[d]);
    if (dilations[d] > 1) x = insert_gaps(c, x, c.in(2), static_cast<int>(d), dilations[d] - 1);
  }
  return c.alias(0, x);
}

}  // namespace smelt::tflite
