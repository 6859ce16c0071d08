#include "passes/fuse/pattern.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "ops/core/op.h"
#include "ops/reduce/reduce.h"
#include "ops/shape/rules.h"
#include "ops/shape/shape.h"
#include "passes/passes.h"
#include "tensor/numeric.h"

namespace smelt {

namespace {
bool equals_its_float16(double value) {
  return std::abs(static_cast<double>(f16_to_f32(f64_to_f16(value))) - value) <= 1e-12 * std::abs(value);
}
}  // namespace

bool is_near(double value, double wanted) {
  constexpr double kFloat16 = 0x1p-11;  // its rounding
  const double error = std::abs(value - wanted), size = std::abs(wanted);
  return error <= 1e-4 * size ||
         (error <= kFloat16 * size && (equals_its_float16(value) || equals_its_float16(1 / value)));
}

Node remade(const Node& n, Op op, AttrsPtr attrs, std::vector<ValueId> inputs, const char* origin) {
  Node made = n;
  made.op = op;
  made.attrs = std::move(attrs);
  made.inputs = std::move(inputs);
  made.origin = origin;
  return made;
}

Pattern::Pattern(Graph& graph) : graph_(graph), producer_(graph.values.size(), -1), uses_(count_uses(graph)) {
  for (size_t k = 0; k < graph.nodes.size(); ++k)
    for (const ValueId id : graph.nodes[k].outputs)
      if (id != kNoValue) producer_[static_cast<size_t>(id)] = static_cast<int>(k);
}

bool Pattern::is_f32(ValueId id) const {
  const ValueType& t = type(id);
  return t.ranked && is_unquantized_f32(t);
}

int Pattern::index_of_producer(ValueId id) const { return id == kNoValue ? -1 : producer_[static_cast<size_t>(id)]; }

const Node* Pattern::producer(ValueId id, Op op) const {
  const int k = index_of_producer(id);
  if (k < 0) return nullptr;
  const Node& n = graph_.nodes[static_cast<size_t>(k)];
  const bool whole = std::ranges::find(n.inputs, kNoValue) == n.inputs.end();
  return n.op == op && n.outputs[0] == id && whole ? &n : nullptr;
}

const Node* Pattern::unary(ValueId id, Unary fn) const {
  const Node* n = producer(id, Op::kUnary);
  return n && static_cast<const UnaryAttrs&>(*n->attrs).fn == fn && is_f32(n->inputs[0]) ? n : nullptr;
}

const Node* Pattern::binary(ValueId id, Binary fn) const {
  const Node* n = producer(id, Op::kBinary);
  if (!n || !is_f32(id) || !is_f32(n->inputs[0])) return nullptr;
  const auto& a = static_cast<const BinaryAttrs&>(*n->attrs);
  return a.fn == fn && a.act.kind == ActKind::kNone && a.alpha == 1 ? n : nullptr;
}

std::optional<double> Pattern::scalar(ValueId id, ValueId beside) const {
  const Tensor* t = constant(id);
  const ValueType& other = type(beside);
  if (!t || t->elements() != 1 || t->quant() || !(is_float(t->dtype()) || is_integer(t->dtype())) || !other.ranked ||
      t->rank() > other.shape.rank())
    return std::nullopt;
  return get_double(*t, 0);
}

ValueId Pattern::addend_of(ValueId id, double c) const {
  const Node* n = binary(id, Binary::kAdd);
  for (size_t i = 0; n && i < 2; ++i) {
    const auto other = scalar(n->inputs[1 - i], n->inputs[i]);
    if (other && is_near(*other, c)) return n->inputs[i];
  }
  return kNoValue;
}

Product Pattern::product(ValueId id) const {
  Product p;
  constexpr int kDepth = 4;
  expand(id, kDepth, p);
  return p;
}

void Pattern::expand(ValueId id, int depth, Product& into) const {
  constexpr int kTop = 4;
  if (depth > 0 && (depth == kTop || has_one_use(id))) {
    if (const Node* n = binary(id, Binary::kMul)) {
      for (size_t i = 0; i < 2; ++i) {
        if (const auto c = scalar(n->inputs[i], n->inputs[1 - i]))
          into.coefficient *= *c;
        else
          expand(n->inputs[i], depth - 1, into);
      }
      return;
    }
    if (const Node* n = binary(id, Binary::kDiv)) {
      if (const auto c = scalar(n->inputs[1], n->inputs[0])) {
        into.coefficient /= *c;
        return expand(n->inputs[0], depth - 1, into);
      }
    }
    if (const Node* n = binary(id, Binary::kPow)) {
      const auto exponent = scalar(n->inputs[1], n->inputs[0]);
      if (exponent && (*exponent == 2 || *exponent == 3)) {
        into.factors.insert(into.factors.end(), static_cast<size_t>(*exponent), n->inputs[0]);
        return;
      }
    }
    if (const Node* n = unary(id, Unary::kSquare)) {
      into.factors.insert(into.factors.end(), 2, n->inputs[0]);
      return;
    }
  }
  into.factors.push_back(id);
}

std::optional<Pattern::Scaled> Pattern::scaled(ValueId id) const {
  const Node* n = binary(id, Binary::kMul);
  const bool divided = !n;
  if (divided) n = binary(id, Binary::kDiv);
  if (!n) return std::nullopt;
  const size_t i = !divided && constant(n->inputs[0]) ? 1 : 0;
  const auto number = scalar(n->inputs[1 - i], n->inputs[i]);
  return number ? std::optional(Scaled{n->inputs[i], *number, divided}) : std::nullopt;
}

ValueId Pattern::without_scale(ValueId id, double& scale) const {
  for (int steps = 0; steps < 4; ++steps) {
    const auto s = scaled(id);
    if (!s) break;
    scale = s->divided ? scale / s->number : scale * s->number;
    id = s->of;
  }
  return id;
}

bool Pattern::only_read_by(ValueId read, ValueId id) const {
  while (read != id) {
    const auto s = scaled(read);
    if (!s || !has_one_use(read)) return false;
    read = s->of;
  }
  return uses(id) <= 1;
}

std::optional<std::vector<int64_t>> permutation_of(const Graph& graph, const Node& transpose) {
  if (transpose.inputs.size() < 2) return static_cast<const TransposeAttrs&>(*transpose.attrs).perm;
  const ValueId id = transpose.inputs[1];
  const Tensor* t = id == kNoValue ? nullptr : graph.value(id).constant.get();
  return t && is_integer(t->dtype()) ? std::optional(ints_of(*t)) : std::nullopt;
}

std::optional<std::vector<int64_t>> Pattern::permutation(const Node& n) const { return permutation_of(graph_, n); }

ValueId Pattern::mean_over_last(ValueId id) const {
  const Node* n = producer(id, Op::kReduce);
  if (!n || n->inputs.size() != 2 || !is_f32(n->inputs[0]) || !is_f32(id)) return kNoValue;
  const auto& a = static_cast<const ReduceAttrs&>(*n->attrs);
  const Tensor* axes = constant(n->inputs[1]);
  if (a.fn != Reduction::kMean || !a.keep_dims || a.accumulate != DType::kInvalid || !axes || axes->elements() != 1)
    return kNoValue;
  const int64_t axis = get_int(*axes, 0);
  return axis == -1 || axis == type(n->inputs[0]).shape.rank() - 1 ? n->inputs[0] : kNoValue;
}

void Pattern::replace(size_t index, Node node) {
  Node& n = graph_.nodes[index];
  for (const ValueId id : n.inputs)
    if (id != kNoValue) --uses_[static_cast<size_t>(id)];
  n = std::move(node);
  for (const ValueId id : n.inputs)
    if (id != kNoValue) ++uses_[static_cast<size_t>(id)];
  for (const ValueId id : n.outputs)
    if (id != kNoValue) producer_[static_cast<size_t>(id)] = static_cast<int>(index);
}

ValueId Pattern::add_value(ValueType type) {
  producer_.push_back(-1);
  uses_.push_back(0);
  return graph_.add_value({.name = "", .type = std::move(type)});
}

void put_in_places(Graph& graph, std::map<size_t, std::vector<Node>> made) {
  if (made.empty()) return;
  std::vector<Node> nodes;
  for (size_t k = 0; k < graph.nodes.size(); ++k) {
    if (const auto in_place = made.find(k); in_place != made.end())
      std::ranges::move(in_place->second, std::back_inserter(nodes));
    else
      nodes.push_back(std::move(graph.nodes[k]));
  }
  graph.nodes = std::move(nodes);
  remove_dead_nodes(graph);
}

}  // namespace smelt
