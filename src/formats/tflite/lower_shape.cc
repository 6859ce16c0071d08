// Operators that move elements: reshaping, slicing, joining, padding, reversing.
#include "formats/tflite/lowering.h"
#include "ops/elementwise/elementwise.h"
#include "ops/shape/shape.h"

namespace smelt::tflite {
namespace {
using Code = tfl::BuiltinOperator;
const AttrsPtr& none() {
  static const AttrsPtr attrs = make_attrs<NoAttrs>();
  return attrs;
}
}  // namespace

/// The shape comes from input 1, or from the options of old files.
Status lower_reshape(Lowering& l) {
  ValueId shape = kNoValue;
  if (l.has(1) && (!l.type(1).ranked || l.type(1).shape.rank() == 1)) {
    shape = l.in(1);
  } else {
    const auto* o = l.options<tfl::ReshapeOptions>();
    std::vector<int64_t> dims;
    if (o && o->new_shape()) dims.assign(o->new_shape()->begin(), o->new_shape()->end());
    if (!o) return InvalidModel("neither a shape tensor nor ReshapeOptions");
    // Writers once could not express a scalar but by [0].
    if (dims.size() == 1 && dims[0] == 0) dims.clear();
    shape = l.b().i64(dims);
  }
  return l.emit(Op::kReshape, make_attrs<ReshapeAttrs>(), {l.in(0), shape});
}

Status lower_squeeze(Lowering& l) {
  const auto* o = l.options<tfl::SqueezeOptions>();
  std::vector<ValueId> ins{l.in(0)};
  if (o && o->squeeze_dims() && o->squeeze_dims()->size() > 0)
    ins.push_back(l.b().i64(std::vector<int64_t>(o->squeeze_dims()->begin(), o->squeeze_dims()->end())));
  return l.emit(Op::kSqueeze, none(), ins);
}

Status lower_expand_dims(Lowering& l) { return l.emit(Op::kUnsqueeze, none(), {l.in(0), l.in(1)}); }

Status lower_transpose(Lowering& l) { return l.emit(Op::kTranspose, make_attrs<TransposeAttrs>(), {l.in(0), l.in(1)}); }

Status lower_concat(Lowering& l) {
  const auto* o = l.options<tfl::ConcatenationOptions>();
  const auto attrs = make_attrs<AxisAttrs>(o ? o->axis() : 0);
  if (!o || o->fused_activation_function() == tfl::ActivationFunctionType::NONE)
    return l.emit(Op::kConcat, attrs, l.ins());
  SMELT_ASSIGN(const ValueId y, l.b().op_as(Op::kConcat, attrs, l.ins(),
                                            ValueType{.dtype = l.out_type(0).dtype, .quant = l.out_type(0).quant}));
  return l.emit_activation(y, o->fused_activation_function());
}

Status lower_pack(Lowering& l) {
  const auto* o = l.options<tfl::PackOptions>();
  if (o && o->values_count() != 0 && o->values_count() != l.inputs())
    return InvalidModel("values_count ", o->values_count(), " with ", l.inputs(), " inputs");
  return l.emit(Op::kStack, make_attrs<AxisAttrs>(o ? o->axis() : 0), l.ins());
}

Status lower_unpack(Lowering& l) {
  const auto* o = l.options<tfl::UnpackOptions>();
  if (o && o->num() != l.outputs()) return InvalidModel("num ", o->num(), " with ", l.outputs(), " outputs");
  return l.emit_all(Op::kUnstack, make_attrs<AxisAttrs>(o ? o->axis() : 0), {l.in(0)});
}

Status lower_split(Lowering& l) {
  const auto* o = l.options<tfl::SplitOptions>();
  if (o && o->num_splits() != l.outputs())
    return InvalidModel("num_splits ", o->num_splits(), " with ", l.outputs(), " outputs");
  SplitAttrs a;
  a.count = l.outputs();
  if (!l.constant(0)) return l.emit_all(Op::kSplit, make_attrs<SplitAttrs>(a), {l.in(1), kNoValue, l.in(0)});
  SMELT_ASSIGN(const auto axis, l.const_ints(0, "the axis"));
  if (axis.size() != 1) return InvalidModel("the axis has ", axis.size(), " elements");
  a.axis = axis[0];
  const ValueType& x = l.type(1);
  if (x.ranked) {
    const int64_t d = a.axis < 0 ? a.axis + x.shape.rank() : a.axis;
    if (d < 0 || d >= x.shape.rank()) return InvalidModel("axis ", a.axis, " of shape ", x.shape.str());
    const int64_t extent = x.shape[static_cast<int>(d)];
    if (extent >= 0 && extent % a.count != 0)
      return InvalidModel("a dimension of ", extent, " does not split into ", a.count, " equal pieces");
  }
  return l.emit_all(Op::kSplit, make_attrs<SplitAttrs>(a), {l.in(1)});
}

Status lower_split_v(Lowering& l) {
  SplitAttrs a;
  if (!l.constant(2)) return l.emit_all(Op::kSplit, make_attrs<SplitAttrs>(a), {l.in(0), l.in(1), l.in(2)});
  SMELT_ASSIGN(const auto axis, l.const_ints(2, "the axis"));
  if (axis.size() != 1) return InvalidModel("the axis has ", axis.size(), " elements");
  a.axis = axis[0];
  ValueId sizes = l.in(1);
  if (l.constant(1)) {
    SMELT_ASSIGN(auto pieces, l.const_ints(1, "the sizes"));
    if (static_cast<int>(pieces.size()) != l.outputs())
      return InvalidModel(pieces.size(), " sizes with ", l.outputs(), " outputs");
    // One piece may be -1: what the others leave.
    int64_t sum = 0;
    int64_t* rest = nullptr;
    for (int64_t& p : pieces) {
      if (p == -1 && !rest)
        rest = &p;
      else if (p < 0)
        return InvalidModel("a piece of ", p);
      else
        sum += p;
    }
    const ValueType& x = l.type(0);
    if (rest && x.ranked) {
      const int64_t d = a.axis < 0 ? a.axis + x.shape.rank() : a.axis;
      if (d < 0 || d >= x.shape.rank()) return InvalidModel("axis ", a.axis, " of shape ", x.shape.str());
      if (x.shape[static_cast<int>(d)] >= 0) {
        *rest = x.shape[static_cast<int>(d)] - sum;
        if (*rest < 0) return InvalidModel("pieces of ", sum, " in a dimension of ", x.shape[static_cast<int>(d)]);
      }
    }
    sizes = l.b().i64(pieces);
  }
  return l.emit_all(Op::kSplit, make_attrs<SplitAttrs>(a), {l.in(0), sizes});
}

Status lower_slice(Lowering& l) { return l.emit(Op::kSliceSize, none(), l.ins()); }

Status lower_strided_slice(Lowering& l) {
  StridedSliceAttrs a;
  if (const auto* o = l.options<tfl::StridedSliceOptions>()) {
    a.begin_mask = o->begin_mask();
    a.end_mask = o->end_mask();
    a.ellipsis_mask = o->ellipsis_mask();
    a.new_axis_mask = o->new_axis_mask();
    a.shrink_axis_mask = o->shrink_axis_mask();
    a.offset = o->offset();
  }
  return l.emit(Op::kStridedSlice, make_attrs<StridedSliceAttrs>(a), l.ins());
}

Status lower_pad(Lowering& l) {
  PadAttrs a;
  a.pairs = true;
  return l.emit(Op::kPad, make_attrs<PadAttrs>(a), l.ins());
}

Status lower_mirror_pad(Lowering& l) {
  const auto* o = l.options<tfl::MirrorPadOptions>();
  PadAttrs a;
  a.pairs = true;
  a.mode = o && o->mode() == tfl::MirrorPadMode::SYMMETRIC ? PadAttrs::Mode::kSymmetric : PadAttrs::Mode::kReflect;
  return l.emit(Op::kPad, make_attrs<PadAttrs>(a), {l.in(0), l.in(1)});
}

Status lower_tile(Lowering& l) { return l.emit(Op::kTile, none(), l.ins()); }

Status lower_depth_space(Lowering& l) {
  BlockAttrs a;
  a.layout = Layout::kChannelsLast;
  a.to_depth = l.code() == Code::SPACE_TO_DEPTH;
  if (const auto* o = l.options<tfl::SpaceToDepthOptions>())
    a.block = o->block_size();
  else if (const auto* d = l.options<tfl::DepthToSpaceOptions>())
    a.block = d->block_size();
  else
    return InvalidModel("the options are missing");
  if (a.block < 1) return InvalidModel("block size ", a.block);
  return l.emit(Op::kDepthSpace, make_attrs<BlockAttrs>(a), {l.in(0)});
}

Status lower_space_to_batch(Lowering& l) { return l.emit(Op::kSpaceToBatch, none(), l.ins()); }
Status lower_batch_to_space(Lowering& l) { return l.emit(Op::kBatchToSpace, none(), l.ins()); }

Status lower_shape(Lowering& l) {
  ShapeOfAttrs a;
  a.to = l.out_type(0).dtype;
  return l.emit(Op::kShapeOf, make_attrs<ShapeOfAttrs>(a), {l.in(0)});
}

Status lower_rank(Lowering& l) {
  ShapeOfAttrs a;
  a.to = l.out_type(0).dtype;
  return l.emit(Op::kRankOf, make_attrs<ShapeOfAttrs>(a), {l.in(0)});
}

Status lower_fill(Lowering& l) { return l.emit(Op::kFill, none(), l.ins()); }

Status lower_zeros_like(Lowering& l) {
  SMELT_ASSIGN(const ValueId shape, l.b().op(Op::kShapeOf, make_attrs<ShapeOfAttrs>(), {l.in(0)}));
  return l.emit(Op::kFill, none(), {shape, l.b().scalar(l.out_type(0).dtype, 0)});
}

Status lower_range(Lowering& l) { return l.emit(Op::kRange, none(), l.ins()); }
Status lower_reverse(Lowering& l) { return l.emit(Op::kReverse, none(), l.ins()); }

Status lower_reverse_sequence(Lowering& l) {
  const auto* o = l.options<tfl::ReverseSequenceOptions>();
  if (!o) return InvalidModel("ReverseSequenceOptions are missing");
  DiagonalAttrs a;
  a.axis1 = o->seq_dim();
  a.axis2 = o->batch_dim();
  return l.emit(Op::kReverseSequence, make_attrs<DiagonalAttrs>(a), l.ins());
}

Status lower_matrix_diag(Lowering& l) { return l.emit(Op::kMatrixDiag, none(), l.ins()); }
Status lower_matrix_set_diag(Lowering& l) { return l.emit(Op::kMatrixSetDiag, none(), l.ins()); }
Status lower_broadcast_to(Lowering& l) { return l.emit(Op::kExpand, none(), l.ins()); }
Status lower_broadcast_args(Lowering& l) { return l.emit(Op::kBroadcastShape, none(), l.ins()); }
Status lower_dynamic_update_slice(Lowering& l) { return l.emit(Op::kDynamicUpdateSlice, none(), l.ins()); }

/// Writes the elements of x with gaps of dilation - 1 between them, filled with a padding value: one scatter.
Status lower_dilate(Lowering& l) {
  SMELT_ASSIGN(const auto dilations, l.const_ints(1, "the dilations"));
  const ValueType x = l.type(0);
  if (!x.ranked || static_cast<int>(dilations.size()) != x.shape.rank())
    return InvalidModel(dilations.size(), " dilations for shape ", x.shape.str());
  ValueId value = l.in(0);
  // Dimension by dimension: [n] -> [n, 1], padded to [n, d], flattened to [n * d], cut to (n - 1) * d + 1.
  for (int d = 0; d < x.shape.rank(); ++d) {
    const int64_t by = dilations[static_cast<size_t>(d)];
    if (by < 1) return InvalidModel("dilation ", by);
    if (by == 1) continue;
    const int64_t extent = x.shape[d];
    if (extent < 0) return Unsupported("dilation of a dimension that is not known");
    std::vector<int64_t> pads(static_cast<size_t>(x.shape.rank() + 1) * 2, 0), flat;
    pads[static_cast<size_t>(d + 1) * 2 + 1] = by - 1;
    PadAttrs pad;
    pad.pairs = true;
    SMELT_ASSIGN(ValueId v, l.b().op(Op::kUnsqueeze, none(), {value, l.b().i64({d + 1})}));
    const ValueId rows = l.b().constant(
        "", Tensor::from<int64_t>(DType::kI64, Shape{x.shape.rank() + 1, 2}, std::span<const int64_t>(pads)));
    SMELT_ASSIGN(v, l.b().op(Op::kPad, make_attrs<PadAttrs>(pad), {v, rows, l.in(2)}));
    const ValueType t = l.b().type(v);
    for (int i = 0; i < t.shape.rank(); ++i) {
      if (i == d + 1)
        flat.back() = extent * by;
      else
        flat.push_back(t.shape[i]);
    }
    SMELT_ASSIGN(v, l.b().op(Op::kReshape, make_attrs<ReshapeAttrs>(), {v, l.b().i64(flat)}));
    const int64_t end = extent == 0 ? 0 : (extent - 1) * by + 1;
    SMELT_ASSIGN(value, l.b().op(Op::kSlice, none(), {v, l.b().i64({0}), l.b().i64({end}), l.b().i64({d})}));
  }
  return l.alias(0, value);
}

}  // namespace smelt::tflite
