#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "ops/core/op.h"
#include "ops/shape/shape.h"
#include "passes/fuse/pattern.h"
#include "passes/passes.h"

namespace smelt {
namespace {

/// The input of an elementwise node of one value whose others are constants, or absent; nullopt for another node.
std::optional<size_t> only_variable(const Pattern& in, const Node& n) {
  if (n.op != Op::kUnary && n.op != Op::kBinary && n.op != Op::kClamp) return std::nullopt;
  if (n.outputs.size() != 1 || n.outputs[0] == kNoValue || !in.is_f32(n.outputs[0])) return std::nullopt;
  std::optional<size_t> variable;
  for (size_t i = 0; i < n.inputs.size(); ++i) {
    if (n.inputs[i] == kNoValue || in.constant(n.inputs[i])) continue;
    if (variable) return std::nullopt;
    variable = i;
  }
  return variable;
}

/// True if a convolution makes a value, with elementwise nodes of constants behind it that nobody else reads.
bool made_by_convolution(const Pattern& in, ValueId id) {
  for (;;) {
    const int k = in.index_of_producer(id);
    if (k < 0 || !in.has_one_use(id)) return false;
    const Node& n = in.node(k);
    if (n.op == Op::kConv || n.op == Op::kConvTranspose) return true;
    const auto variable = only_variable(in, n);
    if (!variable) return false;
    id = n.inputs[*variable];
  }
}

/// A constant operand of a node that reads x transposed, for one that reads x: one element, or one for each index of a
/// dimension. nullopt: it is none of these.
std::optional<Tensor> turned_back(const Tensor& c, const Shape& transposed, const std::vector<int64_t>& perm) {
  const int rank = static_cast<int>(perm.size());
  if (c.rank() > rank || c.quant()) return std::nullopt;
  Shape shape;
  for (int i = 0; i < rank; ++i) shape.push_back(1);
  for (int i = 0; i < c.rank(); ++i) {
    if (c.dim(i) == 1) continue;
    const int axis = rank - c.rank() + i;
    if (c.elements() != c.dim(i) || transposed[axis] != c.dim(i)) return std::nullopt;
    shape[static_cast<int>(perm[static_cast<size_t>(axis)])] = c.dim(i);
  }
  if (c.elements() == 0) return std::nullopt;
  return c.reshaped(shape);
}

/// The node k, which reads the result of `transpose` as its input `at`, as one that reads what that transposes.
std::optional<Node> before_transpose(Pattern& in, size_t k, size_t at, const Node& transpose) {
  const auto perm = in.permutation(transpose);
  const ValueType& y = in.type(transpose.outputs[0]);
  if (!perm || !y.ranked || y.shape.rank() != static_cast<int>(perm->size()) || !in.type(transpose.inputs[0]).ranked)
    return std::nullopt;
  for (const int64_t axis : *perm)
    if (axis < 0 || axis >= y.shape.rank()) return std::nullopt;
  Node n = in.node(static_cast<int>(k));
  n.inputs[at] = transpose.inputs[0];
  for (size_t i = 0; i < n.inputs.size(); ++i) {
    const Tensor* c = i == at ? nullptr : in.constant(n.inputs[i]);
    if (!c || (n.op == Op::kClamp && c->elements() == 1)) continue;
    auto turned = turned_back(*c, y.shape, *perm);
    if (!turned) return std::nullopt;
    ValueType type = in.type(n.inputs[i]);
    type.shape = turned->shape();
    n.inputs[i] = in.add_value(std::move(type));
    in.graph().value(n.inputs[i]).constant = std::make_shared<const Tensor>(std::move(*turned));
  }
  return n;
}

}  // namespace

void sink_transposes(Graph& graph) {
  Pattern in(graph);
  for (size_t k = 0; k < graph.nodes.size(); ++k) {
    const auto at = only_variable(in, graph.nodes[k]);
    if (!at) continue;
    const ValueId x = graph.nodes[k].inputs[*at];
    const Node* const before = in.producer(x, Op::kTranspose);
    if (!before || !in.has_one_use(x) || !in.is_f32(x) || !made_by_convolution(in, before->inputs[0])) continue;
    Node transpose = *before;
    auto moved = before_transpose(in, k, *at, transpose);
    if (!moved) continue;
    const auto place = static_cast<size_t>(in.index_of_producer(x));
    moved->outputs = {in.add_value(in.type(transpose.inputs[0]))};
    transpose.inputs[0] = moved->outputs[0];
    transpose.outputs = graph.nodes[k].outputs;
    in.replace(place, std::move(*moved));
    in.replace(k, std::move(transpose));
  }
}

}  // namespace smelt
