// Products of float32 rows or images that are rounded by TFLite's formula at run time: ReduceMin, ReduceMax, scale and
// zero point of [-128, 127], round, and back. The product does that itself.
#include "passes/fuse/run_time_quantization.h"

#include <algorithm>
#include <utility>

#include "ops/conv/conv.h"
#include "ops/core/op.h"
#include "ops/matmul/matmul.h"
#include "ops/reduce/reduce.h"
#include "passes/passes.h"
#include "tensor/numeric.h"
#include "tensor/quant_params.h"

namespace smelt {
namespace {

/// Real values that are rounded to the steps of the range they have over some dimensions.
struct Rounded {
  ValueId x = kNoValue;
  bool asymmetric = false;
  std::vector<int64_t> axes;  ///< not negative, in order
};

class Formula {
 public:
  explicit Formula(const Pattern& in) : in_(in) {}

  /// match() by XNNPACK's rule.
  std::optional<Rounded> match_xnnpack(ValueId id) const {
    const Node* y = in_.binary(id, Binary::kMul);
    return y ? xnnpack(y->inputs[0], y->inputs[1]) : std::nullopt;
  }

  /// `id` = rounded(x); nullopt if it is no such value.
  std::optional<Rounded> match(ValueId id) const {
    const Node* y = in_.binary(id, Binary::kMul);
    if (!y) return std::nullopt;
    auto made = symmetric(y->inputs[0], y->inputs[1]);
    return made ? made : asymmetric(y->inputs[0], y->inputs[1]);
  }

 private:
  struct Range {
    ValueId x, low, high;
    std::vector<int64_t> axes;
  };

  bool is(ValueId id, ValueId beside, double c) const {
    const auto v = in_.scalar(id, beside);
    return v && static_cast<float>(*v) == static_cast<float>(c);
  }
  /// x of fn(x, c); kNoValue if the value is no such.
  ValueId before(ValueId id, Binary fn, double c) const {
    const Node* n = in_.binary(id, fn);
    return n && is(n->inputs[1], n->inputs[0], c) ? n->inputs[0] : kNoValue;
  }
  /// x of fn(c, x).
  ValueId behind(ValueId id, Binary fn, double c) const {
    const Node* n = in_.binary(id, fn);
    return n && is(n->inputs[0], n->inputs[1], c) ? n->inputs[1] : kNoValue;
  }
  bool is_binary(ValueId id, Binary fn, ValueId a, ValueId b) const {
    const Node* n = in_.binary(id, fn);
    return n && a != kNoValue && b != kNoValue && n->inputs[0] == a && n->inputs[1] == b;
  }
  /// x of sign(x) * floor(|x| + 0.5).
  ValueId half_away(ValueId id) const {
    const Node* y = in_.binary(id, Binary::kMul);
    const Node* sign = y ? in_.unary(y->inputs[0], Unary::kSign) : nullptr;
    const Node* floor = sign ? in_.unary(y->inputs[1], Unary::kFloor) : nullptr;
    const Node* magnitude = floor ? in_.unary(before(floor->inputs[0], Binary::kAdd, 0.5), Unary::kAbs) : nullptr;
    return magnitude && magnitude->inputs[0] == sign->inputs[0] ? sign->inputs[0] : kNoValue;
  }
  ValueId clamped(ValueId id, double lo, double hi) const {
    if (const Node* clamp = in_.unary(id, Unary::kClamp)) {
      const auto& a = static_cast<const UnaryAttrs&>(*clamp->attrs);
      return a.a == lo && a.b == hi ? clamp->inputs[0] : kNoValue;
    }
    const Node* n = in_.producer(id, Op::kClamp);
    return n && n->inputs.size() == 3 && in_.is_f32(id) && is(n->inputs[1], id, lo) && is(n->inputs[2], id, hi)
               ? n->inputs[0]
               : kNoValue;
  }

  /// The sum that is clamped to [lo, hi], by a node of its own or as its activation.
  const Node* clamped_sum(ValueId id, double lo, double hi) const {
    if (const ValueId sum = clamped(id, lo, hi); sum != kNoValue) return in_.binary(sum, Binary::kAdd);
    const Node* n = in_.producer(id, Op::kBinary);
    if (!n || !in_.is_f32(id) || !in_.is_f32(n->inputs[0])) return nullptr;
    const auto& a = static_cast<const BinaryAttrs&>(*n->attrs);
    const bool clamps = a.act.kind == ActKind::kClamp && a.act.a == lo && a.act.b == hi;
    return clamps && a.fn == Binary::kAdd && a.alpha == 1 ? n : nullptr;
  }

