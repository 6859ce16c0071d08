#include <algorithm>
#include <utility>
#include <vector>

#include "ops/core/op.h"
#include "ops/elementwise/elementwise.h"
#include "ops/matmul/matmul.h"
#include "passes/passes.h"

namespace smelt {
namespace {

bool is_per_token(const ValueType& t) { return t.quant && t.quant->kind == Quantization::Kind::kPerToken; }

/// Replaces each Quantize to kPerToken, whose result only weighted nodes read, by DynamicQuantize and DequantizeLinear.
class Rewriter {
 public:
  explicit Rewriter(Graph& g) : g_(g), dequantized_(g.values.size(), kNoValue), only_weighted_(g.values.size()) {
    const std::vector<int> uses = count_uses(g);
    std::vector<int> weighted(g.values.size(), 0);
    for (const Node& n : g.nodes)
      if ((op_info(n.op).flags & kWeighted) && n.inputs[0] != kNoValue) ++weighted[static_cast<size_t>(n.inputs[0])];
    for (size_t i = 0; i < uses.size(); ++i) only_weighted_[i] = uses[i] == weighted[i];
  }
  void run() {
    for (Node& n : g_.nodes) {
      if (n.op == Op::kQuantize && replace(n)) continue;
      if ((op_info(n.op).flags & kWeighted) && n.inputs[0] != kNoValue) {
        const ValueId real = dequantized_[static_cast<size_t>(n.inputs[0])];
        if (real != kNoValue) n.inputs[0] = real;
      }
      nodes_.push_back(std::move(n));
    }
    g_.nodes = std::move(nodes_);
  }

 private:
  /// Replaces a Quantize to int8 or uint8 with parameters for each row of the last dimension, or for the whole tensor.
  /// False if `n` is not of that form.
  bool replace(const Node& n) {
    const ValueId to = n.outputs[0];
    if (to == kNoValue || !only_weighted_[static_cast<size_t>(to)]) return false;
    const ValueType quantized = g_.value(to).type;
    ValueType x = g_.value(n.inputs[0]).type;
    if (!is_per_token(quantized)) return false;
    const bool narrow = x.dtype == DType::kF16 || x.dtype == DType::kBF16;
    if ((x.dtype != DType::kF32 && !narrow) || x.quant || !x.ranked || x.shape.rank() < 1) return false;
    if (quantized.dtype != DType::kI8 && quantized.dtype != DType::kU8) return false;
    const int inner = quantized.quant->axis, rank = x.shape.rank();
    const bool whole = inner == rank || (inner == rank - 1 && x.shape[0] == 1);
    if (inner != 1 && !whole) return false;
    ValueId from = n.inputs[0];
    x.dtype = DType::kF32;
    if (narrow) {
      from = add(x);
      emit(n, Op::kCast, make_attrs<CastAttrs>(DType::kF32), {n.inputs[0]}, {from});
    }
    DynamicQuantizeAttrs attrs;
    attrs.to = quantized.dtype;
    attrs.symmetric = quantized.quant->symmetric;
    attrs.xnnpack_rule = !attrs.symmetric;
    attrs.per_row = inner == 1;
    ValueType parameters = ValueType::tensor(DType::kF32, attrs.per_row ? x.shape : Shape{});
    if (attrs.per_row) parameters.shape[rank - 1] = 1;
    ValueType integers = x, zeros = parameters;
    integers.dtype = zeros.dtype = quantized.dtype;
    const std::vector<ValueId> made{add(integers), add(parameters), add(zeros)};
    emit(n, Op::kDynamicQuantize, make_attrs<DynamicQuantizeAttrs>(attrs), {from}, made);
    QuantizeLinearAttrs back;
    back.axis = rank - 1;
    back.to = DType::kF32;
    const ValueId real = dequantized_[static_cast<size_t>(to)] = add(x);
    emit(n, Op::kDequantizeLinear, make_attrs<QuantizeLinearAttrs>(back), made, {real});
    return true;
  }
  ValueId add(const ValueType& type) {
    Value v;
    v.type = type;
    return g_.add_value(std::move(v));
  }
  void emit(const Node& like, Op op, AttrsPtr attrs, std::vector<ValueId> inputs, std::vector<ValueId> outputs) {
    Node n = like;
    n.op = op;
    n.attrs = std::move(attrs);
    n.inputs = std::move(inputs);
    n.outputs = std::move(outputs);
    nodes_.push_back(std::move(n));
  }

