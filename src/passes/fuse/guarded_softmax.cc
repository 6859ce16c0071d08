#include "passes/fuse/guarded_softmax.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/core/op.h"
#include "ops/elementwise/elementwise.h"
#include "ops/reduce/reduce.h"
#include "ops/softmax/softmax.h"
#include "passes/fuse/pattern.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

bool is_zeros(const Tensor* t) {
  if (!t || t->dtype() != DType::kF32 || t->quant()) return false;
  const float* const x = t->data<float>();
  return std::ranges::all_of(x, x + t->elements(), [](float v) { return v == 0; });
}

/// The node that negates truth values; nullptr: another one makes the value.
const Node* negation(const Pattern& in, ValueId id) {
  const Node* n = in.producer(id, Op::kUnary);
  return n && static_cast<const UnaryAttrs&>(*n->attrs).fn == Unary::kNot ? n : nullptr;
}

/// True if a value tells of each row of x that all of it is -inf.
bool tells_hidden_rows(const Pattern& in, ValueId id, ValueId x) {
  const Node* seen = negation(in, id);
  const Node* any = seen ? in.producer(seen->inputs[0], Op::kReduce) : nullptr;
  if (!any || any->inputs.size() < 2) return false;
  const auto& a = static_cast<const ReduceAttrs&>(*any->attrs);
  const Tensor* axes = in.constant(any->inputs[1]);
  if (a.fn != Reduction::kAny || !a.keep_dims || !axes || axes->elements() != 1) return false;
  const int64_t axis = get_int(*axes, 0);
  if (axis != -1 && axis != in.type(x).shape.rank() - 1) return false;
  const Node* shown = negation(in, any->inputs[0]);
  const Node* hidden = shown ? in.producer(shown->inputs[0], Op::kBinary) : nullptr;
  return hidden && static_cast<const BinaryAttrs&>(*hidden->attrs).fn == Binary::kEqual && hidden->inputs[0] == x &&
         in.scalar(hidden->inputs[1], x) == -std::numeric_limits<double>::infinity();
}

/// The Softmax behind a guard; nullptr: the node is none.
const Node* guarded_softmax(const Pattern& in, const Node& guard) {
  if (guard.op != Op::kWhere || guard.inputs.size() != 3 || !in.is_f32(guard.outputs[0])) return nullptr;
  const Node* n = in.producer(guard.inputs[2], Op::kSoftmax);
  if (!n || !in.has_one_use(guard.inputs[2]) || !is_zeros(in.constant(guard.inputs[1]))) return nullptr;
  const ValueType &x = in.type(n->inputs[0]), &y = in.type(guard.outputs[0]);
  const auto& a = static_cast<const SoftmaxAttrs&>(*n->attrs);
  if (!x.ranked || !(x.shape == y.shape) || (a.axis != -1 && a.axis != x.shape.rank() - 1)) return nullptr;
  return tells_hidden_rows(in, guard.inputs[0], n->inputs[0]) ? n : nullptr;
}

}  // namespace

bool has_guarded_softmax(Graph& graph) {
  if (std::ranges::none_of(graph.nodes, [](const Node& n) { return n.op == Op::kWhere; })) return false;
  const Pattern in(graph);
  return std::ranges::any_of(graph.nodes, [&](const Node& n) { return guarded_softmax(in, n) != nullptr; });
}

std::vector<GuardedSoftmax> drop_softmax_guards(Graph& graph, const std::vector<ValueId>& kept) {
  std::vector<GuardedSoftmax> dropped;
  Pattern in(graph);
  for (size_t k = 0; k < graph.nodes.size(); ++k) {
    const Node guard = graph.nodes[k];
    const Node* const softmax = guarded_softmax(in, guard);
    if (!softmax || std::ranges::find(kept, guard.outputs[0]) != kept.end()) continue;
    Node n = *softmax;
    n.outputs = guard.outputs;
    n.origin += "+" + guard.origin;
    dropped.push_back({guard.outputs[0], guard.inputs[1]});
    in.replace(k, std::move(n));
  }
  return dropped;
}

}  // namespace smelt
