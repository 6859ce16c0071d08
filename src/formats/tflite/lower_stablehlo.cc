// STABLEHLO_* operators: StableHLO kept inside a TFLite file.
#include <algorithm>

#include "formats/tflite/lowering.h"
#include "ops/control/control.h"
#include "ops/conv/conv.h"
#include "ops/elementwise/elementwise.h"
#include "ops/matmul/matmul.h"
#include "ops/reduce/reduce.h"
#include "ops/shape/shape.h"

namespace smelt::tflite {
namespace {

using Code = tfl::BuiltinOperator;
using Ints = std::vector<int64_t>;

Ints ints(const flatbuffers::Vector<int64_t>* v) { return v ? Ints(v->begin(), v->end()) : Ints(); }

const AttrsPtr& none() {
  static const AttrsPtr attrs = make_attrs<NoAttrs>();
  return attrs;
}

/// The shape that the file gives for output 0; StableHLO's shapes are always written down.
Result<Ints> output_shape(Lowering& l) {
  const Shape& s = l.out_slot(0).shape;
  if (!s.is_static()) return Unsupported("an output of shape ", s.str());
  return Ints(s.begin(), s.end());
}

Result<int> rank_of(Lowering& l, int input) {
  if (!l.type(input).ranked) return Unsupported("input ", input, " of unknown rank");
  return l.type(input).shape.rank();
}

Status expect_count(const Ints& v, size_t n, const char* what) {
  if (v.size() != n) return InvalidModel(v.size(), " ", what, ", ", n, " expected");
  return Ok();
}

/// A permutation of `rank` dimensions.
Status expect_permutation(const Ints& v, int rank, const char* what) {
  Ints sorted = v;
  std::sort(sorted.begin(), sorted.end());
  bool good = static_cast<int>(v.size()) == rank;
  for (size_t i = 0; good && i < sorted.size(); ++i) good = sorted[i] == static_cast<int64_t>(i);
  if (!good) return InvalidModel(what, " is no permutation of ", rank, " dimensions");
  return Ok();
}

Result<ValueId> transpose(Lowering& l, ValueId x, const Ints& perm) {
  return l.b().op(Op::kTranspose, make_attrs<TransposeAttrs>(perm), {x});
}

/// Elements with `gaps[d]` copies of `value` between them along each dimension, then a border (negative: cut off).
Result<ValueId> pad(Lowering& l, ValueId x, ValueId value, const Ints& low, const Ints& high, const Ints& gaps) {
  Builder& b = l.b();
  for (size_t d = 0; d < gaps.size(); ++d) {
    if (gaps[d] < 0) return InvalidModel("interior padding ", gaps[d]);
    if (gaps[d] == 0) continue;
    const ValueType t = b.type(x);
    if (!t.ranked || !t.shape.is_static()) return Unsupported("interior padding of shape ", t.shape.str());
    const auto axis = static_cast<int>(d);
    const int64_t extent = t.shape[axis], wide = gaps[d] + 1;
    if (extent > (int64_t{1} << 31) / wide) return LimitReached("interior padding ", gaps[d]);
    Ints pads(static_cast<size_t>(t.shape.rank() + 1) * 2, 0), flat(t.shape.begin(), t.shape.end());
    pads[(d + 1) * 2 + 1] = gaps[d];
    flat[d] = extent * wide;
    PadAttrs a;
    a.pairs = true;
    SMELT_ASSIGN(x, b.op(Op::kUnsqueeze, none(), {x, b.i64({axis + 1})}));
    const ValueId rows = b.constant(
        "", Tensor::from<int64_t>(DType::kI64, Shape{t.shape.rank() + 1, 2}, std::span<const int64_t>(pads)));
    SMELT_ASSIGN(x, b.op(Op::kPad, make_attrs<PadAttrs>(a), {x, rows, value}));
    SMELT_ASSIGN(x, b.op(Op::kReshape, make_attrs<ReshapeAttrs>(), {x, b.i64(flat)}));
    const int64_t end = extent == 0 ? 0 : extent * wide - gaps[d];
    SMELT_ASSIGN(x, b.op(Op::kSlice, none(), {x, b.i64({0}), b.i64({end}), b.i64({axis})}));
  }
  Ints border;
  bool any = false;
  for (size_t d = 0; d < low.size(); ++d) {
    border.push_back(low[d]);
    border.push_back(high[d]);
    any = any || low[d] != 0 || high[d] != 0;
  }
  if (!any) return x;
  PadAttrs a;
  a.pairs = true;
  const ValueId rows = b.constant("", Tensor::from<int64_t>(DType::kI64, Shape{static_cast<int64_t>(low.size()), 2},
                                                            std::span<const int64_t>(border)));
  return b.op(Op::kPad, make_attrs<PadAttrs>(a), {x, rows, value});
}

/// What a body of one operator on two scalars does.
struct Combiner {
  Binary binary;
  Reduction reduction;
};
Result<Combiner> combiner_of(Lowering& l, int subgraph) {
  if (subgraph < 0 || subgraph >= l.reader().subgraphs()) return InvalidModel("the body is subgraph ", subgraph);
  const tfl::SubGraph* s = l.reader().model().subgraphs()->Get(static_cast<uint32_t>(subgraph));
  if (!s->operators() || s->operators()->size() != 1)
    return Unsupported("a body of ", s->operators() ? s->operators()->size() : 0, " operators, 1 expected");
  const int code = operator_number(l.reader().model(), *s->operators()->Get(0));
  switch (static_cast<Code>(code)) {
    case Code::ADD:
    case Code::STABLEHLO_ADD:
      return Combiner{Binary::kAdd, Reduction::kSum};
    case Code::MUL:
    case Code::STABLEHLO_MULTIPLY:
      return Combiner{Binary::kMul, Reduction::kProd};
    case Code::MAXIMUM:
    case Code::STABLEHLO_MAXIMUM:
      return Combiner{Binary::kMax, Reduction::kMax};
    case Code::MINIMUM:
    case Code::STABLEHLO_MINIMUM:
      return Combiner{Binary::kMin, Reduction::kMin};
    case Code::LOGICAL_AND:
    case Code::STABLEHLO_AND:
      return Combiner{Binary::kLogicalAnd, Reduction::kAll};
    case Code::LOGICAL_OR:
    case Code::STABLEHLO_OR:
      return Combiner{Binary::kLogicalOr, Reduction::kAny};
    default:
      return Unsupported("a body of operator ", code);
  }
}

Result<Binary> binary_of(Lowering& l) {
  const bool logical = l.type(0).dtype == DType::kBool;
  switch (l.code()) {
    case Code::STABLEHLO_ADD:
      return logical ? Binary::kLogicalOr : Binary::kAdd;
    case Code::STABLEHLO_SUBTRACT:
      return Binary::kSub;
    case Code::STABLEHLO_MULTIPLY:
      return logical ? Binary::kLogicalAnd : Binary::kMul;
    case Code::STABLEHLO_DIVIDE:
      return Binary::kDiv;
    case Code::STABLEHLO_MAXIMUM:
      return logical ? Binary::kLogicalOr : Binary::kMax;
    case Code::STABLEHLO_MINIMUM:
      return logical ? Binary::kLogicalAnd : Binary::kMin;
    case Code::STABLEHLO_POWER:
      return Binary::kPow;
    case Code::STABLEHLO_REMAINDER:
      return Binary::kFmod;
    case Code::STABLEHLO_AND:
      return logical ? Binary::kLogicalAnd : Binary::kBitAnd;
    case Code::STABLEHLO_OR:
      return logical ? Binary::kLogicalOr : Binary::kBitOr;
    case Code::STABLEHLO_SHIFT_LEFT:
      return Binary::kShiftLeft;
    default:
      return Internal("no binary function");
  }
}

Result<Unary> unary_of(Code code) {
  switch (code) {
    case Code::STABLEHLO_LOGISTIC:
      return Unary::kSigmoid;
    case Code::STABLEHLO_ABS:
      return Unary::kAbs;
    case Code::STABLEHLO_COSINE:
      return Unary::kCos;
    case Code::STABLEHLO_EXPONENTIAL:
      return Unary::kExp;
    case Code::STABLEHLO_FLOOR:
      return Unary::kFloor;
    case Code::STABLEHLO_LOG:
      return Unary::kLog;
    case Code::STABLEHLO_NEGATE:
      return Unary::kNeg;
    case Code::STABLEHLO_RSQRT:
      return Unary::kRsqrt;
    case Code::STABLEHLO_TANH:
      return Unary::kTanh;
    default:
      return Internal("no unary function");
  }
}

}  // namespace

Status lower_hlo_binary(Lowering& l) {
  SMELT_ASSIGN(const Binary fn, binary_of(l));
  BinaryAttrs a(fn);
  a.rounding = Rounding::kFixedDouble;
  return l.emit(Op::kBinary, make_attrs<BinaryAttrs>(a), {l.in(0), l.in(1)});
}

Status lower_hlo_unary(Lowering& l) {
  SMELT_ASSIGN(const Unary fn, unary_of(l.code()));
  return l.emit(Op::kUnary, make_attrs<UnaryAttrs>(fn), {l.in(0)});
}

/// The real cube root: that of the magnitude with the sign put back.
Status lower_hlo_cbrt(Lowering& l) {
  SMELT_ASSIGN(const ValueId size, l.b().op(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kAbs), {l.in(0)}));
  const ValueId third = l.b().scalar(l.type(0).dtype, 1.0 / 3);
  SMELT_ASSIGN(const ValueId root, l.b().op(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kPow), {size, third}));
  return l.emit(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kCopySign), {root, l.in(0)});
}

