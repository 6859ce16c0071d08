// 8-bit values as delegates take them: typed by their quantization parameters, and int8.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "convert/convert.h"
#include "formats/common/int8_form.h"
#include "formats/common/written_node.h"
#include "ops/common/quantized_pair.h"
#include "ops/core/op.h"
#include "ops/elementwise/elementwise.h"
#include "ops/pool/pool.h"
#include "passes/passes.h"
#include "tensor/quant_params.h"

namespace smelt::convert {
namespace {

/// One input, one output, at the place of another node.
Node beside(const Node& place, Op op, AttrsPtr attrs, ValueId from, ValueId to) {
  Node n = place;
  n.op = op;
  n.attrs = std::move(attrs);
  n.inputs = {from};
  n.outputs = {to};
  return n;
}

Node quantize(const Node& place, ValueId from, ValueId to) {
  return beside(place, Op::kQuantize, make_attrs<NoAttrs>(), from, to);
}

/// Gives the integers of QuantizeLinear and DequantizeLinear the parameters of these as their type.
class QuantTyping {
 public:
  /// `entry`: the graph of a method, whose inputs and outputs may get parameters as well.
  QuantTyping(Graph& g, bool entry) : g_(g), entry_(entry) {}

  void run() {
    if (entry_) type_inputs();
    std::vector<Node> nodes;
    std::swap(nodes, g_.nodes);
    for (Node& n : nodes) {
      for (ValueId& id : n.inputs)
        if (const auto at = same_.find(id); at != same_.end()) id = at->second;
      if (!rewrite(n)) g_.nodes.push_back(std::move(n));
    }
    for (ValueId& id : g_.outputs)
      if (const auto at = same_.find(id); at != same_.end()) id = at->second;
    if (entry_) type_outputs();
    remove_dead_nodes(g_);
  }

 private:
  const ValueType& type(ValueId id) const { return g_.value(id).type; }

  /// Parameters of a DequantizeLinear or QuantizeLinear whose integers are `raw`; null if these can't have them.
  QuantPtr parameters(const Node& n, ValueId raw, ValueId real) const {
    const QuantPtr q = formats::linear_quant({g_, n});
    const bool fit = is_per_tensor(q) && std::isnormal(q->scale()) && q->scale() > 0 && is_8bit(type(raw).dtype) &&
                     !type(raw).quant && !g_.value(raw).constant && type(real).dtype == DType::kF32 &&
                     !type(real).quant;
    return fit ? q : nullptr;
  }

  /// The parameters that all readers of an 8-bit value dequantize it by, some of them behind nodes that move it. Null
  /// if it has other readers or several parameters.
  QuantPtr read_by(ValueId raw, const std::map<ValueId, std::vector<const Node*>>& readers, int depth = 0) const {
    constexpr int kMostMoves = 16;
    if (depth > kMostMoves || std::ranges::count(g_.outputs, raw) > 0) return nullptr;
    const auto at = readers.find(raw);
    QuantPtr all;
    for (const Node* n : at == readers.end() ? std::vector<const Node*>{} : at->second) {
      if (n->outputs.size() != 1 || n->outputs[0] == kNoValue || n->inputs[0] != raw) return nullptr;
      const ValueId y = n->outputs[0];
      QuantPtr q;
      if (n->op == Op::kDequantizeLinear)
        q = parameters(*n, raw, y);
      else if (n->op == Op::kBitCast && type(y).dtype == type(raw).dtype && is_per_tensor(type(y).quant))
        q = type(y).quant;
      else if (n->op != Op::kConcat && keeps_quant_params(*n))
        q = read_by(y, readers, depth + 1);
      if (!q || (all && !same_quant_params(all, q))) return nullptr;
      all = q;
    }
    return all;
  }

  /// Gives inputs of 8-bit integers that nodes read as real values of one scale that scale.
  void type_inputs() {
    std::map<ValueId, std::vector<const Node*>> readers;
    for (const Node& n : g_.nodes)
      for (const ValueId id : n.inputs)
        if (id != kNoValue) readers[id].push_back(&n);
    for (ValueId& id : g_.inputs) {
      if (id == kNoValue || !is_8bit(type(id).dtype) || type(id).quant || g_.value(id).constant) continue;
      if (const QuantPtr q = read_by(id, readers)) id = take_name(id, add_typed(id, q));
    }
  }

