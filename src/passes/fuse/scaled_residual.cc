// Global response normalization and its like: a value and its product with one number a channel.
#include "ops/common/broadcast.h"
#include "ops/common/real.h"
#include "ops/core/op.h"
#include "passes/fuse/spelled_out.h"
#include "passes/fuse/weighted.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

/// v = bias + coefficient * weights * (x * gate), by the nodes that compute it.
struct Gated {
  ValueId gate = kNoValue, weights = kNoValue, bias = kNoValue;
  double coefficient = 1;
  std::vector<size_t> products;  ///< outermost first
  int sum = -1;                  ///< the node that adds the bias
};

bool is_constant(const Pattern& in, ValueId id) { return in.constant(id) != nullptr && in.is_f32(id); }

/// True if a broadcast repeats each number of `small` along a dimension of x.
bool repeats(const Pattern& in, ValueId small, ValueId x) {
  if (!in.is_f32(small) || in.constant(small)) return false;
  const Shape &s = in.type(small).shape, &all = in.type(x).shape;
  if (s.rank() > all.rank()) return false;
  for (int i = 1; i <= s.rank(); ++i)
    if (s[s.rank() - i] == 1 && all[all.rank() - i] > 1) return true;
  return false;
}

std::optional<Gated> gated(const Pattern& in, ValueId v, ValueId x) {
  Gated g;
  if (!in.has_one_use(v)) return std::nullopt;
  if (const Node* sum = in.binary(v, Binary::kAdd)) {
    const size_t i = is_constant(in, sum->inputs[0]) ? 0 : 1;
    g.bias = sum->inputs[i];
    if (!is_constant(in, g.bias)) return std::nullopt;
    g.sum = in.index_of_producer(v);
    v = sum->inputs[1 - i];
  }
  for (;;) {
    const Node* product = in.has_one_use(v) ? in.binary(v, Binary::kMul) : nullptr;
    if (!product) return std::nullopt;
    g.products.push_back(static_cast<size_t>(in.index_of_producer(v)));
    for (size_t i = 0; i < 2; ++i)
      if (product->inputs[i] == x) g.gate = product->inputs[1 - i];
    if (g.gate != kNoValue) return repeats(in, g.gate, x) ? std::optional(std::move(g)) : std::nullopt;
    const size_t i = is_constant(in, product->inputs[0]) ? 0 : 1;
    const ValueId c = product->inputs[i];
    if (!is_constant(in, c)) return std::nullopt;
    if (const auto factor = in.scalar(c, product->inputs[1 - i]))
      g.coefficient *= *factor;
    else if (g.weights == kNoValue)
      g.weights = c;
    else
      return std::nullopt;
    v = product->inputs[1 - i];
  }
}

/// The weights times the coefficient; kNoValue for 1.
ValueId factors(Pattern& in, const Gated& g) {
  if (g.coefficient == 1) return g.weights;
  if (g.weights == kNoValue) {
    const auto c = static_cast<float>(g.coefficient);
    return add_constant(in, DType::kF32, Shape{}, {&c, 1});
  }
  const Tensor& w = *in.constant(g.weights);
  std::vector<float> scaled = to_real_vector(w);
  for (float& v : scaled) v = static_cast<float>(v * g.coefficient);
  return add_constant(in, DType::kF32, w.shape(), scaled);
}

/// Makes the node at `index` compute fn(a, b) into a new value, which is returned.
ValueId compute(Pattern& in, size_t index, Binary fn, ValueId a, ValueId b) {
  auto shape = broadcast_shapes(in.type(a).shape, in.type(b).shape);
  const ValueId y = in.add_value(ValueType::tensor(DType::kF32, shape.ok() ? *shape : in.type(a).shape));
  const Node& from = in.node(static_cast<int>(index));
  Node made = remade(from, Op::kBinary, make_attrs<BinaryAttrs>(fn), {a, b}, from.origin.c_str());
  made.outputs = {y};
  in.replace(index, std::move(made));
  return y;
}

}  // namespace

std::optional<Node> scaled_residual(Pattern& in, const Node& n) {
  if (!in.binary(n.outputs[0], Binary::kAdd)) return std::nullopt;
  for (size_t i = 0; i < 2; ++i) {
    const ValueId x = n.inputs[i];
    const auto g = in.is_f32(x) && !in.constant(x) ? gated(in, n.inputs[1 - i], x) : std::nullopt;
    if (!g) continue;
    const float one = 1;
    auto slot = g->products.rbegin();
    ValueId scale = g->gate;
    if (const ValueId w = factors(in, *g); w != kNoValue) scale = compute(in, *slot++, Binary::kMul, scale, w);
    scale = compute(in, *slot, Binary::kAdd, scale, add_constant(in, DType::kF32, Shape{}, {&one, 1}));
    if (g->sum < 0) return remade(n, Op::kBinary, make_attrs<BinaryAttrs>(Binary::kMul), {x, scale}, "Mul+Add");
    const ValueId scaled = compute(in, static_cast<size_t>(g->sum), Binary::kMul, x, scale);
    return remade(n, Op::kBinary, make_attrs<BinaryAttrs>(Binary::kAdd), {scaled, g->bias}, "Mul+Add");
  }
  return std::nullopt;
}

}  // namespace smelt
