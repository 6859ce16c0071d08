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

/// The shape that the file gives for output 0; StableHLO's shapes are always written down.
Result<Ints> output_shape(OperatorContext& c) {
  const Shape& s = c.out_slot(0).shape;
  if (!s.is_static()) return Unsupported("an output of shape ", s.str());
  return Ints(s.begin(), s.end());
}

Result<int> rank_of(OperatorContext& c, int input) {
  if (!c.in_type(input).ranked) return Unsupported("input ", input, " of unknown rank");
  return c.in_type(input).shape.rank();
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

/// Elements with `gaps[d]` copies of `value` between them along each dimension, then a border (negative: cut off).
ValueId pad(OperatorContext& c, ValueId x, ValueId value, const Ints& low, const Ints& high, const Ints& gaps) {
  for (size_t d = 0; d < gaps.size(); ++d) {
    if (gaps[d] < 0) c.fail("interior padding ", gaps[d]);
    if (gaps[d] > 0) x = insert_gaps(c, x, value, static_cast<int>(d), gaps[d]);
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
  const auto rank = static_cast<int64_t>(low.size());
  return c.add(Op::kPad, a, {x, c.constant(Tensor::from<int64_t>(DType::kI64, Shape{rank, 2}, border)), value});
}

/// What a body of one operator on two scalars does.
struct Combiner {
  Binary binary;
  Reduction reduction;
};
Result<Combiner> combiner_of(OperatorContext& c, int subgraph) {
  if (subgraph < 0 || subgraph >= c.reader().subgraphs()) return InvalidModel("the body is subgraph ", subgraph);
  const tfl::SubGraph* s = c.reader().model().subgraphs()->Get(static_cast<uint32_t>(subgraph));
  if (!s->operators() || s->operators()->size() != 1)
    return Unsupported("a body of ", s->operators() ? s->operators()->size() : 0, " operators, 1 expected");
  const int code = operator_number(c.reader().model(), *s->operators()->Get(0));
  using enum tfl::BuiltinOperator;
  static constexpr std::pair<Code, Combiner> kCombiners[] = {{ADD, {Binary::kAdd, Reduction::kSum}},
                                                             {STABLEHLO_ADD, {Binary::kAdd, Reduction::kSum}},
                                                             {MUL, {Binary::kMul, Reduction::kProd}},
                                                             {STABLEHLO_MULTIPLY, {Binary::kMul, Reduction::kProd}},
                                                             {MAXIMUM, {Binary::kMax, Reduction::kMax}},
                                                             {STABLEHLO_MAXIMUM, {Binary::kMax, Reduction::kMax}},
                                                             {MINIMUM, {Binary::kMin, Reduction::kMin}},
                                                             {STABLEHLO_MINIMUM, {Binary::kMin, Reduction::kMin}},
                                                             {LOGICAL_AND, {Binary::kLogicalAnd, Reduction::kAll}},
                                                             {STABLEHLO_AND, {Binary::kLogicalAnd, Reduction::kAll}},
                                                             {LOGICAL_OR, {Binary::kLogicalOr, Reduction::kAny}},
                                                             {STABLEHLO_OR, {Binary::kLogicalOr, Reduction::kAny}}};
  for (const auto& [known, combiner] : kCombiners)
    if (static_cast<int>(known) == code) return combiner;
  return Unsupported("a body of operator ", code);
}

Result<Binary> binary_of(OperatorContext& c) {
  using enum tfl::BuiltinOperator;
  struct Functions {
    Code code;
    Binary fn, on_bool;
  };
  static constexpr Functions kFunctions[] = {{STABLEHLO_ADD, Binary::kAdd, Binary::kLogicalOr},
                                             {STABLEHLO_SUBTRACT, Binary::kSub, Binary::kSub},
                                             {STABLEHLO_MULTIPLY, Binary::kMul, Binary::kLogicalAnd},
                                             {STABLEHLO_DIVIDE, Binary::kDiv, Binary::kDiv},
                                             {STABLEHLO_MAXIMUM, Binary::kMax, Binary::kLogicalOr},
                                             {STABLEHLO_MINIMUM, Binary::kMin, Binary::kLogicalAnd},
                                             {STABLEHLO_POWER, Binary::kPow, Binary::kPow},
                                             {STABLEHLO_REMAINDER, Binary::kFmod, Binary::kFmod},
                                             {STABLEHLO_AND, Binary::kBitAnd, Binary::kLogicalAnd},
                                             {STABLEHLO_OR, Binary::kBitOr, Binary::kLogicalOr},
                                             {STABLEHLO_SHIFT_LEFT, Binary::kShiftLeft, Binary::kShiftLeft}};
  for (const Functions& f : kFunctions)
    if (f.code == c.code()) return c.in_type(0).dtype == DType::kBool ? f.on_bool : f.fn;
  return Internal("no binary function");
}

Result<Unary> unary_of(Code code) {
  using enum tfl::BuiltinOperator;
  static constexpr std::pair<Code, Unary> kFunctions[] = {
      {STABLEHLO_LOGISTIC, Unary::kSigmoid}, {STABLEHLO_ABS, Unary::kAbs},     {STABLEHLO_COSINE, Unary::kCos},
      {STABLEHLO_EXPONENTIAL, Unary::kExp},  {STABLEHLO_FLOOR, Unary::kFloor}, {STABLEHLO_LOG, Unary::kLog},
      {STABLEHLO_NEGATE, Unary::kNeg},       {STABLEHLO_RSQRT, Unary::kRsqrt}, {STABLEHLO_TANH, Unary::kTanh}};
  for (const auto& [known, fn] : kFunctions)
    if (known == code) return fn;
  return Internal("no unary function");
}

}  // namespace

Status lower_hlo_binary(OperatorContext& c) {
  SMELT_ASSIGN(const Binary fn, binary_of(c));
  BinaryAttrs a(fn);
  a.rounding = Rounding::kFixedDouble;
  return c.emit(Op::kBinary, a, {c.in(0), c.in(1)});
}

Status lower_hlo_unary(OperatorContext& c) {
  SMELT_ASSIGN(const Unary fn, unary_of(c.code()));
  return c.emit(Op::kUnary, UnaryAttrs(fn), {c.in(0)});
}

/// The real cube root: that of the magnitude with the sign put back.
Status lower_hlo_cbrt(OperatorContext& c) {
  const ValueId size = c.unary(Unary::kAbs, c.in(0));
  const ValueId third = c.scalar(c.in_type(0).dtype, 1.0 / 3);
  const ValueId root = c.binary(Binary::kPow, size, third);
  return c.emit(Op::kBinary, BinaryAttrs(Binary::kCopySign), {root, c.in(0)});
}

Status lower_hlo_compare(OperatorContext& c) {
  SMELT_ASSIGN(const auto* o, c.need_options<tfl::StablehloCompareOptions>());
  static constexpr Binary kFns[] = {Binary::kEqual,   Binary::kNotEqual,  Binary::kGreaterEqual,
                                    Binary::kGreater, Binary::kLessEqual, Binary::kLess};
  const auto direction = static_cast<size_t>(o->comparison_direction());
  if (direction >= std::size(kFns)) return InvalidModel("comparison direction ", direction);
  return c.emit(Op::kBinary, BinaryAttrs(kFns[direction]), {c.in(0), c.in(1)});
}

Status lower_hlo_select(OperatorContext& c) { return c.emit(Op::kWhere, c.ins()); }
Status lower_hlo_clamp(OperatorContext& c) { return c.emit(Op::kClamp, {c.in(1), c.in(0), c.in(2)}); }

Status lower_hlo_reshape(OperatorContext& c) {
  SMELT_ASSIGN(const Ints shape, output_shape(c));
  return c.emit(Op::kReshape, ReshapeAttrs(), {c.in(0), c.i64(shape)});
}

Status lower_hlo_concatenate(OperatorContext& c) {
  const auto* o = c.options<tfl::StablehloConcatenateOptions>();
  return c.emit(Op::kConcat, AxisAttrs(o ? o->dimension() : 0), c.ins());
}

Status lower_hlo_broadcast(OperatorContext& c) {
  const auto* o = c.options<tfl::StablehloBroadcastInDimOptions>();
  const Ints dims = o ? ints(o->broadcast_dimensions()) : Ints();
  SMELT_ASSIGN(const Ints shape, output_shape(c));
  SMELT_ASSIGN(const int rank, rank_of(c, 0));
  SMELT_TRY(expect_count(dims, static_cast<size_t>(rank), "broadcast dimensions"));
  Ints wide(shape.size(), 1);
  for (int i = 0; i < rank; ++i) {
    const int64_t d = dims[static_cast<size_t>(i)];
    if (d < 0 || d >= static_cast<int64_t>(shape.size()) || (i > 0 && d <= dims[static_cast<size_t>(i) - 1]))
      return Unsupported("broadcast dimension ", d, " in position ", i);
    wide[static_cast<size_t>(d)] = c.in_type(0).shape[i];
  }
  const ValueId x = c.reshape(c.in(0), wide);
  return c.emit(Op::kExpand, {x, c.i64(shape)});
}

Status lower_hlo_slice(OperatorContext& c) {
  SMELT_ASSIGN(const auto* o, c.need_options<tfl::StablehloSliceOptions>());
  SMELT_ASSIGN(const int rank, rank_of(c, 0));
  const Ints begin = ints(o->start_indices()), end = ints(o->limit_indices()), step = ints(o->strides());
  for (const Ints* v : {&begin, &end, &step}) SMELT_TRY(expect_count(*v, static_cast<size_t>(rank), "slice bounds"));
  Ints axes;
  for (int i = 0; i < rank; ++i) axes.push_back(i);
  return c.emit(Op::kSlice, {c.in(0), c.i64(begin), c.i64(end), c.i64(axes), c.i64(step)});
}

Status lower_hlo_transpose(OperatorContext& c) {
  const auto* o = c.options<tfl::StablehloTransposeOptions>();
  SMELT_ASSIGN(const int rank, rank_of(c, 0));
  const Ints perm = o ? ints(o->permutation()) : Ints();
  SMELT_TRY(expect_permutation(perm, rank, "the permutation"));
  return c.emit(Op::kTranspose, TransposeAttrs(perm), {c.in(0)});
}

Status lower_hlo_convert(OperatorContext& c) {
  return c.emit_unquantized(Op::kCast, CastAttrs(c.out_type(0).dtype), {c.in(0)});
}

Status lower_hlo_iota(OperatorContext& c) {
  const auto* o = c.options<tfl::StablehloIotaOptions>();
  SMELT_ASSIGN(const Ints shape, output_shape(c));
  const int64_t axis = o ? o->iota_dimension() : 0;
  if (axis < 0 || axis >= static_cast<int64_t>(shape.size())) return InvalidModel("iota dimension ", axis);
  Ints narrow(shape.size(), 1);
  narrow[static_cast<size_t>(axis)] = shape[static_cast<size_t>(axis)];
  ValueId x = c.range(c.scalar(DType::kI64, 0), c.scalar(DType::kI64, shape[static_cast<size_t>(axis)]),
                      c.scalar(DType::kI64, 1));
  x = c.add(Op::kCast, CastAttrs(c.out_type(0).dtype), {x});
  x = c.reshape(x, narrow);
  return c.emit(Op::kExpand, {x, c.i64(shape)});
}

Status lower_hlo_pad(OperatorContext& c) {
  SMELT_ASSIGN(const auto* o, c.need_options<tfl::StablehloPadOptions>());
  SMELT_ASSIGN(const int rank, rank_of(c, 0));
  const Ints low = ints(o->edge_padding_low()), high = ints(o->edge_padding_high()), gaps = ints(o->interior_padding());
  for (const Ints* v : {&low, &high, &gaps}) SMELT_TRY(expect_count(*v, static_cast<size_t>(rank), "paddings"));
  const ValueId y = pad(c, c.in(0), c.in(1), low, high, gaps);
  return c.alias(0, y);
}

/// Start indices are scalars, clamped so that the slice lies inside.
Status lower_hlo_dynamic_slice(OperatorContext& c) {
  const auto* o = c.options<tfl::StablehloDynamicSliceOptions>();
  const Ints sizes = o ? ints(o->slice_sizes()) : Ints();
  SMELT_ASSIGN(const int rank, rank_of(c, 0));
  SMELT_TRY(expect_count(sizes, static_cast<size_t>(rank), "slice sizes"));
  if (c.inputs() != rank + 1) return InvalidModel(c.inputs(), " inputs for rank ", rank);
  if (!c.in_type(0).shape.is_static()) return Unsupported("a slice of shape ", c.in_type(0).shape.str());
  if (rank == 0) return c.alias(0, c.in(0));
  Ints last;
  for (int i = 0; i < rank; ++i) {
    last.push_back(c.in_type(0).shape[i] - sizes[static_cast<size_t>(i)]);
    if (last.back() < 0 || sizes[static_cast<size_t>(i)] < 0)
      return InvalidModel("a slice of ", sizes[static_cast<size_t>(i)]);
  }
  std::vector<ValueId> starts(c.ins().begin() + 1, c.ins().end());
  ValueId begin = c.add(Op::kStack, AxisAttrs(0), starts);
  begin = c.add(Op::kCast, CastAttrs(DType::kI64), {begin});
  begin = c.binary(Binary::kMin, begin, c.i64(last));
  begin = c.binary(Binary::kMax, begin, c.scalar(DType::kI64, 0));
  return c.emit(Op::kSliceSize, {c.in(0), begin, c.i64(sizes)});
}

Status lower_hlo_dynamic_update_slice(OperatorContext& c) {
  SMELT_ASSIGN(const int rank, rank_of(c, 0));
  if (c.inputs() != rank + 2) return InvalidModel(c.inputs(), " inputs for rank ", rank);
  if (rank == 0) return c.alias(0, c.in(1));
  std::vector<ValueId> starts(c.ins().begin() + 2, c.ins().end());
  const ValueId begin = c.add(Op::kStack, AxisAttrs(0), starts);
  return c.emit(Op::kDynamicUpdateSlice, {c.in(0), c.in(1), begin});
}

/// Batching, contracting and free dimensions named by letters: an Einstein sum.
Status lower_hlo_dot_general(OperatorContext& c) {
  SMELT_ASSIGN(const auto* o, c.need_options<tfl::StablehloDotGeneralOptions>());
  const Ints lb = ints(o->lhs_batching_dimensions()), rb = ints(o->rhs_batching_dimensions()),
             lc = ints(o->lhs_contracting_dimensions()), rc = ints(o->rhs_contracting_dimensions());
  if (lb.size() != rb.size() || lc.size() != rc.size()) return InvalidModel("dimension lists of different lengths");
  SMELT_ASSIGN(const int left_rank, rank_of(c, 0));
  SMELT_ASSIGN(const int right_rank, rank_of(c, 1));
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
  return c.emit(Op::kEinsum, a, {c.in(0), c.in(1)});
}

Status lower_hlo_reduce(OperatorContext& c) {
  SMELT_ASSIGN(const auto* o, c.need_options<tfl::StablehloReduceOptions>());
  if (c.inputs() != 2 || c.outputs() != 1) return Unsupported("a reduction of several operands at once");
  SMELT_ASSIGN(const Combiner combiner, combiner_of(c, o->body_subgraph_index()));
  ReduceAttrs a;
  a.fn = combiner.reduction;
  a.noop_with_empty_axes = true;
  const ValueId y = c.add(Op::kReduce, a, {c.in(0), c.i64(ints(o->dimensions()))});
  return c.emit(Op::kBinary, BinaryAttrs(combiner.binary), {y, c.in(1)});
}

/// Windows along every dimension as further dimensions, reduced together.
Status lower_hlo_reduce_window(OperatorContext& c) {
  SMELT_ASSIGN(const auto* o, c.need_options<tfl::StablehloReduceWindowOptions>());
  if (c.inputs() != 2 || c.outputs() != 1) return Unsupported("a reduction of several operands at once");
  SMELT_ASSIGN(const Combiner combiner, combiner_of(c, o->body_subgraph_index()));
  SMELT_ASSIGN(const int rank, rank_of(c, 0));
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
  ValueId x = pad(c, c.in(0), c.in(1), low, high, gaps);
  int extra = 0;
  for (int i = 0; i < rank; ++i) {
    const auto d = static_cast<size_t>(i);
    if (window[d] == 1 && strides[d] == 1) continue;
    UnfoldAttrs a;
    a.axis = i;
    a.size = (window[d] - 1) * dilations[d] + 1;
    a.step = strides[d];
    x = c.add(Op::kUnfold, a, {x});
    const int64_t last = rank + extra++;
    axes.push_back(last);
    if (dilations[d] > 1) {
      x = c.slice(x, last, 0, a.size, dilations[d]);
    }
  }
  ReduceAttrs a;
  a.fn = combiner.reduction;
  a.noop_with_empty_axes = true;
  const ValueId y = c.add(Op::kReduce, a, {x, c.i64(axes)});
  return c.emit(Op::kBinary, BinaryAttrs(combiner.binary), {y, c.in(1)});
}

/// Any order of dimensions: transposed to channels last, and back.
Status lower_hlo_convolution(OperatorContext& c) {
  SMELT_ASSIGN(const auto* o, c.need_options<tfl::StablehloConvolutionOptions>());
  SMELT_ASSIGN(const int rank, rank_of(c, 0));
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
  ValueId x = c.transpose(c.in(0), x_perm);
  const ValueId w = c.transpose(c.in(1), w_perm);
  x = pad(c, x, c.scalar(c.in_type(0).dtype, 0), low, high, gaps);
  const ValueId y = c.add(Op::kConv, std::move(a), {x, w});
  Ints back(static_cast<size_t>(rank));
  for (size_t i = 0; i < back.size(); ++i) back[static_cast<size_t>(y_perm[i])] = static_cast<int64_t>(i);
  return c.emit(Op::kTranspose, TransposeAttrs(back), {y});
}

Status lower_hlo_while(OperatorContext& c) {
  SMELT_ASSIGN(const auto* o, c.need_options<tfl::StablehloWhileOptions>());
  return emit_while(c, o->cond_subgraph_index(), o->body_subgraph_index());
}

}  // namespace smelt::tflite