  /// Makes outputs of integers that have a typed form that form.
  void type_outputs() {
    for (ValueId& id : g_.outputs) {
      const auto known = typed_.find(id);
      if (known == typed_.end() || known->second.size() != 1) continue;
      if (std::ranges::count(g_.inputs, id) > 0 || std::ranges::count(g_.outputs, id) > 1) continue;
      // A value that is an output already keeps its name.
      if (std::ranges::count(g_.outputs, known->second[0]) == 0) id = take_name(id, known->second[0]);
    }
  }

  /// Gives a value the name and the names of dimensions of another.
  ValueId take_name(ValueId from, ValueId to) {
    g_.value(to).name = std::exchange(g_.value(from).name, {});
    g_.value(to).dim_names = g_.value(from).dim_names;
    g_.value(to).bound = g_.value(from).bound;
    return to;
  }

  bool rewrite(const Node& n) {
    if (n.inputs.empty() || n.outputs.size() != 1 || n.inputs[0] == kNoValue || n.outputs[0] == kNoValue) return false;
    const ValueId x = n.inputs[0], y = n.outputs[0];
    if (n.op == Op::kBitCast) return bit_cast(x, y);
    if (keeps_quant_params(n)) return keep(n, y);
    if (n.op != Op::kQuantizeLinear && n.op != Op::kDequantizeLinear) return false;
    const bool quantizes = n.op == Op::kQuantizeLinear;
    const ValueId raw = quantizes ? y : x, real = quantizes ? x : y;
    const QuantPtr q = parameters(n, raw, real);
    if (!q) return false;
    if (quantizes) {
      const ValueId typed = add_typed(raw, q);
      g_.nodes.push_back(quantize(n, x, typed));
      add_bit_cast(n, typed, raw);
    } else {
      g_.nodes.push_back(beside(n, Op::kDequantize, make_attrs<NoAttrs>(), typed_of(n, raw, q), y));
    }
    return true;
  }

  /// True if the operator gives on integers what it gives on their real values.
  static bool keeps_quant_params(const Node& n) {
    return (op_info(n.op).flags & kQuantTransparent) != 0 || n.op == Op::kConcat ||
           (n.op == Op::kPool && static_cast<const PoolAttrs&>(*n.attrs).kind == PoolKind::kMax);
  }

  /// Runs the node on typed values if its operand has such; parts that it joins have the same parameters.
  bool keep(const Node& n, ValueId y) {
    Node made = n;
    const size_t operands = n.op == Op::kConcat ? n.inputs.size() : 1;
    QuantPtr quant;
    for (size_t i = 0; i < operands; ++i) {
      const auto known = typed_.find(n.inputs[i]);
      if (known == typed_.end() || type(n.inputs[i]).dtype != type(y).dtype) return false;
      made.inputs[i] = known->second.front();
      const QuantPtr& q = type(made.inputs[i]).quant;
      if (!is_per_tensor(q) || (quant && !same_quant_params(q, quant))) return false;
      quant = q;
    }
    made.outputs[0] = add_typed(y, quant);
    const ValueId typed = made.outputs[0];
    g_.nodes.push_back(std::move(made));
    add_bit_cast(n, typed, y);
    return true;
  }

  /// True if the typed value that the node gives is there already.
  bool bit_cast(ValueId x, ValueId y) {
    const ValueType &from = type(x), &to = type(y);
    if (from.dtype != to.dtype || !from.quant == !to.quant) return false;
    auto& known = typed_[from.quant ? y : x];
    const ValueId typed = from.quant ? x : y;
    const auto at =
        std::ranges::find_if(known, [&](ValueId id) { return same_quant_params(type(id).quant, type(typed).quant); });
    if (at == known.end()) {
      known.push_back(typed);
      return false;
    }
    if (from.quant) return false;
    same_[y] = *at;
    return true;
  }

  ValueId add_typed(ValueId raw, const QuantPtr& q) {
    Value v;
    v.type = type(raw);
    v.type.quant = q;
    const ValueId id = g_.add_value(std::move(v));
    typed_[raw].push_back(id);
    return id;
  }

  ValueId typed_of(const Node& place, ValueId raw, const QuantPtr& q) {
    for (const ValueId id : typed_[raw])
      if (same_quant_params(type(id).quant, q)) return id;
    const ValueId id = add_typed(raw, q);
    add_bit_cast(place, raw, id);
    return id;
  }

