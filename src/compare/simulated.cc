#include <utility>

#include "base/error.h"
#include "compare/quantization.h"
#include "ops/core/op.h"
#include "ops/elementwise/elementwise.h"
#include "ops/pool/pool.h"
#include "tensor/numeric.h"
#include "tensor/quant_params.h"

namespace smelt {
namespace {

bool quantized(const ValueType& t) {
  return t.kind == ValueType::Kind::kTensor && t.quant && is_integer(t.dtype) &&
         t.quant->kind != Quantization::Kind::kPerToken;
}

class Simulation {
 public:
  explicit Simulation(Graph& g) : g_(g), real_(g.values.size(), kNoValue) {}

  Status run() {
    std::vector<Node> nodes = std::move(g_.nodes);
    g_.nodes.clear();
    for (const ValueId id : g_.inputs)
      if (id != kNoValue && quantized(type(id))) real_[static_cast<size_t>(id)] = dequantize_node(id);
    for (Node& n : nodes) SMELT_TRY(add(std::move(n)));
    return Ok();
  }

 private:
  const ValueType& type(ValueId id) const { return g_.value(id).type; }

  Status add(Node n) {
    if (op_info(n.op).flags & (kControl | kContainer | kEffect)) {
      for (const ValueId id : n.outputs)
        if (id != kNoValue && quantized(type(id)))
          return Unsupported(n.where, " ", n.origin,
                             ": a variable or a body with quantized values cannot be simulated");
      g_.nodes.push_back(std::move(n));
      return Ok();
    }
    const bool keeps = keeps_quantization(n);
    SMELT_TRY(dequantize_bias(n));
    if (n.op != Op::kDequantize)
      for (ValueId& id : n.inputs)
        if (id != kNoValue && quantized(type(id))) id = real_form(id);
    std::vector<std::pair<ValueId, ValueId>> rounded;  // real result, the value that it is rounded to
    if (n.op != Op::kQuantize)
      for (ValueId& id : n.outputs) {
        if (id == kNoValue || !quantized(type(id))) continue;
        const ValueId made = add_real(id);
        if (keeps)
          real_[static_cast<size_t>(id)] = made;
        else
          rounded.emplace_back(made, id);
        id = made;
      }
    const std::vector<ValueId> outputs = n.outputs;
    Node like = n;
    g_.nodes.push_back(std::move(n));
    for (const auto& [from, to] : rounded) emit(like, Op::kQuantize, from, to);
    for (const auto& [from, to] : rounded) real_[static_cast<size_t>(to)] = dequantize_node(to);
    if (like.op == Op::kQuantize)
      for (const ValueId id : outputs)
        if (id != kNoValue) real_[static_cast<size_t>(id)] = dequantize_node(id);
    for (ValueId& id : g_.outputs)
      if (id != kNoValue && static_cast<size_t>(id) < real_.size() && real_[static_cast<size_t>(id)] != kNoValue)
        id = real_[static_cast<size_t>(id)];
    return Ok();
  }
  /// A bias of integers without parameters counts in products of the input's and the weights' steps.
  Status dequantize_bias(Node& n) {
    if (!(op_info(n.op).flags & kWeighted) || n.inputs.size() < 3 || n.inputs[2] == kNoValue) return Ok();
    const Value& bias = g_.value(n.inputs[2]);
    if (quantized(bias.type) || !is_integer(bias.type.dtype)) return Ok();
    const ValueType &x = type(n.inputs[0]), &w = type(n.inputs[1]);
    if (!bias.constant || !quantized(x) || !quantized(w))
      return Unsupported(n.where, " ", n.origin, ": a bias of integers without known steps cannot be simulated");
    const auto channels = static_cast<size_t>(bias.constant->elements());
    if (x.quant->scales.size() != 1 || (w.quant->scales.size() != 1 && w.quant->scales.size() != channels))
      return Unsupported(n.where, " ", n.origin, ": weights quantized by blocks cannot be simulated");
    Tensor real(DType::kF32, bias.constant->shape());
    for (size_t i = 0; i < channels; ++i) {
      const auto at = static_cast<int64_t>(i);
      real.data<float>()[i] =
          static_cast<float>(static_cast<double>(get_int(*bias.constant, at)) * x.quant->scale() * w.quant->scale(at));
    }
    const ValueId made = add_real(n.inputs[2]);
    g_.value(made).constant = std::make_shared<const Tensor>(std::move(real));
    n.inputs[2] = made;
    return Ok();
  }
  /// True if the node's results are some of its operands' values, with their quantization.
  bool keeps_quantization(const Node& n) const {
    const bool moves = (op_info(n.op).flags & (kDataMovement | kQuantTransparent | kView)) != 0 ||
                       n.op == Op::kConcat ||
                       (n.op == Op::kPool && static_cast<const PoolAttrs&>(*n.attrs).kind == PoolKind::kMax);
    if (!moves || n.outputs.empty() || n.outputs[0] == kNoValue) return false;
    for (const ValueId id : n.inputs)
      if (id != kNoValue && quantized(type(id)) && !same_quant_params(type(id).quant, type(n.outputs[0]).quant))
        return false;
    return true;
  }
  ValueId add_real(ValueId of) {
    Value v;
    v.name = g_.value(of).name;
    v.type = type(of);
    v.type.dtype = DType::kF32;
    v.type.quant = nullptr;
    return g_.add_value(std::move(v));
  }
  ValueId real_form(ValueId id) {
    ValueId& made = real_[static_cast<size_t>(id)];
    if (made != kNoValue) return made;
    const auto& constant = g_.value(id).constant;
    if (!constant) return made = dequantize_node(id);
    Tensor real(DType::kF32, constant->shape());
    Tensor view = *constant;
    if (!view.quant()) view.set_quant(type(id).quant);
    dequantize(view, real.data<float>());
    const ValueId added = add_real(id);
    g_.value(added).constant = std::make_shared<const Tensor>(std::move(real));
    return made = added;
  }
  ValueId dequantize_node(ValueId id) {
    const ValueId made = add_real(id);
    Node like;
    like.name = g_.value(id).name;
    emit(like, Op::kDequantize, id, made);
    return made;
  }
  void emit(const Node& like, Op op, ValueId from, ValueId to) {
    Node n;
    n.op = op;
    n.inputs = {from};
    n.outputs = {to};
    n.attrs = make_attrs<NoAttrs>();
    n.name = like.name;
    n.where = like.where;
    n.origin = "simulated";
    g_.nodes.push_back(std::move(n));
  }

  Graph& g_;
  std::vector<ValueId> real_;  ///< float32 form of each quantized value; kNoValue: none yet
};

}  // namespace

Result<std::shared_ptr<const Module>> simulated(const Module& module, int graph) {
  auto copy = std::make_shared<Module>(module);
  SMELT_TRY(Simulation(copy->graphs[static_cast<size_t>(graph)]).run());
  return std::shared_ptr<const Module>(std::move(copy));
}

}  // namespace smelt