Status lower_hlo_compare(Lowering& l) {
  const auto* o = l.options<tfl::StablehloCompareOptions>();
  if (!o) return InvalidModel("StablehloCompareOptions are missing");
  static constexpr Binary kFns[] = {Binary::kEqual,   Binary::kNotEqual,  Binary::kGreaterEqual,
                                    Binary::kGreater, Binary::kLessEqual, Binary::kLess};
  const auto direction = static_cast<size_t>(o->comparison_direction());
  if (direction >= std::size(kFns)) return InvalidModel("comparison direction ", direction);
  return l.emit(Op::kBinary, make_attrs<BinaryAttrs>(kFns[direction]), {l.in(0), l.in(1)});
}

Status lower_hlo_select(Lowering& l) { return l.emit(Op::kWhere, none(), l.ins()); }
Status lower_hlo_clamp(Lowering& l) { return l.emit(Op::kClamp, none(), {l.in(1), l.in(0), l.in(2)}); }

Status lower_hlo_reshape(Lowering& l) {
  SMELT_ASSIGN(const Ints shape, output_shape(l));
  return l.emit(Op::kReshape, make_attrs<ReshapeAttrs>(), {l.in(0), l.b().i64(shape)});
}

Status lower_hlo_concatenate(Lowering& l) {
  const auto* o = l.options<tfl::StablehloConcatenateOptions>();
  return l.emit(Op::kConcat, make_attrs<AxisAttrs>(o ? o->dimension() : 0), l.ins());
}

