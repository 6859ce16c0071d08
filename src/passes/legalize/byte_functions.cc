// Functions of one 8-bit value that a graph computes by several nodes, such as x * sigmoid(x) or a GELU between
// DequantizeLinear and QuantizeLinear, as lookup tables.
#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "ops/common/quantized_pair.h"
#include "ops/common/run_reference.h"
#include "ops/core/op.h"
#include "ops/elementwise/elementwise.h"
#include "passes/passes.h"
#include "tensor/quant_params.h"

namespace smelt {
namespace {

/// What is known of a value that is a function of another, element by element.
struct ByteFunction {
  ValueId of = kNoValue;  ///< the 8-bit value
  size_t node = 0;        ///< that makes it
  int nodes = 0;          ///< that compute it
  int depth = 0;          ///< of the nodes, one behind the other
  Tensor results;         ///< [256], for the bytes 0 to 255 of that value, once they were asked for
};

bool is_ranked_tensor(const ValueType& t) { return t.kind == ValueType::Kind::kTensor && t.ranked; }
/// True if a table can have results of the type, or be asked for them: 8 bits, quantized per tensor or integers.
bool is_byte(const ValueType& t) {
  return is_ranked_tensor(t) && is_8bit(t.dtype) && (!t.quant || is_per_tensor(t.quant));
}
bool is_real_tensor(const ValueType& t) { return t.ranked && is_unquantized_f32(t); }

/// True if the operator computes element by element.
bool is_elementwise(Op op) {
  constexpr Op kOperators[] = {Op::kUnary,      Op::kBinary,  Op::kClamp,          Op::kQuantize,
                               Op::kDequantize, Op::kBitCast, Op::kQuantizeLinear, Op::kDequantizeLinear};
  return std::ranges::find(kOperators, op) != std::end(kOperators);
}

/// Every byte in order, as values of that type.
Tensor all_bytes(const ValueType& type) {
  Tensor t(type.dtype, Shape{256});
  for (int i = 0; i < 256; ++i) t.data<uint8_t>()[i] = static_cast<uint8_t>(i);
  t.set_quant(type.quant);
  return t;
}

class ByteTabulator {
 public:
  explicit ByteTabulator(const Graph& g) : g_(g), function_of_(g.values.size(), -1) {}
  /// Makes the tables. False: the graph needs none.
  bool find() {
    for (size_t k = 0; k < g_.nodes.size(); ++k) {
      auto f = function(k);
      if (!f) continue;
      const bool by_table = is_byte(g_.value(g_.nodes[k].outputs[0]).type) && g_.nodes[k].op != Op::kBitCast;
      if (by_table && (f->nodes > 1 || g_.nodes[k].op == Op::kBinary)) {
        if (!compute(*f)) continue;
        tables_.emplace_back(k, table(g_.nodes[k], *f));
      }
      function_of_[static_cast<size_t>(g_.nodes[k].outputs[0])] = static_cast<int32_t>(functions_.size());
      functions_.push_back(std::move(*f));
    }
    return !tables_.empty();
  }
  /// Puts the tables into the graph or a copy of it; nothing may be called afterwards.
  void apply(Graph& graph) {
    for (Value& v : constants_) graph.add_value(std::move(v));
    for (auto& [k, node] : tables_) graph.nodes[k] = std::move(node);
    if (!tables_.empty()) remove_dead_nodes(graph);
  }

 private:
  static constexpr int kMostDepth = 200;