  void add_bit_cast(const Node& place, ValueId from, ValueId to) {
    CastAttrs a;
    a.to = type(to).dtype;
    g_.nodes.push_back(beside(place, Op::kBitCast, make_attrs<CastAttrs>(a), from, to));
  }

  Graph& g_;
  bool entry_;
  std::map<ValueId, std::vector<ValueId>> typed_;  ///< by integers: the same with parameters
  std::map<ValueId, ValueId> same_;                ///< what a value is replaced by
};

/// Makes the quantized uint8 values of a graph int8. Its inputs and outputs stay, and so do the operands of nodes for
/// which the integers themselves count.
class Int8Values {
 public:
  explicit Int8Values(Graph& g) : g_(g), kept_(g.outputs.begin(), g.outputs.end()) {
    for (const Node& n : g_.nodes)
      if (reads_integers(n)) kept_.insert(n.inputs.begin(), n.inputs.end());
  }

  void run() {
    std::vector<Node> nodes;
    std::swap(nodes, g_.nodes);
    for (Node& n : nodes) {
      const bool stays = reads_integers(n);
      std::vector<std::pair<ValueId, ValueId>> back;
      for (ValueId& id : n.inputs)
        if (!stays && is_quantized_uint8(id) && !becomes_real(n, id)) id = operand(n, id);
      for (ValueId& id : n.outputs) {
        if (stays || !is_quantized_uint8(id)) continue;
        const ValueId narrow = int8_[id] = add_int8(id);
        if (kept_.contains(id)) back.emplace_back(narrow, id);
        id = narrow;
      }
      g_.nodes.push_back(std::move(n));
      for (const auto& [from, to] : back) {
        const Node given = g_.nodes.back();
        g_.nodes.push_back(quantize(given, from, to));
      }
    }
  }

 private:
  bool is_quantized_uint8(ValueId id) const {
    if (id == kNoValue) return false;
    const ValueType& t = g_.value(id).type;
    return t.dtype == DType::kU8 && t.quant && t.quant->kind != Quantization::Kind::kPerToken;
  }

  /// True if a node makes computed uint8 values real that have no int8 form yet: it needs none.
  bool becomes_real(const Node& n, ValueId id) const {
    return n.op == Op::kDequantize && !int8_.contains(id) && !g_.value(id).constant;
  }

  /// True if a node depends on the integers of its operands, or hands them to where they are not known.
  bool reads_integers(const Node& n) const {
    const auto is_integer_operand = [&](ValueId id) {
      return id != kNoValue && g_.value(id).type.dtype == DType::kU8 && !is_quantized_uint8(id);
    };
    return n.op == Op::kBitCast || n.op == Op::kCast ||
           (op_info(n.op).flags & (kControl | kEffect | kContainer)) != 0 ||
           std::ranges::any_of(n.inputs, is_integer_operand) || std::ranges::any_of(n.outputs, is_integer_operand);
  }

  ValueId add_int8(ValueId id) {
    const Value& from = g_.value(id);
    Value v;
    v.name = from.name;
    v.type = from.type;
    v.type.dtype = DType::kI8;
    v.type.quant = formats::shifted_quant(from.type.quant, -128);
    if (const auto& t = from.constant) {
      Tensor shifted = formats::int8_of_uint8(*t);
      shifted.set_quant(v.type.quant);
      v.constant = std::make_shared<const Tensor>(std::move(shifted));
    }
    return g_.add_value(std::move(v));
  }

  /// The int8 form of an operand, made in front of the node if there is none.
  ValueId operand(const Node& reader, ValueId id) {
    if (const auto at = int8_.find(id); at != int8_.end()) return at->second;
    const ValueId narrow = int8_[id] = add_int8(id);
    if (!g_.value(id).constant) g_.nodes.push_back(quantize(reader, id, narrow));
    return narrow;
  }

  Graph& g_;
  std::set<ValueId> kept_;           ///< values whose uint8 form is needed
  std::map<ValueId, ValueId> int8_;  ///< by uint8 value
};

}  // namespace

void type_integers(Module& module) {
  for (size_t i = 0; i < module.graphs.size(); ++i)
    QuantTyping(module.graphs[i],
                std::ranges::any_of(module.methods, [&](const Method& m) { return m.graph == static_cast<int>(i); }))
        .run();
}

void make_int8(Module& module) {
  if (formats::has_shifted_uint8_weights(module)) return;
  for (Graph& graph : module.graphs) Int8Values(graph).run();
}

}  // namespace smelt::convert