Status lower_hlo_broadcast(Lowering& l) {
  const auto* o = l.options<tfl::StablehloBroadcastInDimOptions>();
  const Ints dims = o ? ints(o->broadcast_dimensions()) : Ints();
  SMELT_ASSIGN(const Ints shape, output_shape(l));
  SMELT_ASSIGN(const int rank, rank_of(l, 0));
  SMELT_TRY(expect_count(dims, static_cast<size_t>(rank), "broadcast dimensions"));
  Ints wide(shape.size(), 1);
  for (int i = 0; i < rank; ++i) {
    const int64_t d = dims[static_cast<size_t>(i)];
    if (d < 0 || d >= static_cast<int64_t>(shape.size()) || (i > 0 && d <= dims[static_cast<size_t>(i) - 1]))
      return Unsupported("broadcast dimension ", d, " in position ", i);
    wide[static_cast<size_t>(d)] = l.type(0).shape[i];
  }
  SMELT_ASSIGN(const ValueId x, l.b().op(Op::kReshape, make_attrs<ReshapeAttrs>(), {l.in(0), l.b().i64(wide)}));
  return l.emit(Op::kExpand, none(), {x, l.b().i64(shape)});
}

Status lower_hlo_slice(Lowering& l) {
  const auto* o = l.options<tfl::StablehloSliceOptions>();
  if (!o) return InvalidModel("StablehloSliceOptions are missing");
  SMELT_ASSIGN(const int rank, rank_of(l, 0));
  const Ints begin = ints(o->start_indices()), end = ints(o->limit_indices()), step = ints(o->strides());
  for (const Ints* v : {&begin, &end, &step}) SMELT_TRY(expect_count(*v, static_cast<size_t>(rank), "slice bounds"));
  Ints axes;
  for (int i = 0; i < rank; ++i) axes.push_back(i);
  return l.emit(Op::kSlice, none(), {l.in(0), l.b().i64(begin), l.b().i64(end), l.b().i64(axes), l.b().i64(step)});
}

