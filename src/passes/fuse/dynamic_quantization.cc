// Tensors quantized at run time and products of their integers, as formulas of float32 values.
#include "passes/fuse/dynamic_quantization.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "ops/common/enums.h"
#include "ops/common/quantized_pair.h"
#include "ops/conv/conv.h"
#include "ops/core/op.h"
#include "ops/matmul/matmul.h"
#include "ops/reduce/reduce.h"
#include "passes/fuse/weighted.h"
#include "tensor/numeric.h"
#include "tensor/quant_params.h"

namespace smelt {
namespace {

bool is_number(const Pattern& in, ValueId id, double c) {
  const Tensor* t = in.constant(id);
  return t && t->elements() == 1 && t->dtype() == DType::kF32 && !t->quant() && t->data<float>()[0] == c;
}

struct Range {
  ValueId x = kNoValue;
  double lo = 0, hi = 0;
};

/// The bounds of a clamp of float32 values to constant numbers.
std::optional<Range> clamp_of(const Pattern& in, ValueId id) {
  if (const Node* n = in.unary(id, Unary::kClamp)) {
    const auto& a = static_cast<const UnaryAttrs&>(*n->attrs);
    return Range{n->inputs[0], a.a, a.b};
  }
  const Node* n = in.producer(id, Op::kClamp);
  if (!n || n->inputs.size() != 3 || !in.is_f32(id)) return std::nullopt;
  const auto lo = in.scalar(n->inputs[1], n->inputs[0]), hi = in.scalar(n->inputs[2], n->inputs[0]);
  return lo && hi ? std::optional(Range{n->inputs[0], *lo, *hi}) : std::nullopt;
}

/// The operand of clamps to [lo, hi], and to more; kNoValue if none is to just that.
ValueId clamped_to(const Pattern& in, ValueId id, double lo, double hi) {
  bool found = false;
  for (auto c = clamp_of(in, id); c && c->lo <= lo && c->hi >= hi; c = clamp_of(in, id)) {
    found = found || (c->lo == lo && c->hi == hi);
    id = c->x;
  }
  return found ? id : kNoValue;
}

/// The operand of a rounding within [lo, hi]: clamped before or behind.
ValueId rounded_within(const Pattern& in, ValueId id, double lo, double hi) {
  if (const Node* round = in.unary(id, Unary::kRound)) return clamped_to(in, round->inputs[0], lo, hi);
  const ValueId kept = clamped_to(in, id, lo, hi);
  const Node* round = kept == kNoValue ? nullptr : in.unary(kept, Unary::kRound);
  return round ? round->inputs[0] : kNoValue;
}

/// x of min or max of 0 and the least or largest value of all of x.
ValueId extreme(const Pattern& in, ValueId id, Binary fn, Reduction reduction) {
  const Node* n = in.binary(id, fn);
  for (size_t i = 0; n && i < 2; ++i) {
    const Node* reduce = is_number(in, n->inputs[1 - i], 0) ? in.producer(n->inputs[i], Op::kReduce) : nullptr;
    if (!reduce || !in.is_f32(reduce->inputs[0])) continue;
    const auto& a = static_cast<const ReduceAttrs&>(*reduce->attrs);
    const Tensor* axes = reduce->inputs.size() > 1 ? in.constant(reduce->inputs[1]) : nullptr;
    const int rank = in.type(reduce->inputs[0]).shape.rank();
    if (a.fn == reduction && !a.keep_dims && a.accumulate == DType::kInvalid && axes && axes->elements() == rank &&
        in.type(id).shape.rank() == 0)
      return reduce->inputs[0];
  }
  return kNoValue;
}

/// `scale` is the step of the integers of x, 1 where all of x is 0; `low` is min(least x, 0).
struct Step {
  ValueId x = kNoValue, low = kNoValue;
};
std::optional<Step> step_of(const Pattern& in, ValueId scale, double steps) {
  const Node* where = in.producer(scale, Op::kWhere);
  const Node* test = where ? in.producer(where->inputs[0], Op::kBinary) : nullptr;
  if (!test || !is_number(in, test->inputs[1], 0)) return std::nullopt;
  const Binary fn = static_cast<const BinaryAttrs&>(*test->attrs).fn;
  if (fn != Binary::kEqual && fn != Binary::kGreater) return std::nullopt;
  const size_t at = fn == Binary::kGreater ? 1 : 2;
  const ValueId step = where->inputs[at];
  if (step != test->inputs[0] || !is_number(in, where->inputs[3 - at], 1)) return std::nullopt;
  const Node* div = in.binary(step, Binary::kDiv);
  const Node* sub = div && is_number(in, div->inputs[1], steps) ? in.binary(div->inputs[0], Binary::kSub) : nullptr;
  if (!sub) return std::nullopt;
  const Step s{extreme(in, sub->inputs[1], Binary::kMin, Reduction::kMin), sub->inputs[1]};
  if (s.x == kNoValue || extreme(in, sub->inputs[0], Binary::kMax, Reduction::kMax) != s.x) return std::nullopt;
  return s;
}

bool casts_to(const Pattern& in, const Node& n, DType to) {
  return n.op == Op::kCast && n.outputs.size() == 1 && static_cast<const CastAttrs&>(*n.attrs).to == to &&
         in.is_f32(n.inputs[0]);
}

/// Gives the node's output to nobody, so that it is dead.
void retire(Pattern& in, size_t k) {
  Node n = in.node(static_cast<int>(k));
  n.outputs[0] = in.add_value(in.type(n.outputs[0]));
  in.replace(k, std::move(n));
}

}  // namespace

bool fuse_dynamic_quantize(Pattern& in, size_t k) {
  const Node& n = in.node(static_cast<int>(k));
  const DType to = n.op == Op::kCast ? static_cast<const CastAttrs&>(*n.attrs).to : DType::kInvalid;
  if ((to != DType::kU8 && to != DType::kI8) || !casts_to(in, n, to)) return false;
  const auto lo = static_cast<double>(int_min(to)), hi = static_cast<double>(int_max(to));
  const Node* sum = in.binary(clamped_to(in, n.inputs[0], lo, hi), Binary::kAdd);
  for (size_t i = 0; sum && i < 2; ++i) {
    const ValueId point = sum->inputs[1 - i];
    const Node* round = in.unary(sum->inputs[i], Unary::kRound);
    const Node* div = round ? in.binary(round->inputs[0], Binary::kDiv) : nullptr;
    const auto step = div ? step_of(in, div->inputs[1], hi - lo) : std::nullopt;
    if (!step || step->x != div->inputs[0]) continue;
    const ValueId scale = div->inputs[1];
    const Node* from = in.binary(rounded_within(in, point, lo, hi), Binary::kSub);
    const Node* below = from && is_number(in, from->inputs[0], lo) ? in.binary(from->inputs[1], Binary::kDiv) : nullptr;
    if (!below || below->inputs[0] != step->low || below->inputs[1] != scale) continue;
    // The node stands where the scale was made; casts of the zero point are its third result.
    const int at = in.index_of_producer(scale);
    Node made = remade(n, Op::kDynamicQuantize, nullptr, {step->x}, "DynamicQuantizeLinear");
    DynamicQuantizeAttrs a;
    a.to = to;
    made.attrs = make_attrs<DynamicQuantizeAttrs>(a);
    made.outputs = {n.outputs[0], scale, kNoValue};
    for (size_t j = static_cast<size_t>(at); j < in.graph().nodes.size(); ++j) {
      const Node& other = in.node(static_cast<int>(j));
      if (j == k || !casts_to(in, other, to)) continue;
      const ValueId bare = clamped_to(in, other.inputs[0], lo, hi);
      if (other.inputs[0] != point && bare != point && (bare == kNoValue || bare != clamped_to(in, point, lo, hi)))
        continue;
      if (made.outputs[2] != kNoValue) continue;
      made.outputs[2] = other.outputs[0];
      retire(in, j);
    }
    retire(in, k);
    if (made.outputs[2] == kNoValue) made.outputs.pop_back();
    in.replace(static_cast<size_t>(at), std::move(made));
    return true;
  }
  return false;
}

namespace {

/// 8-bit integers and their zero point, kNoValue if it is 0.
struct Integers {
  ValueId x = kNoValue, zero = kNoValue;
};

/// The 8-bit value, without quantization parameters, that a Cast makes float32; kNoValue for another.
ValueId integers_of(const Pattern& in, ValueId id) {
  const Node* cast = in.producer(id, Op::kCast);
  if (!cast || !in.is_f32(id)) return kNoValue;
  const ValueType& t = in.type(cast->inputs[0]);
  return is_8bit(t.dtype) && !t.quant && t.ranked ? cast->inputs[0] : kNoValue;
}

/// x of float32 x - zero point; the zero point is one number for all of x.
std::optional<Integers> shifted_integers(const Pattern& in, ValueId id) {
  const Node* sub = in.binary(id, Binary::kSub);
  if (!sub) {
    const ValueId x = integers_of(in, id);
    return x == kNoValue ? std::nullopt : std::optional(Integers{x, kNoValue});
  }
  ValueId point = sub->inputs[1];
  if (const Node* view = in.producer(point, Op::kReshape)) point = view->inputs[0];
  const Integers out{integers_of(in, sub->inputs[0]), integers_of(in, point)};
  if (out.x == kNoValue || out.zero == kNoValue) return std::nullopt;
  const ValueType& zero = in.type(out.zero);
  const bool one =
      zero.is_static() && zero.shape.rank() == 0 && in.type(sub->inputs[1]).shape.rank() <= in.type(out.x).shape.rank();
  return one && zero.dtype == in.type(out.x).dtype ? std::optional(out) : std::nullopt;
}

/// Constant float32 integers as int8, or as uint8 with a zero point if they are others; nullopt: they are no integers
/// of 8 bits.
struct Weights {
  Tensor t;
  int32_t zero = 0;
};
std::optional<Weights> integer_weights(const Pattern& in, ValueId id) {
  const Tensor* w = in.constant(id);
  if (!w || w->dtype() != DType::kF32 || w->quant() || w->elements() == 0) return std::nullopt;
  const auto* v = w->data<float>();
  float lo = 0, hi = 0;
  for (int64_t i = 0; i < w->elements(); ++i) {
    if (!(std::abs(v[i]) <= 255) || v[i] != std::nearbyint(v[i])) return std::nullopt;
    lo = std::min(lo, v[i]);
    hi = std::max(hi, v[i]);
  }
  const bool narrow = lo >= -128 && hi <= 127;
  if (!narrow && hi - lo > 255) return std::nullopt;
  Weights out{Tensor(narrow ? DType::kI8 : DType::kU8, w->shape()), narrow ? 0 : static_cast<int32_t>(-lo)};
  for (int64_t i = 0; i < w->elements(); ++i) set_int(out.t, i, static_cast<int64_t>(v[i]) + out.zero);
  return out;
}

bool is_zero_bias(const Pattern& in, const Node& n) {
  if (n.inputs.size() < 3 || n.inputs[2] == kNoValue) return true;
  const Tensor* t = in.constant(n.inputs[2]);
  if (!t || t->dtype() != DType::kF32 || t->quant() || n.inputs.size() > 3) return false;
  const auto* v = t->data<float>();
  return std::ranges::all_of(v, v + t->elements(), [](float e) { return e == 0; });
}

/// True for a product without activation, of float32 numbers, that the integer operator can be.
bool is_bare_product(const Node& n) {
  if (n.op == Op::kConv) {
    const auto& a = static_cast<const ConvAttrs&>(*n.attrs);
    return !a.dynamic_quant && a.act.kind == ActKind::kNone && a.layout == Layout::kChannelsFirst &&
           a.filter == FilterLayout::kOIS;
  }
  if (n.op != Op::kMatMul) return false;
  const auto& a = static_cast<const MatMulAttrs&>(*n.attrs);
  return !a.dynamic_quant && a.act.kind == ActKind::kNone && a.row_block == 0 && a.alpha == 1 && !a.transpose_a &&
         !a.transpose_b && !a.flatten_a && !a.trans_batch_a && !a.trans_batch_b;
}

/// The Reshape at index `at` of integers in place of float32 ones. Gives its result, a new value.
ValueId viewed(Pattern& in, size_t at, ValueId integers) {
  Node view = in.node(static_cast<int>(at));
  ValueType type = in.type(view.outputs[0]);
  type.dtype = in.type(integers).dtype;
  view.inputs[0] = integers;
  view.outputs[0] = in.add_value(std::move(type));
  const ValueId made = view.outputs[0];
  in.replace(at, std::move(view));
  return made;
}

}  // namespace

bool fuse_integer_product(Pattern& in, size_t k) {
  const Node& n = in.node(static_cast<int>(k));
  if (!casts_to(in, n, DType::kI32)) return false;
  ValueId y = n.inputs[0];
  constexpr double kExact = 1 << 24;  // integers up to here are float32 numbers
  for (auto c = clamp_of(in, y); c && c->lo <= -kExact && c->hi >= kExact; c = clamp_of(in, y)) y = c->x;
  const Node* behind = in.producer(y, Op::kReshape);
  const int behind_at = behind ? in.index_of_producer(y) : -1;
  if (behind && !in.has_one_use(y)) return false;
  if (behind) y = behind->inputs[0];
  const int at = in.index_of_producer(y);
  if (at < 0 || !in.has_one_use(y)) return false;
  const Node product = in.node(at);
  if (product.inputs.size() < 2 || !is_bare_product(product) || !is_zero_bias(in, product)) return false;
  const Node* view = in.producer(product.inputs[0], Op::kReshape);
  const auto x = shifted_integers(in, view ? view->inputs[0] : product.inputs[0]);
  if (!x || (view && !in.has_one_use(product.inputs[0]))) return false;
  auto w = integer_weights(in, product.inputs[1]);
  if (!w || (product.op == Op::kMatMul && w->t.rank() < 2)) return false;
  const Op op = product.op == Op::kConv ? Op::kConvInteger : Op::kMatMulInteger;
  const ValueId operand = view ? viewed(in, static_cast<size_t>(in.index_of_producer(product.inputs[0])), x->x) : x->x;
  std::vector<ValueId> inputs{operand, kNoValue, x->zero};
  if (w->zero != 0) {
    Tensor zero(w->t.dtype(), Shape{});
    set_int(zero, 0, w->zero);
    inputs.push_back(add_constant(in, std::move(zero)));
  }
  inputs[1] = add_constant(in, std::move(w->t));
  while (inputs.back() == kNoValue) inputs.pop_back();
  Node made = remade(product, op, product.attrs, std::move(inputs), "IntegerProduct");
  if (!behind) {
    made.outputs = in.node(static_cast<int>(k)).outputs;
    in.replace(k, std::move(made));
    return true;
  }
  ValueType type = in.type(y);
  type.dtype = DType::kI32;
  made.outputs[0] = in.add_value(std::move(type));
  const ValueId sums = made.outputs[0], result = in.node(static_cast<int>(k)).outputs[0];
  in.replace(static_cast<size_t>(at), std::move(made));
  Node reshaped = in.node(behind_at);
  reshaped.inputs[0] = sums;
  reshaped.outputs[0] = result;
  retire(in, k);
  in.replace(static_cast<size_t>(behind_at), std::move(reshaped));
  return true;
}

}  // namespace smelt
