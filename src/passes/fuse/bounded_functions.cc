// Functions that stay between two numbers: clamp, hard sigmoid, hard swish.
#include "passes/fuse/bounded_functions.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/core/op.h"

namespace smelt {
namespace {

/// x within [lo, hi].
struct Clamped {
  ValueId x = kNoValue;
  double lo = -std::numeric_limits<double>::infinity(), hi = std::numeric_limits<double>::infinity();
};

/// The operand of min(x, c) or max(x, c) that is no constant number, and c.
std::optional<Clamped> one_bound(const Pattern& in, ValueId id, Binary fn) {
  const Node* n = in.binary(id, fn);
  for (size_t i = 0; n && i < 2; ++i) {
    const auto c = in.scalar(n->inputs[1 - i], n->inputs[i]);
    if (!c || in.constant(n->inputs[i])) continue;
    Clamped out{.x = n->inputs[i]};
    (fn == Binary::kMax ? out.lo : out.hi) = *c;
    return out;
  }
  return std::nullopt;
}

/// The bounds of a Clamp with constant numbers, either of which may be absent.
std::optional<Clamped> bounds_of_clamp(const Pattern& in, const Node& n) {
  if (n.op != Op::kClamp || !in.is_f32(n.inputs[0])) return std::nullopt;
  Clamped out{.x = n.inputs[0]};
  for (size_t i = 1; i < n.inputs.size(); ++i) {
    if (n.inputs[i] == kNoValue) continue;
    const auto c = in.scalar(n.inputs[i], n.inputs[0]);
    if (!c) return std::nullopt;
    (i == 1 ? out.lo : out.hi) = *c;
  }
  return out;
}

/// The bounds of one node of float32 values that clamps.
std::optional<Clamped> clamped_once(const Pattern& in, ValueId id) {
  const int k = in.index_of_producer(id);
  if (k < 0) return std::nullopt;
  const Node& n = in.node(k);
  if (n.op == Op::kBinary) {
    const auto least = one_bound(in, id, Binary::kMin);
    return least ? least : one_bound(in, id, Binary::kMax);
  }
  if (n.op == Op::kClamp) return bounds_of_clamp(in, n);
  if (in.unary(id, Unary::kRelu)) return Clamped{.x = n.inputs[0], .lo = 0};
  if (in.unary(id, Unary::kRelu6)) return Clamped{n.inputs[0], 0, 6};
  const Node* clamp = in.unary(id, Unary::kClamp);
  const auto* a = clamp ? static_cast<const UnaryAttrs*>(clamp->attrs.get()) : nullptr;
  return a ? std::optional(Clamped{n.inputs[0], a->a, a->b}) : std::nullopt;
}

/// The bounds of two clamps one behind the other, which nobody reads between; nullopt for another value.
std::optional<Clamped> clamped_twice(const Pattern& in, ValueId id) {
  const auto a = clamped_once(in, id);
  const auto b = a && in.has_one_use(a->x) ? clamped_once(in, a->x) : std::nullopt;
  if (!b) return std::nullopt;
  const Clamped both{b->x, std::max(a->lo, b->lo), std::min(a->hi, b->hi)};
  return both.lo <= both.hi ? std::optional(both) : std::nullopt;
}

std::optional<Clamped> clamped(const Pattern& in, ValueId id) {
  const auto twice = clamped_twice(in, id);
  return twice ? twice : clamped_once(in, id);
}

/// x of x + c within [0, bound]; the clamp may be the sum's activation. kNoValue for another value.
ValueId bounded_sum(const Pattern& in, ValueId id, double c, double bound) {
  if (const auto r = clamped(in, id); r && r->lo == 0 && r->hi == bound) return in.addend_of(r->x, c);
  const Node* n = in.producer(id, Op::kBinary);
  if (!n || !in.is_f32(id) || !in.is_f32(n->inputs[0])) return kNoValue;
  const auto& a = static_cast<const BinaryAttrs&>(*n->attrs);
  const Bounds b = activation_bounds(a.act);
  const bool clamps = a.act.kind == ActKind::kRelu6 || a.act.kind == ActKind::kClamp;
  if (a.fn != Binary::kAdd || a.alpha != 1 || !clamps || b.lo != 0 || static_cast<double>(b.hi) != bound)
    return kNoValue;
  for (size_t i = 0; i < 2; ++i)
    if (const auto number = in.scalar(n->inputs[1 - i], n->inputs[i]); number && is_near(*number, c))
      return n->inputs[i];
  return kNoValue;
}

}  // namespace

std::optional<Node> scalar_clamp(const Pattern& in, const Node& n) {
  const auto c = clamped_twice(in, n.outputs[0]);
  if (!c || std::isinf(c->lo) || std::isinf(c->hi)) return std::nullopt;
  return remade(n, Op::kUnary, make_attrs<UnaryAttrs>(Unary::kClamp, c->lo, c->hi), {c->x}, "Min+Max");
}

std::optional<Node> hard_sigmoid(const Pattern& in, const Node& n) {
  constexpr double kSixth = 1.0 / 6;
  const ValueId y = n.outputs[0];
  if (const auto c = clamped(in, y); c && c->lo == 0 && c->hi == 1 && in.has_one_use(c->x)) {
    const Node* sum = in.binary(c->x, Binary::kAdd);
    for (size_t i = 0; sum && i < 2; ++i) {
      const auto b = in.scalar(sum->inputs[1 - i], sum->inputs[i]);
      if (!b || !in.has_one_use(sum->inputs[i])) continue;
      const Product p = in.product(sum->inputs[i]);
      if (p.factors.size() != 1 || p.factors[0] == sum->inputs[i] || p.coefficient == 0) continue;
      return remade(n, Op::kUnary, make_attrs<UnaryAttrs>(Unary::kHardSigmoid, p.coefficient, *b), {p.factors[0]},
                    "Mul+Add+Clip");
    }
  }
  if (n.op != Op::kBinary) return std::nullopt;
  const Product p = in.product(y);
  if (p.factors.size() != 1 || p.factors[0] == y || !is_near(p.coefficient, kSixth) || !in.has_one_use(p.factors[0]))
    return std::nullopt;
  const ValueId x = bounded_sum(in, p.factors[0], 3, 6);
  if (x == kNoValue) return std::nullopt;
  return remade(n, Op::kUnary, make_attrs<UnaryAttrs>(Unary::kHardSigmoid, kSixth, 0.5), {x}, "Add+Clip+Div");
}

std::optional<Node> hard_swish(const Pattern& in, const Node& n) {
  if (n.op != Op::kBinary) return std::nullopt;
  const Product p = in.product(n.outputs[0]);
  if (p.factors.size() != 2 || !in.is_f32(n.outputs[0])) return std::nullopt;
  for (size_t i = 0; i < 2; ++i) {
    const ValueId x = p.factors[i], gate = p.factors[1 - i];
    if (!in.has_one_use(gate) || in.type(x).shape.rank() != in.type(n.outputs[0]).shape.rank()) continue;
    const Node* sigmoid = in.unary(gate, Unary::kHardSigmoid);
    const auto* a = sigmoid ? static_cast<const UnaryAttrs*>(sigmoid->attrs.get()) : nullptr;
    const bool gated =
        a && sigmoid->inputs[0] == x && p.coefficient == 1 && is_near(a->a, 1.0 / 6) && is_near(a->b, 0.5);
    if (gated || (is_near(p.coefficient, 1.0 / 6) && bounded_sum(in, gate, 3, 6) == x))
      return remade(n, Op::kUnary, make_attrs<UnaryAttrs>(Unary::kHardSwish), {x}, "HardSwish");
  }
  return std::nullopt;
}

}  // namespace smelt