Status lower_hlo_transpose(Lowering& l) {
  const auto* o = l.options<tfl::StablehloTransposeOptions>();
  SMELT_ASSIGN(const int rank, rank_of(l, 0));
  const Ints perm = o ? ints(o->permutation()) : Ints();
  SMELT_TRY(expect_permutation(perm, rank, "the permutation"));
  return l.emit(Op::kTranspose, make_attrs<TransposeAttrs>(perm), {l.in(0)});
}

Status lower_hlo_convert(Lowering& l) {
  return l.emit_plain(Op::kCast, make_attrs<CastAttrs>(l.out_type(0).dtype), {l.in(0)});
}

Status lower_hlo_iota(Lowering& l) {
  const auto* o = l.options<tfl::StablehloIotaOptions>();
  SMELT_ASSIGN(const Ints shape, output_shape(l));
  const int64_t axis = o ? o->iota_dimension() : 0;
  if (axis < 0 || axis >= static_cast<int64_t>(shape.size())) return InvalidModel("iota dimension ", axis);
  Ints narrow(shape.size(), 1);
  narrow[static_cast<size_t>(axis)] = shape[static_cast<size_t>(axis)];
  Builder& b = l.b();
  SMELT_ASSIGN(ValueId x, b.op(Op::kRange, none(),
                               {b.i64_scalar(0), b.i64_scalar(shape[static_cast<size_t>(axis)]), b.i64_scalar(1)}));
  SMELT_ASSIGN(x, b.op(Op::kCast, make_attrs<CastAttrs>(l.out_type(0).dtype), {x}));
  SMELT_ASSIGN(x, b.op(Op::kReshape, make_attrs<ReshapeAttrs>(), {x, b.i64(narrow)}));
  return l.emit(Op::kExpand, none(), {x, b.i64(shape)});
}

Status lower_hlo_pad(Lowering& l) {
  const auto* o = l.options<tfl::StablehloPadOptions>();
  if (!o) return InvalidModel("StablehloPadOptions are missing");
  SMELT_ASSIGN(const int rank, rank_of(l, 0));
  const Ints low = ints(o->edge_padding_low()), high = ints(o->edge_padding_high()), gaps = ints(o->interior_padding());
  for (const Ints* v : {&low, &high, &gaps}) SMELT_TRY(expect_count(*v, static_cast<size_t>(rank), "paddings"));
  SMELT_ASSIGN(const ValueId y, pad(l, l.in(0), l.in(1), low, high, gaps));
  return l.alias(0, y);
}

