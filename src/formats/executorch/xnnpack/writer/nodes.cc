#include "formats/executorch/xnnpack/writer/nodes.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "ops/common/quantized_pair.h"
#include "ops/elementwise/elementwise.h"
#include "ops/pool/pool.h"
#include "ops/reduce/reduce.h"
#include "ops/shape/shape.h"
#include "tensor/numeric.h"
#include "tensor/quant_params.h"

namespace smelt::executorch {

using Id = XnnNodeWriter::Id;
using Type = XnnNodeWriter::Type;
using Builder = XnnNodeWriter::Builder;

std::optional<double> XnnNodeWriter::number(int i) const {
  const Tensor* t = constant(i);
  if (!t || t->elements() != 1 || !is_float(t->dtype()) || quant(i)) return std::nullopt;
  return get_double(*t, 0);
}

QuantPtr XnnNodeWriter::quant(int i) const {
  if (i == 2 && (op_info(node().op).flags & kWeighted) != 0) return bias_quant(g_.graph(), node());
  const Value& v = g_.graph().value(id(i));
  return v.type.quant ? v.type.quant : v.constant ? v.constant->quant() : nullptr;
}

bool XnnNodeWriter::eight_bits(const ValueType& t) { return smelt::is_8bit(t.dtype) && is_per_tensor(t.quant); }

bool XnnNodeWriter::all_8bit(int n) const {
  for (int i = 0; i < n; ++i)
    if (!is_8bit(i) || in_type(i).dtype != out_type().dtype) return false;
  return makes_8bit();
}

DType XnnNodeWriter::real_dtype() const {
  return in_type(0).dtype == DType::kF16 || out_type().dtype == DType::kF16 ? DType::kF16 : DType::kF32;
}

Id XnnNodeWriter::as_real(Id x, bool real) { return real && g_.quant(x) ? g_.convert(x, real_dtype(), nullptr) : x; }

Id XnnNodeWriter::real_constant(int i, const std::vector<int64_t>& perm, const Shape& shape) {
  const Tensor t = *constant(i);
  const QuantPtr q = quant(i);
  const DType dtype = real_dtype();
  return g_.add_constant(dtype, shape, nullptr, [t, q, perm, dtype] {
    Tensor real = t;
    if (q) {
      Tensor typed = t;
      typed.set_quant(q);
      real = Tensor(DType::kF32, t.shape());
      dequantize(typed, real.data<float>());
    }
    if (real.dtype() != dtype) {
      Tensor made(dtype, t.shape());
      for (int64_t e = 0; e < t.elements(); ++e) set_double(made, e, get_double(real, e));
      real = std::move(made);
    }
    return perm.empty() ? real : permuted_constant(real, perm);
  });
}

Id XnnNodeWriter::in(int i, bool real) {
  const Tensor* t = constant(i);
  if (t && real && (quant(i) || t->dtype() != real_dtype()))
    return real_constant(i, {}, t->rank() == 0 ? Shape{1} : t->shape());
  return as_real(g_.value(id(i)), real);
}

Id XnnNodeWriter::image(int i, Layout layout, bool real) {
  return layout == Layout::kChannelsLast ? in(i, real) : as_real(g_.channels_last(id(i)), real);
}

Id XnnNodeWriter::result(const Shape& shape, bool real) {
  return real ? g_.add_value(real_dtype(), shape) : g_.add_value(out_type().dtype, shape, out_type().quant);
}

bool XnnNodeWriter::bound(Id y, bool channels_last) {
  if (out_type().quant && !g_.quant(y)) y = g_.convert(y, out_type().dtype, out_type().quant);
  if (!same_quant_params(out_type().quant, g_.quant(y))) return false;
  channels_last ? g_.bind_channels_last(out_id(), y) : g_.bind(out_id(), y);
  return true;
}

std::optional<Id> XnnNodeWriter::activated(Id y, const Activation& act) {
  if (g_.quant(y)) return std::nullopt;
  const Shape s = g_.shape(y);
  if (act.kind == ActKind::kNone) return y;
  if (act.kind == ActKind::kTanh) return g_.unary(Type::XNNTanh, y, real_dtype(), s, nullptr);
  if (act.kind == ActKind::kSigmoid) return g_.unary(Type::XNNSigmoid, y, real_dtype(), s, nullptr);
  if (!clamps(act)) return std::nullopt;
  const Id z = g_.add_value(real_dtype(), s);
  g_.node(
      Type::XNNClamp, [=](Builder& b) { return fb_xnnpack::Create_XNNNode1x1(b, y, z).Union(); },
      activation_bounds(act));
  return z;
}

namespace {

/// Functions without parameters.
Type unary_type(Unary fn) {
  using enum fb_xnnpack::XNodeUnion;
  static constexpr std::pair<Unary, Type> kTypes[] = {
      {Unary::kSigmoid, XNNSigmoid}, {Unary::kFloor, XNNFloor}, {Unary::kCeil, XNNCeiling},
      {Unary::kSqrt, XNNSquareRoot}, {Unary::kNeg, XNNNegate},  {Unary::kRsqrt, XNNReciprocalSquareRoot},
      {Unary::kSquare, XNNSquare},   {Unary::kAbs, XNNAbs},     {Unary::kHardSwish, XNNHardswish},
      {Unary::kLog, XNNLog},         {Unary::kGelu, XNNGelu},   {Unary::kTanh, XNNTanh},
      {Unary::kExp, XNNExp},         {Unary::kSin, XNNSin},     {Unary::kCos, XNNCos}};
  for (const auto& [function, type] : kTypes)
    if (function == fn) return type;
  return NONE;
}

/// Runs `op` on input 0 where it lies, channels last if only that order of it is there.
template <class F>
bool keep_layout(XnnNodeWriter& w, F&& op) {
  const bool last = w.g().only_channels_last(w.id(0)) && w.out_type().shape.rank() == w.in_type(0).shape.rank();
  const Layout layout = last ? Layout::kChannelsFirst : Layout::kChannelsLast;
  const auto y = op(w.image(0, layout, true));
  return y && w.out_image(*y, layout);
}

bool unary(XnnNodeWriter& w) {
  const auto& a = w.attrs<UnaryAttrs>();
  XnnGraphWriter& g = w.g();
  const DType dtype = w.real_dtype();
  if (a.fn == Unary::kIdentity) return w.out(w.in(0, !same_quant_params(w.in_type(0).quant, w.out_type().quant)));
  return keep_layout(w, [&](Id x) -> std::optional<Id> {
    const Shape s = g.shape(x);
    if (const Type type = unary_type(a.fn); type != Type::NONE) return g.unary(type, x, dtype, s, nullptr);
    const auto alpha = static_cast<float>(a.a);
    switch (a.fn) {
      case Unary::kRelu:
        return w.activated(x, {ActKind::kRelu});
      case Unary::kRelu6:
        return w.activated(x, {ActKind::kRelu6});
      case Unary::kReluN1:
        return w.activated(x, {ActKind::kReluN1});
      case Unary::kClamp:
        if (!(a.a < a.b)) return std::nullopt;
        return w.activated(x, {ActKind::kClamp, alpha, static_cast<float>(a.b)});
      case Unary::kLeakyRelu: {
        const Id y = g.add_value(dtype, s);
        if (!std::isfinite(alpha)) return std::nullopt;
        g.node(Type::XNNLeakyReLU, [=](Builder& b) { return fb_xnnpack::CreateXNNLeakyReLU(b, alpha, x, y).Union(); });
        return y;
      }
      case Unary::kElu: {
        if (!std::isnormal(alpha) || alpha < 0 || (a.b != 0 && a.b != 1) || (a.c != 0 && a.c != 1)) return std::nullopt;
        const Id y = g.add_value(dtype, s);
        g.node(Type::XNNELU, [=](Builder& b) { return fb_xnnpack::CreateXNNELU(b, alpha, x, y).Union(); });
        return y;
      }
      case Unary::kSilu: {
        if (a.a != 0 && a.a != 1) return std::nullopt;
        const Id gate = g.unary(Type::XNNSigmoid, x, dtype, s, nullptr), y = g.add_value(dtype, s);
        g.node(Type::XNNMultiply, [=](Builder& b) { return fb_xnnpack::Create_XNNNode2x1(b, x, gate, y).Union(); });
        return y;
      }
      default:
        return std::nullopt;
    }
  });
}

Type binary_type(Binary fn) {
  using enum fb_xnnpack::XNodeUnion;
  static constexpr std::pair<Binary, Type> kTypes[] = {{Binary::kAdd, XNNAdd},      {Binary::kSub, XNNSubtract},
                                                       {Binary::kMul, XNNMultiply}, {Binary::kDiv, XNNDiv},
                                                       {Binary::kMin, XNNMinimum},  {Binary::kMax, XNNMaximum}};
  for (const auto& [function, type] : kTypes)
    if (function == fn) return type;
  return NONE;
}

/// True if XNNPACK's integer arithmetic reaches these scales.
bool ratios_fit(const XnnNodeWriter& w, Binary fn) {
  const double a = w.in_type(0).quant->scale(), b = w.in_type(1).quant->scale(), y = w.out_type().quant->scale();
  const auto within = [](double r, double lo, double hi) { return r >= lo && r < hi; };
  if (fn == Binary::kMul) return within(a * b / y, 0x1p-16, 0x1p8);
  return within(a / y, 0x1p-10, 0x1p8) && within(b / y, 0x1p-10, 0x1p8);
}

/// True if the node rounds as XNNPACK's integer kernel does, or as one of fixed-point numbers like it. Where the model
/// rounds a float32 result once, the float32 operator between conversions gives its integers.
bool rounds_in_integers(Rounding rounding) { return rounding != Rounding::kFloatHalfEven; }

/// An operand of the shape that broadcasting wants once the image has channels last.
Id operand_last(XnnNodeWriter& w, int i, int rank, bool real) {
  const Shape s = w.in_type(i).shape;
  if (s.rank() == rank && !w.constant(i)) return w.image(i, Layout::kChannelsFirst, real);
  Shape wide = Shape::of_rank(rank, 1), last;
  for (int d = 0; d < s.rank(); ++d) wide[rank - s.rank() + d] = s[d];
  last.push_back(wide[0]);
  for (int d = 2; d < rank; ++d) last.push_back(wide[d]);
  last.push_back(wide[1]);
  std::vector<int64_t> perm{0};
  for (int d = 2; d < rank; ++d) perm.push_back(d);
  perm.push_back(1);
  Tensor t = *w.constant(i);
  const DType dtype = w.real_dtype();
  return w.g().add_constant(dtype, last, nullptr, [t, wide, perm, dtype] {
    Tensor grown(dtype, wide);
    for (int64_t e = 0; e < t.elements(); ++e) set_double(grown, e, get_double(t, e));
    return permuted_constant(grown, perm);
  });
}

bool binary(XnnNodeWriter& w) {
  const auto& a = w.attrs<BinaryAttrs>();
  XnnGraphWriter& g = w.g();
  const Type type = binary_type(a.fn);
  if (type == Type::NONE || a.alpha != 1 || (a.act.kind != ActKind::kNone && !clamps(a.act))) return false;
  const bool linear = a.fn == Binary::kAdd || a.fn == Binary::kSub || a.fn == Binary::kMul;
  const bool integers =
      linear && rounds_in_integers(a.rounding) && w.all_8bit(2) && !w.constant(0) && ratios_fit(w, a.fn);
  const int rank = w.out_type().shape.rank();
  // An image that is there with channels last only stays so; the other operand follows if it can.
  const auto follows = [&](int i) {
    return w.constant(i) ? !w.quant(i) && w.constant(i)->dtype() == w.real_dtype() : w.in_type(i).shape.rank() == rank;
  };
  const bool last =
      (g.only_channels_last(w.id(0)) || g.only_channels_last(w.id(1))) && rank >= 3 && follows(0) && follows(1);
  const Id x = last ? operand_last(w, 0, rank, !integers) : w.in(0, !integers);
  const Id y = last ? operand_last(w, 1, rank, !integers) : w.in(1, !integers);
  Shape s = w.out_type().shape;
  if (last) {
    s = Shape{s[0]};
    for (int d = 2; d < rank; ++d) s.push_back(w.out_type().shape[d]);
    s.push_back(w.out_type().shape[1]);
  }
  const Id z = w.result(s, !integers);
  const auto table = [=](Builder& b) { return fb_xnnpack::Create_XNNNode2x1(b, x, y, z).Union(); };
  if (a.act.kind == ActKind::kNone)
    g.node(type, table);
  else
    g.node(type, table, activation_bounds(a.act));
  return w.out_image(z, last ? Layout::kChannelsFirst : Layout::kChannelsLast);
}

/// The mean over rows and columns.
bool global_average(XnnNodeWriter& w, Layout layout, Rounding rounding) {
  const bool integers = rounds_in_integers(rounding) && w.all_8bit(1);
  const Id x = w.image(0, layout, !integers);
  const Shape s = w.g().shape(x);
  const Id y = w.result(Shape{s[0], 1, 1, s[3]}, !integers);
  constexpr uint32_t kKeepDims = 0x40;
  w.g().node(Type::XNNGlobalAvgPooling2d,
             [=](Builder& b) { return fb_xnnpack::Create_XNNNode1x1(b, x, y, kKeepDims).Union(); });
  if (w.out_type().shape.rank() == 2) return w.out(w.g().reshape(y, w.out_type().shape));
  return w.out_image(y, layout);
}

bool reduce(XnnNodeWriter& w) {
  const auto& a = w.attrs<ReduceAttrs>();
  auto axes = w.ints(1);
  if (a.fn != Reduction::kMean || a.accumulate != DType::kInvalid || w.in_type(0).shape.rank() != 4 || !axes)
    return false;
  for (int64_t& d : *axes) d = d < 0 ? d + 4 : d;
  std::ranges::sort(*axes);
  if (*axes == std::vector<int64_t>{1, 2}) return global_average(w, Layout::kChannelsLast, a.rounding);
  return *axes == std::vector<int64_t>{2, 3} && global_average(w, Layout::kChannelsFirst, a.rounding);
}

/// An image of real values with zeros around it; `pads` are those in front of rows and columns, then behind.
Id with_zeros(XnnNodeWriter& w, Id x, const std::vector<int64_t>& pads) {
  const Shape s = w.g().shape(x);
  const auto n = [](int64_t v) { return static_cast<uint32_t>(v); };
  const std::vector<uint32_t> before{0, n(pads[0]), n(pads[1]), 0}, after{0, n(pads[2]), n(pads[3]), 0};
  const Id y = w.g().add_value(w.g().dtype(x), Shape{s[0], s[1] + pads[0] + pads[2], s[2] + pads[1] + pads[3], s[3]});
  w.g().node(Type::XNNStaticConstantPad, [=](Builder& b) {
    return fb_xnnpack::CreateXNNStaticConstantPadDirect(b, &before, &after, 0, x, y).Union();
  });
  return y;
}

/// Windows that fill their padded image; padding of averages counts.
bool pool(XnnNodeWriter& w) {
  const auto& a = w.attrs<PoolAttrs>();
  if (w.node().outputs.size() > 1 && w.node().outputs[1] != kNoValue) return false;
  if (w.in_type(0).shape.rank() != 4 || a.kind == PoolKind::kLp || a.divisor_override != 0 || !clamps(a.act))
    return false;
  const bool average = a.kind == PoolKind::kAverage;
  if (a.global) return average && a.act.kind == ActKind::kNone && global_average(w, a.layout, a.rounding);
  // TFLite rounds ties away from 0, which means of an even number of integers have.
  if (average && a.rounding == Rounding::kFixedDouble && w.all_8bit(1) && a.kernel[0] * a.kernel[1] % 2 == 0)
    return false;
  const bool integers = !average && w.all_8bit(1) && same_per_tensor(w.in_type(0).quant, w.out_type().quant);
  const bool last = a.layout == Layout::kChannelsLast;
  const auto at = [&](const ValueType& t, int d) { return t.shape[last ? d + 1 : d + 2]; };
  const auto ones = [](const std::vector<int64_t>& list) { return list.empty() ? std::vector<int64_t>{1, 1} : list; };
  const auto strides = ones(a.strides), dilations = ones(a.dilations);
  std::vector<int64_t> pads(4, 0);
  bool padded = false;
  for (int d = 0; d < 2; ++d) {
    const auto i = static_cast<size_t>(d);
    const int64_t window = (a.kernel[i] - 1) * dilations[i] + 1, x = at(w.in_type(0), d), y = at(w.out_type(), d);
    const int64_t total = std::max<int64_t>(0, (y - 1) * strides[i] + window - x);
    if (a.auto_pad == AutoPad::kExplicit && a.pads.size() == 4) {
      pads[i] = a.pads[i];
      pads[i + 2] = a.pads[i + 2];
    } else if (a.auto_pad == AutoPad::kSameUpper || a.auto_pad == AutoPad::kSameLower) {
      pads[i] = a.auto_pad == AutoPad::kSameUpper ? total / 2 : total - total / 2;
      pads[i + 2] = total - pads[i];
    }
    if ((x + pads[i] + pads[i + 2] - window) / strides[i] + 1 != y || pads[i] < 0 || pads[i + 2] < 0) return false;
    padded = padded || pads[i] != 0 || pads[i + 2] != 0;
    const bool counts = a.count_include_pad && a.auto_pad == AutoPad::kExplicit;
    if (average && ((padded && !counts) || dilations[i] != 1)) return false;
    if (strides[i] > window) return false;
  }
  if (a.kernel[0] * a.kernel[1] == 1) return false;
  Id x = w.image(0, a.layout, !integers);
  if (average && padded) {
    x = with_zeros(w, x, pads);
    std::ranges::fill(pads, 0);
  }
  const Id y =
      w.result(Shape{w.g().shape(x)[0], at(w.out_type(), 0), at(w.out_type(), 1), w.g().shape(x)[3]}, !integers);
  const auto kernel = a.kernel;
  const auto table = [=](Builder& b) {
    const auto n = [](int64_t v) { return static_cast<uint32_t>(v); };
    return fb_xnnpack::Create_XNNPooling2D(b, n(pads[0]), n(pads[3]), n(pads[2]), n(pads[1]), n(kernel[0]),
                                           n(kernel[1]), n(strides[0]), n(strides[1]), n(dilations[0]), n(dilations[1]),
                                           x, y, 0)
        .Union();
  };
  const Type type = average ? Type::XNNAvgPooling2d : Type::XNNMaxPooling2d;
  if (a.act.kind == ActKind::kNone)
    w.g().node(type, table);
  else
    w.g().node(type, table, activation_bounds(a.act));
  return w.out_image(y, a.layout);
}

/// True if the node moves values that keep their type.
bool moves(const XnnNodeWriter& w) { return same_quant_params(w.in_type(0).quant, w.out_type().quant); }

bool reshape(XnnNodeWriter& w) { return moves(w) && w.out(w.g().reshape(w.in(0, false), w.out_type().shape)); }

bool transpose(XnnNodeWriter& w) {
  auto perm = w.attrs<TransposeAttrs>().perm;
  const int rank = w.in_type(0).shape.rank();
  if (w.has(1) || !moves(w)) return false;
  if (perm.empty())
    for (int d = rank - 1; d >= 0; --d) perm.push_back(d);
  for (int64_t& p : perm) p = p < 0 ? p + rank : p;
  return w.out(w.g().transpose(w.in(0, false), perm));
}

bool concat(XnnNodeWriter& w) {
  const int n = w.inputs(), rank = w.out_type().shape.rank();
  if (n < 2 || n > 5) return false;
  bool integers = w.all_8bit(n), images = rank >= 3;
  int channels_last = 0;
  for (int i = 0; i < n; ++i) {
    integers = integers && same_quant_params(w.in_type(i).quant, w.out_type().quant) && !w.constant(i);
    images = images && (!w.constant(i) || (!w.quant(i) && w.constant(i)->dtype() == w.real_dtype()));
    channels_last += w.g().only_channels_last(w.id(i)) ? 1 : 0;
  }
  const bool last = images && channels_last > 0 && channels_last * 2 >= n;
  int64_t axis = w.attrs<AxisAttrs>().axis;
  if (axis < 0) axis += rank;
  Shape s = w.out_type().shape;
  if (last) {
    axis = channels_last_axis(axis, rank);
    s = Shape{s[0]};
    for (int d = 2; d < rank; ++d) s.push_back(w.out_type().shape[d]);
    s.push_back(w.out_type().shape[1]);
  }
  const Layout layout = last ? Layout::kChannelsFirst : Layout::kChannelsLast;
  std::vector<Id> x(5, kXnnInvalidId);
  for (int i = 0; i < n; ++i)
    x[static_cast<size_t>(i)] = last && w.constant(i) ? operand_last(w, i, rank, true) : w.image(i, layout, !integers);
  const Id y = w.result(s, !integers);
  constexpr Type kTypes[] = {Type::XNNConcatenate2, Type::XNNConcatenate3, Type::XNNConcatenate4,
                             Type::XNNConcatenate5};
  w.g().node(kTypes[n - 2], [=](Builder& b) {
    return fb_xnnpack::Create_XNNCat(b, static_cast<uint32_t>(axis), x[0], x[1], x[2], x[3], y, 0, x[4]).Union();
  });
  return w.out_image(y, layout);
}

/// Constant pads of one value; 8-bit values are padded with the integer of it.
bool pad(XnnNodeWriter& w) {
  const auto& a = w.attrs<PadAttrs>();
  const int rank = w.in_type(0).shape.rank();
  const auto pads = w.ints(1);
  const auto value = w.has(2) ? w.number(2) : std::optional(0.0);
  if (a.mode != PadAttrs::Mode::kConstant || !pads || !value || w.has(3)) return false;
  if (static_cast<int>(pads->size()) != 2 * rank) return false;
  const bool integers = w.all_8bit(1) && moves(w);
  std::vector<uint32_t> before, after;
  for (int d = 0; d < rank; ++d) {
    const auto i = static_cast<size_t>(d), n = static_cast<size_t>(rank);
    const int64_t b = a.pairs ? (*pads)[2 * i] : (*pads)[i], e = a.pairs ? (*pads)[2 * i + 1] : (*pads)[n + i];
    if (b < 0 || e < 0) return false;
    before.push_back(static_cast<uint32_t>(b));
    after.push_back(static_cast<uint32_t>(e));
  }
  const Id x = w.in(0, !integers), y = w.result(w.out_type().shape, !integers);
  const auto fill = static_cast<float>(*value);
  w.g().node(Type::XNNStaticConstantPad, [=](Builder& b) {
    return fb_xnnpack::CreateXNNStaticConstantPadDirect(b, &before, &after, fill, x, y).Union();
  });
  return w.out(y);
}

/// True if XNNPACK's values can be of this type.
bool fits(const Value& v) {
  const ValueType& t = v.type;
  if (v.constant) return t.dtype != DType::kString && t.is_static() && t.shape.elements() > 0;
  if (!t.is_static() || t.shape.rank() < 1 || t.shape.rank() > 6 || t.shape.elements() < 1) return false;
  const bool real = t.dtype == DType::kF32 || t.dtype == DType::kF16;
  return real ? !t.quant : smelt::is_8bit(t.dtype) && is_per_tensor(t.quant);
}

/// True if int8, uint8 and float16 values meet in a node, which XNNPACK has no kernels for.
bool mixes_types(const Graph& graph, const Node& node) {
  std::set<DType> types;
  for (const auto* list : {&node.inputs, &node.outputs})
    for (const ValueId id : *list)
      if (id != kNoValue && !graph.value(id).constant) types.insert(graph.value(id).type.dtype);
  const bool real = types.erase(DType::kF32) > 0;
  return types.size() > 1 || (real && types.contains(DType::kF16));
}

/// Between float16 and float32.
bool cast(XnnNodeWriter& w) {
  return keep_layout(w, [&](Id x) { return std::optional(w.g().convert(x, w.out_type().dtype, nullptr)); });
}

}  // namespace

bool write_xnn_node(XnnGraphWriter& graph, const Node& node) {
  XnnNodeWriter w(graph, node);
  if (node.inputs.empty() || !w.has(0) || node.outputs.empty() || node.outputs[0] == kNoValue) return false;
  for (const ValueId id : node.inputs)
    if (id != kNoValue && !fits(graph.graph().value(id))) return false;
  for (const ValueId id : node.outputs)
    if (id != kNoValue && !fits(graph.graph().value(id))) return false;
  if (node.op == Op::kCast) {
    const auto is_real = [](const ValueType& t) { return t.dtype == DType::kF32 || t.dtype == DType::kF16; };
    return is_real(w.in_type(0)) && is_real(w.out_type()) && !w.constant(0) && cast(w);
  }
  if (mixes_types(graph.graph(), node)) return false;
  switch (node.op) {
    case Op::kConv:
      return xnn_conv(w);
    case Op::kConvTranspose:
      return xnn_conv_transpose(w);
    case Op::kMatMul:
      return xnn_matmul(w);
    case Op::kUnary:
      return unary(w);
    case Op::kBinary:
      return binary(w);
    case Op::kSoftmax:
      return xnn_softmax(w);
    case Op::kPool:
      return pool(w);
    case Op::kGroupNorm:
      return xnn_group_norm(w);
    case Op::kReduce:
      return reduce(w);
    case Op::kExpand:
      return w.in_type(0).shape == w.out_type().shape && w.out(w.in(0, false));
    case Op::kReshape:
    case Op::kSqueeze:
    case Op::kUnsqueeze:
    case Op::kFlatten:
      return reshape(w);
    case Op::kTranspose:
      return transpose(w);
    case Op::kConcat:
      return concat(w);
    case Op::kPad:
      return pad(w);
    case Op::kResize:
      return xnn_resize(w);
    case Op::kQuantize:
    case Op::kDequantize:
      return keep_layout(w, [](Id x) { return std::optional(x); });
    default:
      return false;
  }
}

}  // namespace smelt::executorch