  /// x of reduce(x) over constant dimensions, which stay with extent 1.
  ValueId extreme(ValueId id, Reduction fn, std::vector<int64_t>& axes) const {
    const Node* n = in_.producer(id, Op::kReduce);
    if (!n || n->inputs.size() != 2 || !in_.is_f32(n->inputs[0])) return kNoValue;
    const auto& a = static_cast<const ReduceAttrs&>(*n->attrs);
    const Tensor* list = in_.constant(n->inputs[1]);
    if (a.fn != fn || !a.keep_dims || a.accumulate != DType::kInvalid || !list) return kNoValue;
    const int rank = in_.type(n->inputs[0]).shape.rank();
    for (int64_t i = 0; i < list->elements(); ++i) {
      const int64_t axis = get_int(*list, i);
      axes.push_back(axis < 0 ? axis + rank : axis);
    }
    std::ranges::sort(axes);
    return n->inputs[0];
  }

  /// low = min(least x, 0), high = max(most x, 0).
  std::optional<Range> range(ValueId low, ValueId high) const {
    Range r{.x = kNoValue, .low = low, .high = high, .axes = {}};
    std::vector<int64_t> axes;
    r.x = extreme(before(low, Binary::kMin, 0), Reduction::kMin, r.axes);
    const ValueId same = extreme(before(high, Binary::kMax, 0), Reduction::kMax, axes);
    if (r.x == kNoValue || same != r.x || axes != r.axes || axes.empty()) return std::nullopt;
    return r;
  }

  /// clamp(round(x * (127 / range)), -127, 127) * (range / 127), range = max(-low, high).
  std::optional<Rounded> symmetric(ValueId steps, ValueId scale) const {
    const ValueId span = before(scale, Binary::kDiv, 127);
    const Node* widest = in_.binary(before(span, Binary::kMax, 1e-37), Binary::kMax);
    const Node* negative = widest ? in_.unary(widest->inputs[0], Unary::kNeg) : nullptr;
    const auto r = negative ? range(negative->inputs[0], widest->inputs[1]) : std::nullopt;
    const Node* scaled = r ? in_.binary(half_away(clamped(steps, -127, 127)), Binary::kMul) : nullptr;
    if (!scaled || scaled->inputs[0] != r->x || behind(scaled->inputs[1], Binary::kDiv, 127) != span)
      return std::nullopt;
    return Rounded{r->x, false, r->axes};
  }

  /// The nearer of -128 - low / scale and 127 - high / scale.
  bool is_zero_point(ValueId id, const Range& r, ValueId scale) const {
    const Node* where = in_.producer(id, Op::kWhere);
    if (!where) return false;
    const ValueId below = behind(where->inputs[1], Binary::kSub, -128);
    const ValueId above = behind(where->inputs[2], Binary::kSub, 127);
    if (!is_binary(below, Binary::kDiv, r.low, scale) || !is_binary(above, Binary::kDiv, r.high, scale)) return false;
    const Node* less = in_.producer(where->inputs[0], Op::kBinary);
    return less && static_cast<const BinaryAttrs&>(*less->attrs).fn == Binary::kLess &&
           behind(less->inputs[0], Binary::kSub, 128) == below && behind(less->inputs[1], Binary::kAdd, 127) == above;
  }

  /// (clamp(point + round(x / scale)) - point) * scale, point = round(clamp(zero point)).
  std::optional<Rounded> asymmetric(ValueId steps, ValueId scale) const {
    const Node* span = in_.binary(before(before(scale, Binary::kMax, 1e-37), Binary::kDiv, 255), Binary::kSub);
    const auto r = span ? range(span->inputs[1], span->inputs[0]) : std::nullopt;
    const Node* moved = r ? in_.binary(steps, Binary::kSub) : nullptr;
    if (!moved) return std::nullopt;
    const ValueId point = moved->inputs[1];
    if (!is_zero_point(clamped(half_away(point), -128, 127), *r, scale)) return std::nullopt;
    const Node* sum = in_.binary(clamped(moved->inputs[0], -128, 127), Binary::kAdd);
    const Node* scaled = sum && sum->inputs[0] == point ? in_.binary(half_away(sum->inputs[1]), Binary::kMul) : nullptr;
    const Node* inverse = scaled ? in_.unary(scaled->inputs[1], Unary::kReciprocal) : nullptr;
    if (!inverse || inverse->inputs[0] != scale || scaled->inputs[0] != r->x) return std::nullopt;
    return Rounded{r->x, true, r->axes};
  }

