// Operators of ai.onnx that move elements or make tensors from shapes.
#include <cmath>

#include "formats/onnx/ops.h"
#include "ops/elementwise/elementwise.h"
#include "ops/shape/shape.h"
#include "tensor/numeric.h"

namespace smelt::onnx {
namespace {

void lower_reshape(NodeContext& n) {
  ReshapeAttrs a;
  a.allow_zero = n.version() >= 14 && n.flag("allowzero");
  const ValueId shape = n.version() < 5 && n.has_attr("shape") ? n.i64(n.ints("shape")) : n.in(1);
  n.emit(Op::kReshape, a, {n.in(0), shape});
}

/// Axes from input 1 (opset 13 on) or from the attribute; kNoValue when neither is given.
ValueId axes_of(NodeContext& n) {
  if (n.has(1)) return n.in(1);
  return n.has_attr("axes") ? n.i64(n.ints("axes")) : kNoValue;
}

void lower_squeeze(NodeContext& n) {
  const ValueId axes = axes_of(n);
  n.emit(Op::kSqueeze, axes == kNoValue ? std::vector<ValueId>{n.in(0)} : std::vector<ValueId>{n.in(0), axes});
}
void lower_unsqueeze(NodeContext& n) {
  const ValueId axes = axes_of(n);
  if (axes == kNoValue) return n.fail("axes are missing");
  n.emit(Op::kUnsqueeze, {n.in(0), axes});
}
void lower_flatten(NodeContext& n) { n.emit(Op::kFlatten, AxisAttrs(n.i("axis", 1)), {n.in(0)}); }

void lower_transpose(NodeContext& n) {
  const auto perm = n.ints("perm");
  const ValueId x = n.in(0);
  const int rank = n.rank(x);
  if (n.has_attr("perm") && rank >= 0) {
    std::vector<char> seen(static_cast<size_t>(rank), 0);
    if (perm.size() != seen.size()) return n.fail("perm has ", perm.size(), " entries for rank ", rank);
    for (const int64_t p : perm) {
      if (p < 0 || p >= rank || seen[static_cast<size_t>(p)]) return n.fail("perm is no permutation of the dimensions");
      seen[static_cast<size_t>(p)] = 1;
    }
  }
  n.emit(Op::kTranspose, TransposeAttrs(perm), {x});
}
void lower_expand(NodeContext& n) { n.emit(Op::kExpand, {n.in(0), n.in(1)}); }

void lower_tile(NodeContext& n) {
  if (n.version() >= 6) return n.emit(Op::kTile, {n.in(0), n.in(1)});
  // Opset 1: tiles and axis are scalars.
  const ValueId x = n.in(0);
  const auto tiles = n.const_ints(1), axis = n.const_ints(2);
  const int rank = n.rank_or_fail(x);
  if (!n.ok()) return;
  if (!tiles || !axis || tiles->size() != 1 || axis->size() != 1) return n.unsupported("computed tiles or axis");
  std::vector<int64_t> repeats(static_cast<size_t>(rank), 1);
  if ((*axis)[0] < 0 || (*axis)[0] >= rank) return n.fail("axis ", (*axis)[0], " for rank ", rank);
  repeats[static_cast<size_t>((*axis)[0])] = (*tiles)[0];
  n.emit(Op::kTile, {x, n.i64(repeats)});
}

void lower_slice(NodeContext& n) {
  if (n.version() >= 10) {
    return n.emit(Op::kSlice, n.operands(3, 5));
  }
  std::vector<ValueId> in{n.in(0), n.i64(n.ints("starts")), n.i64(n.ints("ends"))};
  if (n.has_attr("axes")) in.push_back(n.i64(n.ints("axes")));
  n.emit(Op::kSlice, in);
}
void lower_dynamic_slice(NodeContext& n) { n.emit(Op::kSlice, n.operands(3, 4)); }

void lower_concat(NodeContext& n) {
  if (n.version() >= 4 && !n.has_attr("axis")) return n.fail("attribute 'axis' is missing");
  const auto in = n.all_inputs();
  for (const ValueId id : in)
    if (id == kNoValue) return n.fail("an input is missing");
  n.emit(Op::kConcat, AxisAttrs(n.i("axis", 1)), in);
}

void lower_split(NodeContext& n) {
  SplitAttrs a;
  a.axis = n.i("axis", 0);
  const int outs = n.outputs();
  std::vector<ValueId> in{n.in(0)};
  if (n.has(1))
    in.push_back(n.in(1));
  else if (n.version() < 13 && n.has_attr("split"))
    in.push_back(n.i64(n.ints("split")));
  else
    a.count = n.version() >= 18 ? n.i("num_outputs", outs) : outs;
  if (in.size() == 1 && a.count != outs) return n.fail("num_outputs is ", a.count, ", the node has ", outs, " outputs");
  n.emit(Op::kSplit, a, in, outs);
}

void lower_shape_of(NodeContext& n) {
  ShapeOfAttrs a;
  if (n.version() >= 15) {
    a.start = n.i("start", 0);
    a.end = n.i("end", INT64_MAX);
  }
  n.emit(Op::kShapeOf, a, {n.in(0)});
}
void lower_size(NodeContext& n) { n.emit(Op::kSizeOf, ShapeOfAttrs(), {n.in(0)}); }

void lower_constant_of_shape(NodeContext& n) {
  auto value = n.tensor("value");
  if (!n.ok()) return;
  Tensor v = value ? *value : Tensor(DType::kF32, Shape{1});
  if (v.elements() != 1) return n.fail("value has ", v.elements(), " elements, one expected");
  n.emit(Op::kFill, {n.in(0), n.constant(v.reshaped(Shape{}))});
}

void lower_constant(NodeContext& n) {
  for (const char* name : {"value", "sparse_value"}) {
    if (!n.has_attr(name)) continue;
    auto t = n.tensor(name);
    return n.bind(0, t ? n.constant(std::move(*t)) : kNoValue);
  }
  const auto list = [](const auto& v) { return Shape{static_cast<int64_t>(v.size())}; };
  if (n.has_attr("value_float")) {
    const float v = static_cast<float>(n.f("value_float"));
    n.bind(0, n.constant(Tensor::from<float>(DType::kF32, Shape{}, {&v, 1})));
  } else if (n.has_attr("value_floats")) {
    const auto v = n.floats("value_floats");
    n.bind(0, n.constant(Tensor::from<float>(DType::kF32, list(v), v)));
  } else if (n.has_attr("value_int")) {
    const int64_t v = n.i("value_int");
    n.bind(0, n.constant(Tensor::from<int64_t>(DType::kI64, Shape{}, {&v, 1})));
  } else if (n.has_attr("value_ints")) {
    const auto v = n.ints("value_ints");
    n.bind(0, n.constant(Tensor::from<int64_t>(DType::kI64, list(v), v)));
  } else if (n.has_attr("value_string")) {
    const std::string v = n.s("value_string");
    n.bind(0, n.constant(Tensor::from<std::string>(DType::kString, Shape{}, {&v, 1})));
  } else if (n.has_attr("value_strings")) {
    const auto v = n.strings("value_strings");
    n.bind(0, n.constant(Tensor::from<std::string>(DType::kString, list(v), v)));
  } else {
    n.fail("no value is given");
  }
}

void lower_identity(NodeContext& n) { n.bind(0, n.in(0)); }

void lower_depth_space(NodeContext& n) {
  BlockAttrs a;
  a.block = n.i("blocksize", 0);
  if (a.block < 1) return n.fail("blocksize is ", a.block);
  a.to_depth = n.op() == "SpaceToDepth";
  const std::string mode = n.s("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") return n.fail("mode is '", mode, "', DCR or CRD expected");
  a.channel_first_order = mode == "CRD";
  n.emit(Op::kDepthSpace, a, {n.in(0)});
}

void lower_eye_like(NodeContext& n) {
  FillAttrs a;
  const ValueId x = n.in(0);
  a.to = n.has_attr("dtype") ? dtype_of(n.i("dtype")) : n.dtype(x);
  if (a.to == DType::kInvalid) return n.fail("dtype names no element type");
  a.offset = n.i("k", 0);
  n.emit(Op::kEye, a, {x});
}

void lower_reverse_sequence(NodeContext& n) {
  DiagonalAttrs a;
  a.axis1 = n.i("time_axis", 0);
  a.axis2 = n.i("batch_axis", 1);
  n.emit(Op::kReverseSequence, a, {n.in(0), n.in(1)});
}

void lower_center_crop_pad(NodeContext& n) {
  const ValueId x = n.in(0);
  std::vector<int64_t> axes = n.ints("axes");
  if (!n.has_attr("axes")) {
    const int rank = n.rank_or_fail(x);
    for (int k = 0; k < rank; ++k) axes.push_back(k);
  }
  n.emit(Op::kCenterCropPad, {x, n.in(1), n.i64(axes)});
}

void lower_crop(NodeContext& n) {
  // Experimental operator of early exporters: border left, top, right, bottom of NCHW.
  const auto border = n.ints("border"), scale = n.ints("scale");
  if (border.size() != 4) return n.fail("border has ", border.size(), " entries, 4 expected");
  const bool sized = scale.size() == 2;
  const std::vector<int64_t> ends =
      sized ? std::vector<int64_t>{border[1] + scale[0], border[0] + scale[1]}
            : std::vector<int64_t>{border[3] ? -border[3] : INT64_MAX, border[2] ? -border[2] : INT64_MAX};
  n.emit(Op::kSlice, {n.in(0), n.i64({border[1], border[0]}), n.i64(ends), n.i64({2, 3})});
}

constexpr OpEntry kOps[] = {
    {"Reshape", 1, lower_reshape},
    {"Squeeze", 1, lower_squeeze},
    {"Unsqueeze", 1, lower_unsqueeze},
    {"Flatten", 1, lower_flatten},
    {"Transpose", 1, lower_transpose},
    {"Expand", 8, lower_expand},
    {"Tile", 1, lower_tile},
    {"Slice", 1, lower_slice},
    {"DynamicSlice", 1, lower_dynamic_slice},
    {"Concat", 1, lower_concat},
    {"Split", 1, lower_split},
    {"Shape", 1, lower_shape_of},
    {"Size", 1, lower_size},
    {"ConstantOfShape", 9, lower_constant_of_shape},
    {"Constant", 1, lower_constant},
    {"Identity", 1, lower_identity},
    {"DepthToSpace", 1, lower_depth_space},
    {"SpaceToDepth", 1, lower_depth_space},
    {"EyeLike", 9, lower_eye_like},
    {"ReverseSequence", 10, lower_reverse_sequence},
    {"CenterCropPad", 18, lower_center_crop_pad},
    {"Crop", 1, lower_crop},
    {"Pad", 1, lower_pad},
    {"Range", 11, lower_range},
    {"Trilu", 14, lower_trilu},
};

}  // namespace

void lower_pad(NodeContext& n) {
  PadAttrs a;
  const std::string mode = n.s("mode", "constant");
  if (mode == "constant")
    a.mode = PadAttrs::Mode::kConstant;
  else if (mode == "reflect")
    a.mode = PadAttrs::Mode::kReflect;
  else if (mode == "edge")
    a.mode = PadAttrs::Mode::kEdge;
  else if (mode == "wrap")
    a.mode = PadAttrs::Mode::kWrap;
  else
    return n.fail("mode is '", mode, "'");
  const ValueId x = n.in(0);
  const bool microsoft = n.proto().domain == "com.microsoft";
  if (n.version() >= 11 || microsoft) {
    std::vector<ValueId> in{x, n.in(1)};
    if (n.has(2) || n.has(3)) in.push_back(n.opt(2));
    if (n.has(3)) in.push_back(n.opt(3));
    return n.emit(Op::kPad, a, in);
  }
  const auto pads = n.ints(n.version() == 1 && n.has_attr("paddings") ? "paddings" : "pads");
  n.emit(Op::kPad, a, {x, n.i64(pads), n.scalar_like(x, n.f("value", 0))});
}

void lower_range(NodeContext& n) {
  const ValueId start = n.in(0);
  const ValueId delta = n.has(2) ? n.in(2) : n.scalar_like(start, 1);
  n.emit(Op::kRange, {start, n.in(1), delta});
}

void lower_trilu(NodeContext& n) {
  TriangleAttrs a;
  a.upper = n.flag("upper", true);
  n.emit(Op::kTriangle, a, n.operands(1, 2));
}

std::span<const OpEntry> shape_ops() { return kOps; }

}  // namespace smelt::onnx