  Graph& g_;
  std::vector<ValueId> dequantized_;  ///< by value of the original graph: the dequantized value in its place
  std::vector<bool> only_weighted_;   ///< by value: read by weighted nodes alone, as input 0
  std::vector<Node> nodes_;
};

/// True if a MatMul multiplies rows with a constant matrix of at most 8-bit integers, so that it can take quantized
/// rows with their scales and zero points.
bool takes_quantized_rows(const Graph& g, const Node& n) {
  const auto& a = static_cast<const MatMulAttrs&>(*n.attrs);
  if (n.inputs.size() > 3 || a.transpose_a || a.flatten_a || a.dynamic_quant || a.trans_batch_b || a.alpha != 1 ||
      a.beta != 1)
    return false;
  const ValueType &x = g.value(n.inputs[0]).type, &w = g.value(n.inputs[1]).type;
  if (!x.ranked || x.shape.rank() < 2 || !g.value(n.inputs[1]).constant || w.shape.rank() != 2 || !w.quant)
    return false;
  if (!is_integer(w.dtype) || bit_width(w.dtype) > 8) return false;
  if (n.inputs.size() < 3 || n.inputs[2] == kNoValue) return true;
  const ValueType& c = g.value(n.inputs[2]).type;
  return c.is_static() && c.shape.rank() == 1 && c.shape[0] == w.shape[a.transpose_b ? 0 : 1];
}

/// True if a node dequantizes int8 rows with a scale and zero point for each row, or for all.
bool dequantizes_rows(const Graph& g, const Node& n) {
  if (n.op != Op::kDequantizeLinear || n.inputs.size() < 3 || n.inputs[2] == kNoValue) return false;
  const ValueType& x = g.value(n.inputs[0]).type;
  const ValueType& y = g.value(n.outputs[0]).type;
  if (x.dtype != DType::kI8 || x.quant || !x.ranked || y.dtype != DType::kF32) return false;
  const auto one_per_row = [&](ValueId id, DType dtype) {
    const ValueType& t = g.value(id).type;
    if (t.dtype != dtype || t.quant || !t.ranked) return false;
    if (t.shape.rank() == 0) return true;
    if (t.shape.rank() != x.shape.rank() || t.shape.back() != 1) return false;
    for (int d = 0; d + 1 < t.shape.rank(); ++d)
      if (t.shape[d] != x.shape[d]) return false;
    return true;
  };
  return one_per_row(n.inputs[1], DType::kF32) && one_per_row(n.inputs[2], DType::kI8) &&
         g.value(n.inputs[1]).type.shape.rank() == g.value(n.inputs[2]).type.shape.rank();
}

/// Makes MatMul read the integers of such rows, with scales and zero points as inputs 3 and 4.
void use_quantized_rows(Graph& g) {
  std::vector<int> producer(g.values.size(), -1);
  bool changed = false;
  for (size_t k = 0; k < g.nodes.size(); ++k) {
    Node& n = g.nodes[k];
    if (dequantizes_rows(g, n)) producer[static_cast<size_t>(n.outputs[0])] = static_cast<int>(k);
    if (n.op != Op::kMatMul || n.inputs[0] == kNoValue) continue;
    const int from = producer[static_cast<size_t>(n.inputs[0])];
    if (from < 0 || !takes_quantized_rows(g, n)) continue;
    const std::vector<ValueId>& rows = g.nodes[static_cast<size_t>(from)].inputs;
    n.inputs.resize(3, kNoValue);
    n.inputs[0] = rows[0];
    n.inputs.insert(n.inputs.end(), {rows[1], rows[2]});
    changed = true;
  }
  if (changed) remove_dead_nodes(g);
}

}  // namespace

std::shared_ptr<const Module> dynamic_quantize(std::shared_ptr<const Module> module) {
  const auto has_dynamic_rows = [](const Graph& g) {
    return std::ranges::any_of(g.nodes, [&](const Node& n) {
      return (n.op == Op::kQuantize && n.outputs[0] != kNoValue && is_per_token(g.value(n.outputs[0]).type)) ||
             dequantizes_rows(g, n);
    });
  };
  if (std::ranges::none_of(module->graphs, has_dynamic_rows)) return module;
  const auto own = own_module(std::move(module));
  for (Graph& graph : own->graphs) {
    Rewriter(graph).run();
    use_quantized_rows(graph);
  }
  return own;
}

}  // namespace smelt