/// Start indices are scalars, clamped so that the slice lies inside.
Status lower_hlo_dynamic_slice(Lowering& l) {
  const auto* o = l.options<tfl::StablehloDynamicSliceOptions>();
  const Ints sizes = o ? ints(o->slice_sizes()) : Ints();
  SMELT_ASSIGN(const int rank, rank_of(l, 0));
  SMELT_TRY(expect_count(sizes, static_cast<size_t>(rank), "slice sizes"));
  if (l.inputs() != rank + 1) return InvalidModel(l.inputs(), " inputs for rank ", rank);
  if (!l.type(0).shape.is_static()) return Unsupported("a slice of shape ", l.type(0).shape.str());
  if (rank == 0) return l.alias(0, l.in(0));
  Builder& b = l.b();
  Ints last;
  for (int i = 0; i < rank; ++i) {
    last.push_back(l.type(0).shape[i] - sizes[static_cast<size_t>(i)]);
    if (last.back() < 0 || sizes[static_cast<size_t>(i)] < 0)
      return InvalidModel("a slice of ", sizes[static_cast<size_t>(i)]);
  }
  std::vector<ValueId> starts(l.ins().begin() + 1, l.ins().end());
  SMELT_ASSIGN(ValueId begin, b.op(Op::kStack, make_attrs<AxisAttrs>(0), starts));
  SMELT_ASSIGN(begin, b.op(Op::kCast, make_attrs<CastAttrs>(DType::kI64), {begin}));
  SMELT_ASSIGN(begin, b.op(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kMin), {begin, b.i64(last)}));
  SMELT_ASSIGN(begin, b.op(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kMax), {begin, b.i64_scalar(0)}));
  return l.emit(Op::kSliceSize, none(), {l.in(0), begin, b.i64(sizes)});
}

Status lower_hlo_dynamic_update_slice(Lowering& l) {
  SMELT_ASSIGN(const int rank, rank_of(l, 0));
  if (l.inputs() != rank + 2) return InvalidModel(l.inputs(), " inputs for rank ", rank);
  if (rank == 0) return l.alias(0, l.in(1));
  std::vector<ValueId> starts(l.ins().begin() + 2, l.ins().end());
  SMELT_ASSIGN(const ValueId begin, l.b().op(Op::kStack, make_attrs<AxisAttrs>(0), starts));
  return l.emit(Op::kDynamicUpdateSlice, none(), {l.in(0), l.in(1), begin});
}

/// Batching, contracting and free dimensions named by letters: an Einstein sum.
Status lower_hlo_dot_general(Lowering& l) {
  const auto* o = l.options<tfl::StablehloDotGeneralOptions>();
  if (!o) return InvalidModel("StablehloDotGeneralOptions are missing");
  const Ints lb = ints(o->lhs_batching_dimensions()), rb = ints(o->rhs_batching_dimensions()),
             lc = ints(o->lhs_contracting_dimensions()), rc = ints(o->rhs_contracting_dimensions());
  if (lb.size() != rb.size() || lc.size() != rc.size()) return InvalidModel("dimension lists of different lengths");
  SMELT_ASSIGN(const int left_rank, rank_of(l, 0));
  SMELT_ASSIGN(const int right_rank, rank_of(l, 1));
  if (left_rank + right_rank > 26) return Unsupported("operands of rank ", left_rank, " and ", right_rank);
  std::string left(static_cast<size_t>(left_rank), ' '), right(static_cast<size_t>(right_rank), ' '), out;
  char next = 'a';
  const auto pair = [&](const Ints& a, const Ints& b, bool kept) -> Status {
    for (size_t i = 0; i < a.size(); ++i) {
      if (a[i] < 0 || a[i] >= left_rank || b[i] < 0 || b[i] >= right_rank || left[static_cast<size_t>(a[i])] != ' ' ||
          right[static_cast<size_t>(b[i])] != ' ')
        return InvalidModel("dimensions ", a[i], " and ", b[i], " of ranks ", left_rank, " and ", right_rank);
      left[static_cast<size_t>(a[i])] = right[static_cast<size_t>(b[i])] = next;
      if (kept) out += next;
      ++next;
    }
    return Ok();
  };
  SMELT_TRY(pair(lb, rb, true));
  SMELT_TRY(pair(lc, rc, false));
  for (std::string* side : {&left, &right})
    for (char& c : *side)
      if (c == ' ') out += c = next++;
  EinsumAttrs a;
  a.equation = left + "," + right + "->" + out;
  return l.emit(Op::kEinsum, make_attrs<EinsumAttrs>(a), {l.in(0), l.in(1)});
}

