// Softmax and logistic functions of 8-bit values, computed as real ones between conversions.
#include <map>

#include "convert/convert.h"
#include "ops/common/quantized_pair.h"
#include "ops/core/op.h"
#include "ops/elementwise/elementwise.h"
#include "ops/softmax/softmax.h"
#include "passes/passes.h"
#include "tensor/numeric.h"
#include "tensor/quant_params.h"

namespace smelt::convert {
namespace {

bool is_probability(const Node& n) {
  if (n.op == Op::kUnary) return static_cast<const UnaryAttrs&>(*n.attrs).fn == Unary::kSigmoid;
  return n.op == Op::kSoftmax && static_cast<const SoftmaxAttrs&>(*n.attrs).kind == SoftmaxAttrs::Kind::kSoftmax;
}

class IntegerFunctions {
 public:
  explicit IntegerFunctions(Graph& g) : g_(g), uses_(count_uses(g)) {}

  void run() {
    std::map<ValueId, const Node*> producers;
    bool changed = false;
    for (Node& n : g_.nodes) {
      if (n.op == Op::kQuantize) changed |= fuse(n, producers);
      for (const ValueId id : n.outputs)
        if (id != kNoValue) producers[id] = &n;
    }
    if (changed) remove_dead_nodes(g_);
  }

 private:
  const ValueType& type(ValueId id) const { return g_.value(id).type; }
  bool is_8bit_tensor(ValueId id) const { return is_8bit(type(id).dtype) && is_per_tensor(type(id).quant); }

  /// Makes the Quantize the function itself, if it is of that kind. True if it did.
  bool fuse(Node& quantize, const std::map<ValueId, const Node*>& producers) const {
    const auto from = producers.find(quantize.inputs[0]);
    if (from == producers.end() || !is_probability(*from->second) ||
        uses_[static_cast<size_t>(quantize.inputs[0])] != 1)
      return false;
    const Node& function = *from->second;
    const auto source = producers.find(function.inputs[0]);
    if (source == producers.end() || source->second->op != Op::kDequantize) return false;
    const ValueId x = source->second->inputs[0], y = quantize.outputs[0];
    if (!is_8bit_tensor(x) || !is_8bit_tensor(y) || type(x).dtype != type(y).dtype ||
        type(y).quant->scale() != 1.f / 256 || type(y).quant->zero_point() != int_min(type(y).dtype))
      return false;
    Node made = function;
    made.inputs = {x};
    made.outputs = {y};
    quantize = std::move(made);
    return true;
  }

  Graph& g_;
  std::vector<int> uses_;
};

}  // namespace

void join_integer_functions(Module& module) {
  for (Graph& graph : module.graphs) IntegerFunctions(graph).run();
}

}  // namespace smelt::convert