  /// (clamp(round(x * inverse) + point) - point) / inverse, inverse = 255 / (high - low), point = round(-low * inverse)
  /// - 128: XNNPACK's rule.
  std::optional<Rounded> xnnpack(ValueId steps, ValueId scale) const {
    const Node* reciprocal = in_.unary(scale, Unary::kReciprocal);
    const ValueId inverse = reciprocal ? reciprocal->inputs[0] : behind(scale, Binary::kDiv, 1);
    const Node* where = in_.producer(inverse, Op::kWhere);
    const Node* flat = where ? in_.producer(where->inputs[0], Op::kBinary) : nullptr;
    if (!flat || static_cast<const BinaryAttrs&>(*flat->attrs).fn != Binary::kEqual ||
        !is(flat->inputs[1], flat->inputs[0], 0) || !is(where->inputs[1], where->inputs[2], 1))
      return std::nullopt;
    const ValueId width = behind(where->inputs[2], Binary::kDiv, 255);
    const Node* span = width == flat->inputs[0] ? in_.binary(width, Binary::kSub) : nullptr;
    const auto r = span ? range(span->inputs[1], span->inputs[0]) : std::nullopt;
    const Node* moved = r ? in_.binary(steps, Binary::kSub) : nullptr;
    if (!moved) return std::nullopt;
    const ValueId point = moved->inputs[1];
    const ValueId steps_to_zero = before(point, Binary::kSub, 128);
    const Node* nearest =
        in_.unary(steps_to_zero != kNoValue ? steps_to_zero : before(point, Binary::kAdd, -128), Unary::kRound);
    // There are at most 255 steps, whether they are cut off there or not.
    const ValueId cut = nearest ? before(nearest->inputs[0], Binary::kMin, 255) : kNoValue;
    const Node* lowest = nearest ? in_.binary(cut != kNoValue ? cut : nearest->inputs[0], Binary::kMul) : nullptr;
    const Node* negative = lowest && lowest->inputs[1] == inverse ? in_.unary(lowest->inputs[0], Unary::kNeg) : nullptr;
    if (!negative || negative->inputs[0] != r->low) return std::nullopt;
    const Node* sum = clamped_sum(moved->inputs[0], -128, 127);
    const Node* round = sum && sum->inputs[1] == point ? in_.unary(sum->inputs[0], Unary::kRound) : nullptr;
    if (!round || !is_binary(round->inputs[0], Binary::kMul, r->x, inverse)) return std::nullopt;
    return Rounded{r->x, true, r->axes};
  }

