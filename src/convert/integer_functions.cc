// Functions of 8-bit values that TFLite has and that are computed as real ones between conversions: softmax, logistic
// functions, reciprocal square roots, squared differences.
#include <map>
#include <vector>

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

bool is_unary(const Node* n, Unary fn) {
  return n && n->op == Op::kUnary && static_cast<const UnaryAttrs&>(*n->attrs).fn == fn;
}

bool is_binary(const Node* n, Binary fn) {
  return n && n->op == Op::kBinary && static_cast<const BinaryAttrs&>(*n->attrs).fn == fn;
}

class IntegerFunctions {
  using Producers = std::map<ValueId, const Node*>;

 public:
  explicit IntegerFunctions(Graph& g) : g_(g), uses_(count_uses(g)) {}

  void run() {
    Producers producers;
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

  /// The node that makes a value; nullptr: none, or others read the value as well.
  const Node* only_for(ValueId id, const Producers& producers) const {
    const auto it = producers.find(id);
    return it != producers.end() && uses_[static_cast<size_t>(id)] == 1 ? it->second : nullptr;
  }
  /// The 8-bit value that a Dequantize makes this real value of; kNoValue: it is none.
  ValueId quantized(ValueId real, const Producers& producers) const {
    const auto it = producers.find(real);
    if (it == producers.end() || it->second->op != Op::kDequantize) return kNoValue;
    return is_8bit_tensor(it->second->inputs[0]) ? it->second->inputs[0] : kNoValue;
  }

  /// Makes the Quantize the function itself, if it is of that kind. True if it did.
  bool fuse(Node& quantize, const Producers& producers) const {
    const ValueId y = quantize.outputs[0];
    const Node* const last = only_for(quantize.inputs[0], producers);
    if (!last || !is_8bit_tensor(y)) return false;
    Node made = *last;
    if (is_probability(*last)) {
      if (type(y).quant->scale() != 1.f / 256 || type(y).quant->zero_point() != int_min(type(y).dtype)) return false;
      made.inputs = {quantized(last->inputs[0], producers)};
    } else if (is_unary(last, Unary::kRsqrt)) {
      // TFLite's kernel refuses negative values.
      const ValueId x = quantized(last->inputs[0], producers);
      if (x == kNoValue || type(x).quant->zero_point() != int_min(type(x).dtype)) return false;
      made.inputs = {x};
    } else {
      return false;
    }
    if (made.inputs[0] == kNoValue || type(made.inputs[0]).dtype != type(y).dtype) return false;
    made.outputs = {y};
    quantize = std::move(made);
    return true;
  }

  Graph& g_;
  std::vector<int> uses_;
};

/// Spells what stands between DequantizeLinear and QuantizeLinear as one operator.
class BetweenConversions {
 public:
  explicit BetweenConversions(Graph& g) : g_(g), uses_(count_uses(g)) {}

  void run() {
    bool changed = false;
    for (Node& n : g_.nodes) {
      if (n.op == Op::kQuantizeLinear && uses_[static_cast<size_t>(n.inputs[0])] == 1)
        if (const auto last = producers_.find(n.inputs[0]); last != producers_.end())
          changed |= reciprocal_root(*last->second, n) || squared_difference(*last->second, n);
      for (const ValueId id : n.outputs)
        if (id != kNoValue) producers_[id] = &n;
    }
    if (changed) remove_dead_nodes(g_);
  }

 private:
  const Node* maker(ValueId id) const {
    const auto it = producers_.find(id);
    return it == producers_.end() ? nullptr : it->second;
  }
  /// True if the value is the real one of integers of the type that the QuantizeLinear gives.
  bool is_dequantized(ValueId id, const Node& quantize) const {
    const Node* n = maker(id);
    return n && n->op == Op::kDequantizeLinear &&
           g_.value(n->inputs[0]).type.dtype == g_.value(quantize.outputs[0]).type.dtype;
  }
  /// 1 / sqrt(x) of 8-bit values that are never negative: TFLite's kernel refuses others.
  bool reciprocal_root(Node& last, const Node& quantize) const {
    const Node* root = is_unary(&last, Unary::kReciprocal) ? maker(last.inputs[0]) : nullptr;
    if (!is_unary(root, Unary::kSqrt) || uses_[static_cast<size_t>(last.inputs[0])] != 1 ||
        !is_dequantized(root->inputs[0], quantize))
      return false;
    const Node& source = *maker(root->inputs[0]);
    const DType dtype = g_.value(source.inputs[0]).type.dtype;
    const Tensor* zero =
        source.inputs.size() > 2 && source.inputs[2] != kNoValue ? g_.value(source.inputs[2]).constant.get() : nullptr;
    const int64_t least = is_8bit(dtype) ? int_min(dtype) : 1;
    if (zero ? zero->elements() != 1 || get_int(*zero, 0) != least : least != 0) return false;
    last.attrs = make_attrs<UnaryAttrs>(Unary::kRsqrt);
    last.inputs = {root->inputs[0]};
    return true;
  }
  bool squared_difference(Node& last, const Node& quantize) const {
    if (!is_binary(&last, Binary::kMul) || last.inputs[0] != last.inputs[1] || has_activation(last)) return false;
    const Node* difference = maker(last.inputs[0]);
    if (!is_binary(difference, Binary::kSub) || uses_[static_cast<size_t>(last.inputs[0])] != 2 ||
        has_activation(*difference) || static_cast<const BinaryAttrs&>(*difference->attrs).alpha != 1 ||
        !is_dequantized(difference->inputs[0], quantize) || !is_dequantized(difference->inputs[1], quantize))
      return false;
    last.attrs = make_attrs<BinaryAttrs>(Binary::kSquaredDifference);
    last.inputs = {difference->inputs[0], difference->inputs[1]};
    return true;
  }
  static bool has_activation(const Node& n) {
    return static_cast<const BinaryAttrs&>(*n.attrs).act.kind != ActKind::kNone;
  }

  Graph& g_;
  std::vector<int> uses_;
  std::map<ValueId, Node*> producers_;
};

}  // namespace

void name_integer_functions(Module& module) {
  for (Graph& graph : module.graphs) BetweenConversions(graph).run();
}

void join_integer_functions(Module& module) {
  for (Graph& graph : module.graphs) IntegerFunctions(graph).run();
}

}  // namespace smelt::convert