Status lower_hlo_reduce(Lowering& l) {
  const auto* o = l.options<tfl::StablehloReduceOptions>();
  if (!o) return InvalidModel("StablehloReduceOptions are missing");
  if (l.inputs() != 2 || l.outputs() != 1) return Unsupported("a reduction of several operands at once");
  SMELT_ASSIGN(const Combiner c, combiner_of(l, o->body_subgraph_index()));
  ReduceAttrs a;
  a.fn = c.reduction;
  a.noop_with_empty_axes = true;
  SMELT_ASSIGN(const ValueId y,
               l.b().op(Op::kReduce, make_attrs<ReduceAttrs>(a), {l.in(0), l.b().i64(ints(o->dimensions()))}));
  return l.emit(Op::kBinary, make_attrs<BinaryAttrs>(c.binary), {y, l.in(1)});
}

/// Windows along every dimension as further dimensions, reduced together.
Status lower_hlo_reduce_window(Lowering& l) {
  const auto* o = l.options<tfl::StablehloReduceWindowOptions>();
  if (!o) return InvalidModel("StablehloReduceWindowOptions are missing");
  if (l.inputs() != 2 || l.outputs() != 1) return Unsupported("a reduction of several operands at once");
  SMELT_ASSIGN(const Combiner c, combiner_of(l, o->body_subgraph_index()));
  SMELT_ASSIGN(const int rank, rank_of(l, 0));
  const auto n = static_cast<size_t>(rank);
  const auto given = [&](const flatbuffers::Vector<int64_t>* v, size_t count, int64_t otherwise) {
    Ints out = ints(v);
    return out.empty() ? Ints(count, otherwise) : out;
  };
  const Ints window = given(o->window_dimensions(), n, 1), strides = given(o->window_strides(), n, 1),
             base = given(o->base_dilations(), n, 1), dilations = given(o->window_dilations(), n, 1),
             pads = given(o->padding(), 2 * n, 0);
  for (const Ints* v : {&window, &strides, &base, &dilations}) {
    SMELT_TRY(expect_count(*v, n, "window entries"));
    for (const int64_t e : *v)
      if (e < 1 || e > 1'000'000) return InvalidModel("a window entry of ", e);
  }
  SMELT_TRY(expect_count(pads, 2 * n, "paddings"));
  Ints low, high, gaps, axes;
  for (size_t i = 0; i < n; ++i) {
    low.push_back(pads[2 * i]);
    high.push_back(pads[2 * i + 1]);
    gaps.push_back(base[i] - 1);
  }
  SMELT_ASSIGN(ValueId x, pad(l, l.in(0), l.in(1), low, high, gaps));
  int extra = 0;
  for (int i = 0; i < rank; ++i) {
    const auto d = static_cast<size_t>(i);
    if (window[d] == 1 && strides[d] == 1) continue;
    UnfoldAttrs a;
    a.axis = i;
    a.size = (window[d] - 1) * dilations[d] + 1;
    a.step = strides[d];
    SMELT_ASSIGN(x, l.b().op(Op::kUnfold, make_attrs<UnfoldAttrs>(a), {x}));
    const int64_t last = rank + extra++;
    axes.push_back(last);
    if (dilations[d] > 1) {
      SMELT_ASSIGN(x, l.b().op(Op::kSlice, none(),
                               {x, l.b().i64({0}), l.b().i64({a.size}), l.b().i64({last}), l.b().i64({dilations[d]})}));
    }
  }
  ReduceAttrs a;
  a.fn = c.reduction;
  a.noop_with_empty_axes = true;
  SMELT_ASSIGN(const ValueId y, l.b().op(Op::kReduce, make_attrs<ReduceAttrs>(a), {x, l.b().i64(axes)}));
  return l.emit(Op::kBinary, make_attrs<BinaryAttrs>(c.binary), {y, l.in(1)});
}