  const Pattern& in_;
};

/// symmetric_weights() of a Dequantize.
std::optional<Tensor> symmetric_typed(const Pattern& in, const Node& n, int axis) {
  const Tensor* w = in.constant(n.inputs[0]);
  const QuantPtr quant = in.type(n.inputs[0]).quant;
  if (!w || w->dtype() != DType::kI8 || !quant || !in.is_f32(n.outputs[0])) return std::nullopt;
  const bool each = quant->kind == Quantization::Kind::kPerAxis && quant->axis == axis;
  if (!(each || is_per_tensor(quant)) || std::ranges::any_of(quant->zero_points, [](int32_t z) { return z != 0; }))
    return std::nullopt;
  Tensor made = *w;
  made.set_quant(quant);
  return made;
}

/// The int8 weights that a DequantizeLinear or Dequantize makes real, without zero points and with one scale or one for
/// each entry of `axis`; nothing for others.
std::optional<Tensor> symmetric_weights(const Pattern& in, ValueId id, int axis) {
  if (const Node* typed = in.producer(id, Op::kDequantize)) return symmetric_typed(in, *typed, axis);
  const Node* n = in.producer(id, Op::kDequantizeLinear);
  const Tensor* w = n ? in.constant(n->inputs[0]) : nullptr;
  const Tensor* scale = w ? in.constant(n->inputs[1]) : nullptr;
  if (!scale || w->dtype() != DType::kI8 || w->quant() || scale->dtype() != DType::kF32 || scale->rank() > 1 ||
      !in.is_f32(id))
    return std::nullopt;
  const auto& a = static_cast<const QuantizeLinearAttrs&>(*n->attrs);
  const bool each = scale->elements() > 1;
  if (a.block != 0 || (each && (a.axis < 0 ? a.axis + w->rank() : a.axis) != axis)) return std::nullopt;
  if (n->inputs.size() > 2) {
    const Tensor* zero = in.constant(n->inputs[2]);
    for (int64_t i = 0; i < (zero ? zero->elements() : 1); ++i)
      if (!zero || get_int(*zero, i) != 0) return std::nullopt;
  }
  Quantization q;
  q.scales.assign(scale->data<float>(), scale->data<float>() + scale->elements());
  q.zero_points.assign(q.scales.size(), 0);
  if (each) {
    q.kind = Quantization::Kind::kPerAxis;
    q.axis = axis;
  }
  Tensor made = *w;
  made.set_quant(std::make_shared<const Quantization>(std::move(q)));
  return made;
}

/// The matrix [k, n] as [n, k].
Tensor turned(const Tensor& w) {
  Tensor t(w.dtype(), Shape{w.dim(1), w.dim(0)});
  const auto* from = w.data<int8_t>();
  auto* to = t.data<int8_t>();
  for (int64_t i = 0; i < w.dim(0); ++i)
    for (int64_t j = 0; j < w.dim(1); ++j) to[j * w.dim(0) + i] = from[i * w.dim(1) + j];
  Quantization q = *w.quant();
  q.axis = 0;
  t.set_quant(std::make_shared<const Quantization>(std::move(q)));
  return t;
}

/// symmetric_weights() of a matrix as [n, k].
std::optional<Tensor> int8_matrix(const Pattern& in, ValueId id, bool transposed) {
  auto w = symmetric_weights(in, id, transposed ? 0 : 1);
  if (!w || w->rank() != 2) return std::nullopt;
  return transposed ? std::move(w) : turned(*w);
}

Node product_of(Pattern& in, const Node& n, ValueId x, Tensor weights, AttrsPtr attrs) {
  ValueType type = ValueType::tensor(weights.dtype(), weights.shape());
  type.quant = weights.quant();
  Node made = n;
  made.inputs[0] = x;
  made.inputs[1] = in.add_value(std::move(type));
  in.graph().value(made.inputs[1]).constant = std::make_shared<const Tensor>(std::move(weights));
  made.attrs = std::move(attrs);
  made.origin = "DynamicQuantization";
  return made;
}

/// True for a product of rows with a matrix, without further factors.
bool multiplies_rows(const MatMulAttrs& a, const Node& n) {
  return !a.dynamic_quant && a.row_block == 0 && !a.transpose_a && !a.flatten_a && !a.trans_batch_a &&
         !a.trans_batch_b && a.alpha == 1 && a.beta == 1 && n.inputs.size() <= 3;
}

std::optional<Node> rows_product(Pattern& in, const Node& n) {
  MatMulAttrs a = static_cast<const MatMulAttrs&>(*n.attrs);
  if (!multiplies_rows(a, n)) return std::nullopt;
  const auto rounded = Formula(in).match(n.inputs[0]);
  if (!rounded || rounded->axes != std::vector<int64_t>{in.type(rounded->x).shape.rank() - 1}) return std::nullopt;
  auto weights = int8_matrix(in, n.inputs[1], a.transpose_b);
  if (!weights) return std::nullopt;
  a.dynamic_quant = a.transpose_b = true;
  a.asymmetric_inputs = rounded->asymmetric;
  return product_of(in, n, rounded->x, std::move(*weights), make_attrs<MatMulAttrs>(a));
}

std::optional<Node> images_product(Pattern& in, const Node& n) {
  ConvAttrs a = static_cast<const ConvAttrs&>(*n.attrs);
  if (a.dynamic_quant || a.filter != FilterLayout::kOIS || n.inputs.size() > 3) return std::nullopt;
  const auto rounded = Formula(in).match(n.inputs[0]);
  if (!rounded) return std::nullopt;
  std::vector<int64_t> image;
  for (int d = 1; d < in.type(rounded->x).shape.rank(); ++d) image.push_back(d);
  auto weights = symmetric_weights(in, n.inputs[1], 0);
  if (rounded->axes != image || !weights) return std::nullopt;
  // TFLite's convolutions have zero points where they have scales by channel.
  if (rounded->asymmetric != (weights->quant()->kind == Quantization::Kind::kPerAxis)) return std::nullopt;
  a.dynamic_quant = true;
  a.asymmetric_inputs = rounded->asymmetric;
  return product_of(in, n, rounded->x, std::move(*weights), make_attrs<ConvAttrs>(a));
}

/// A product with int8 or 4-bit weights whose rows are rounded by XNNPACK's rule, as one that rounds them.
std::optional<Node> xnnpack_product(Pattern& in, const Node& n) {
  MatMulAttrs a = static_cast<const MatMulAttrs&>(*n.attrs);
  if (n.inputs.size() < 2 || n.inputs[1] == kNoValue || !in.is_f32(n.inputs[0]) || !multiplies_rows(a, n))
    return std::nullopt;
  const auto rounded = Formula(in).match_xnnpack(n.inputs[0]);
  if (!rounded || rounded->axes != std::vector<int64_t>{in.type(rounded->x).shape.rank() - 1}) return std::nullopt;
  const Tensor* held = in.constant(n.inputs[1]);
  const bool four = held && bit_width(held->dtype()) == 4 && in.type(n.inputs[1]).quant && a.transpose_b;
  auto weights = four ? std::nullopt : int8_matrix(in, n.inputs[1], a.transpose_b);
  if (!four && !weights) return std::nullopt;
  a.dynamic_quant = a.asymmetric_inputs = a.transpose_b = true;
  if (!four) return product_of(in, n, rounded->x, std::move(*weights), make_attrs<MatMulAttrs>(a));
  Node made = n;
  made.inputs[0] = rounded->x;
  made.attrs = make_attrs<MatMulAttrs>(a);
  made.origin = "DynamicQuantization";
  return made;
}

/// A convolution with int8 weights of an image that is rounded by XNNPACK's rule: a Quantize rounds it, whose node
/// stands where its last one stood. True if it did.
bool fuse_xnnpack_image(Pattern& in, size_t k) {
  const Node& n = in.node(static_cast<int>(k));
  const ConvAttrs& a = static_cast<const ConvAttrs&>(*n.attrs);
  const ValueId real = n.inputs[0];
  const int rank = n.inputs.size() < 2 || n.inputs[1] == kNoValue || !in.is_f32(real) ? 0 : in.type(real).shape.rank();
  const bool first_out = a.filter == FilterLayout::kOIS || a.filter == FilterLayout::kOSI;
  if (rank != 4 || a.dynamic_quant || !first_out || n.inputs.size() > 3 || !in.has_one_use(real)) return false;
  const auto rounded = Formula(in).match_xnnpack(real);
  auto weights = rounded ? symmetric_weights(in, n.inputs[1], 0) : std::nullopt;
  if (!weights || rounded->axes != std::vector<int64_t>{1, 2, 3}) return false;
  const auto at = static_cast<size_t>(in.index_of_producer(real));
  Node quantize =
      remade(in.node(static_cast<int>(at)), Op::kQuantize, make_attrs<NoAttrs>(), {rounded->x}, "DynamicQuantization");
  quantize.outputs = {in.add_value(ValueType::tensor(DType::kI8, in.type(rounded->x).shape, per_slice_quant(3)))};
  const ValueId image = quantize.outputs[0];
  AttrsPtr attrs = n.attrs;
  Node conv = product_of(in, n, image, std::move(*weights), std::move(attrs));
  in.replace(k, std::move(conv));
  in.replace(at, std::move(quantize));
  return true;
}

}  // namespace

void fuse_xnnpack_rows(Graph& graph) {
  Pattern in(graph);
  bool changed = false;
  for (size_t k = 0; k < graph.nodes.size(); ++k) {
    if (graph.nodes[k].op == Op::kConv) changed |= fuse_xnnpack_image(in, k);
    if (graph.nodes[k].op != Op::kMatMul) continue;
    auto made = xnnpack_product(in, graph.nodes[k]);
    if (!made) continue;
    in.replace(k, std::move(*made));
    changed = true;
  }
  if (changed) recompose(graph);
}

std::optional<Node> run_time_quantized(Pattern& in, const Node& n) {
  if (n.inputs.size() < 2 || !in.is_f32(n.inputs[0]) || n.inputs[1] == kNoValue) return std::nullopt;
  return n.op == Op::kMatMul ? rows_product(in, n) : images_product(in, n);
}

}  // namespace smelt