  /// What is known of a value as a function of another; nullptr: nothing.
  ByteFunction* known(ValueId id) {
    const auto i = static_cast<size_t>(id);
    return i < function_of_.size() && function_of_[i] >= 0 ? &functions_[static_cast<size_t>(function_of_[i])]
                                                           : nullptr;
  }
  /// The function, without results, that a node's output is; nullopt where it depends on more than one 8-bit value, or
  /// on its place.
  std::optional<ByteFunction> function(size_t k) {
    const Node& n = g_.nodes[k];
    if (!is_elementwise(n.op) || n.outputs.size() != 1 || n.outputs[0] == kNoValue) return std::nullopt;
    const ValueType& type = g_.value(n.outputs[0]).type;
    if (!is_byte(type) && !is_real_tensor(type)) return std::nullopt;
    ByteFunction f;
    f.node = k;
    f.nodes = n.op == Op::kBitCast ? 0 : 1;
    for (const ValueId id : n.inputs) {
      if (id == kNoValue && n.op == Op::kClamp) continue;  // no such bound
      if (id == kNoValue) return std::nullopt;
      const Value& v = g_.value(id);
      if (v.constant) {
        if (v.constant->elements() != 1 || v.constant->rank() > 1 || v.constant->rank() > type.shape.rank())
          return std::nullopt;
        continue;
      }
      if (!is_ranked_tensor(v.type) || v.type.shape != type.shape) return std::nullopt;
      const ByteFunction* const before = known(id);
      if (!before && !is_byte(v.type)) return std::nullopt;
      const ValueId of = before ? before->of : id;
      if (f.of != kNoValue && f.of != of) return std::nullopt;
      f.of = of;
      if (!before) continue;
      f.nodes += before->nodes;
      f.depth = std::max(f.depth, before->depth + 1);
    }
    return f.of == kNoValue || f.depth > kMostDepth ? std::nullopt : std::optional(std::move(f));
  }
  /// Gives a function its results. False: the reference kernels give none.
  bool compute(ByteFunction& f) {
    if (f.results.defined()) return true;
    const Node& n = g_.nodes[f.node];
    std::vector<Datum> in;
    for (const ValueId id : n.inputs) {
      if (id == kNoValue) {
        in.emplace_back();
        continue;
      }
      const Value& v = g_.value(id);
      ByteFunction* const before = v.constant ? nullptr : known(id);
      if (before && !compute(*before)) return false;
      in.emplace_back(v.constant ? *v.constant : before ? before->results : all_bytes(v.type));
    }
    const ValueType& type = g_.value(n.outputs[0]).type;
    Tensor out(type.dtype, Shape{256});
    out.set_quant(type.quant);
    auto made = run_reference(n, std::move(in), {out});
    if (!made.ok() || made->front().elements() != 256) return false;
    f.results = std::move(made->front());
    f.results.set_quant(type.quant);
    return true;
  }
  /// The node that makes the results: a view where each byte stands for itself.
  Node table(const Node& n, const ByteFunction& f) {
    Node made = n;
    ValueType keys = g_.value(f.of).type;
    keys.quant = nullptr;
    Tensor key_bytes = all_bytes(keys);
    if (std::memcmp(f.results.raw(), key_bytes.raw(), 256) == 0) {
      made.op = Op::kBitCast;
      made.attrs = make_attrs<CastAttrs>(f.results.dtype());
      made.inputs = {f.of};
      return made;
    }
    Tensor otherwise(f.results.dtype(), Shape{1});
    otherwise.set_quant(f.results.quant());
    made.op = Op::kTableFind;
    made.attrs = make_attrs<NoAttrs>();
    made.inputs = {f.of, constant(std::move(key_bytes)), constant(f.results), constant(std::move(otherwise))};
    return made;
  }
  ValueId constant(Tensor t) {
    constants_.push_back(constant_value(std::move(t)));
    return static_cast<ValueId>(g_.values.size() + constants_.size() - 1);
  }

  const Graph& g_;
  std::vector<ByteFunction> functions_;
  std::vector<int32_t> function_of_;             ///< index of functions_ by value of the graph; -1: none
  std::vector<std::pair<size_t, Node>> tables_;  ///< by the node that each replaces
  std::vector<Value> constants_;                 ///< of the tables, to be values behind those of the graph
};

}  // namespace

std::shared_ptr<const Module> tabulate_byte_functions(std::shared_ptr<const Module> module) {
  const auto has_bytes = [](const Graph& g) {
    return std::ranges::any_of(g.values, [](const Value& v) { return is_byte(v.type); });
  };
  std::vector<ByteTabulator> tabulators;
  bool any = false;
  for (const Graph& graph : module->graphs) {
    ByteTabulator& t = tabulators.emplace_back(graph);
    if (has_bytes(graph)) any = t.find() || any;
  }
  if (!any) return module;
  const auto own = own_module(std::move(module));
  for (size_t i = 0; i < tabulators.size(); ++i) tabulators[i].apply(own->graphs[i]);
  return own;
}

}  // namespace smelt