/// Any order of dimensions: transposed to channels last, and back.
Status lower_hlo_convolution(Lowering& l) {
  const auto* o = l.options<tfl::StablehloConvolutionOptions>();
  if (!o) return InvalidModel("StablehloConvolutionOptions are missing");
  SMELT_ASSIGN(const int rank, rank_of(l, 0));
  const Ints in = ints(o->input_spatial_dimensions()), kernel = ints(o->kernel_spatial_dimensions()),
             out = ints(o->output_spatial_dimensions());
  const size_t n = in.size();
  if (rank < 3 || n + 2 != static_cast<size_t>(rank)) return Unsupported("a convolution of rank ", rank);
  const auto order = [](int64_t first, const Ints& spatial, int64_t last) {
    Ints v{first};
    v.insert(v.end(), spatial.begin(), spatial.end());
    v.push_back(last);
    return v;
  };
  const Ints x_perm = order(o->input_batch_dimension(), in, o->input_feature_dimension());
  const Ints w_perm = order(o->kernel_output_feature_dimension(), kernel, o->kernel_input_feature_dimension());
  const Ints y_perm = order(o->output_batch_dimension(), out, o->output_feature_dimension());
  SMELT_TRY(expect_permutation(x_perm, rank, "the input's order"));
  SMELT_TRY(expect_permutation(w_perm, rank, "the kernel's order"));
  SMELT_TRY(expect_permutation(y_perm, rank, "the output's order"));
  const auto list = [&](const flatbuffers::Vector<int64_t>* v, size_t count, int64_t otherwise) {
    Ints values = ints(v);
    return values.empty() ? Ints(count, otherwise) : values;
  };
  ConvAttrs a;
  a.strides = list(o->window_strides(), n, 1);
  a.dilations = list(o->rhs_dilation(), n, 1);
  const Ints pads = list(o->padding(), 2 * n, 0), base = list(o->lhs_dilation(), n, 1);
  SMELT_TRY(expect_count(a.strides, n, "strides"));
  SMELT_TRY(expect_count(a.dilations, n, "dilations"));
  SMELT_TRY(expect_count(base, n, "input dilations"));
  SMELT_TRY(expect_count(pads, 2 * n, "paddings"));
  if (o->batch_group_count() > 1) return Unsupported("batch_group_count ", o->batch_group_count());
  if (o->window_reversal())
    for (const uint8_t r : *o->window_reversal())
      if (r) return Unsupported("a reversed window");
  Ints low{0}, high{0}, gaps{0};
  for (size_t i = 0; i < n; ++i) {
    if (a.strides[i] < 1 || a.dilations[i] < 1 || base[i] < 1) return InvalidModel("a stride or dilation below 1");
    low.push_back(pads[2 * i]);
    high.push_back(pads[2 * i + 1]);
    gaps.push_back(base[i] - 1);
  }
  low.push_back(0), high.push_back(0), gaps.push_back(0);
  a.groups = std::max<int64_t>(1, o->feature_group_count());
  a.layout = Layout::kChannelsLast;
  a.filter = FilterLayout::kOSI;
  a.pads = Ints(2 * n, 0);
  SMELT_ASSIGN(ValueId x, transpose(l, l.in(0), x_perm));
  SMELT_ASSIGN(const ValueId w, transpose(l, l.in(1), w_perm));
  SMELT_ASSIGN(x, pad(l, x, l.b().scalar(l.type(0).dtype, 0), low, high, gaps));
  SMELT_ASSIGN(const ValueId y, l.b().op(Op::kConv, make_attrs<ConvAttrs>(std::move(a)), {x, w}));
  Ints back(static_cast<size_t>(rank));
  for (size_t i = 0; i < back.size(); ++i) back[static_cast<size_t>(y_perm[i])] = static_cast<int64_t>(i);
  return l.emit(Op::kTranspose, make_attrs<TransposeAttrs>(back), {y});
}

Status lower_hlo_while(Lowering& l) {
  const auto* o = l.options<tfl::StablehloWhileOptions>();
  if (!o) return InvalidModel("StablehloWhileOptions are missing");
  return emit_while(l, o->cond_subgraph_index(), o->body_subgraph_index());
}

}  // namespace smelt::tflite
