#include <algorithm>
#include <utility>
#include <vector>

#include "ops/core/op.h"
#include "ops/elementwise/elementwise.h"
#include "ops/matmul/matmul.h"
#include "passes/passes.h"

namespace smelt {
namespace {

bool has_row_grids(const ValueType& t) { return t.quant && t.quant->kind == Quantization::Kind::kPerToken; }
bool is_product(Op op) { return op == Op::kMatMul || op == Op::kConv || op == Op::kConvTranspose; }

/// The nodes of a graph, rewritten one by one.
class Rewriter {
 public:
  explicit Rewriter(Graph& g) : g_(g), rounded_(g.values.size(), kNoValue), only_products_(g.values.size()) {
    const std::vector<int> uses = count_uses(g);
    std::vector<int> products(g.values.size(), 0);
    for (const Node& n : g.nodes)
      if (is_product(n.op) && n.inputs[0] != kNoValue) ++products[static_cast<size_t>(n.inputs[0])];
    for (size_t i = 0; i < uses.size(); ++i) only_products_[i] = uses[i] == products[i];
  }
  void run() {
    for (Node& n : g_.nodes) {
      if (n.op == Op::kQuantize && round(n)) continue;
      if (is_product(n.op) && n.inputs[0] != kNoValue) {
        const ValueId real = rounded_[static_cast<size_t>(n.inputs[0])];
        if (real != kNoValue) n.inputs[0] = real;
      }
      nodes_.push_back(std::move(n));
    }
    g_.nodes = std::move(nodes_);
  }

 private:
  /// A node that quantizes rows, or the whole of a tensor, for products only: they get what is left of the reals.
  bool round(const Node& n) {
    const ValueId to = n.outputs[0];
    if (to == kNoValue || !only_products_[static_cast<size_t>(to)]) return false;
    const ValueType stored = g_.value(to).type;
    ValueType x = g_.value(n.inputs[0]).type;
    if (!has_row_grids(stored)) return false;
    const bool half = x.dtype == DType::kF16 || x.dtype == DType::kBF16;
    if ((x.dtype != DType::kF32 && !half) || x.quant || !x.ranked || x.shape.rank() < 1) return false;
    if (stored.dtype != DType::kI8 && stored.dtype != DType::kU8) return false;
    const int inner = stored.quant->axis, rank = x.shape.rank();
    const bool whole = inner == rank || (inner == rank - 1 && x.shape[0] == 1);
    if (inner != 1 && !whole) return false;
    ValueId from = n.inputs[0];
    x.dtype = DType::kF32;
    if (half) {
      from = add(x);
      emit(n, Op::kCast, make_attrs<CastAttrs>(DType::kF32), {n.inputs[0]}, {from});
    }
    DynamicQuantizeAttrs grid;
    grid.to = stored.dtype;
    grid.symmetric = stored.quant->symmetric;
    grid.xnnpack_rule = !grid.symmetric;
    grid.per_row = inner == 1;
    ValueType parameters = ValueType::tensor(DType::kF32, grid.per_row ? x.shape : Shape{});
    if (grid.per_row) parameters.shape[rank - 1] = 1;
    ValueType integers = x, zeros = parameters;
    integers.dtype = zeros.dtype = stored.dtype;
    const std::vector<ValueId> made{add(integers), add(parameters), add(zeros)};
    emit(n, Op::kDynamicQuantize, make_attrs<DynamicQuantizeAttrs>(grid), {from}, made);
    QuantizeLinearAttrs back;
    back.axis = rank - 1;
    back.to = DType::kF32;
    const ValueId real = rounded_[static_cast<size_t>(to)] = add(x);
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
  std::vector<ValueId> rounded_;  ///< by value of the original graph: the reals in its place
  std::vector<bool> only_products_;
  std::vector<Node> nodes_;
};

/// Whether a product is one of rows and a matrix of weights that can take integers and their scales.
bool multiplies_rows(const Graph& g, const Node& n) {
  const auto& a = static_cast<const MatMulAttrs&>(*n.attrs);
  if (n.inputs.size() > 3 || a.transpose_a || a.flatten_a || a.hybrid || a.trans_batch_b || a.alpha != 1 || a.beta != 1)
    return false;
  const ValueType &x = g.value(n.inputs[0]).type, &w = g.value(n.inputs[1]).type;
  if (!x.ranked || x.shape.rank() < 2 || !g.value(n.inputs[1]).constant || w.shape.rank() != 2 || !w.quant)
    return false;
  if (!is_integer(w.dtype) || bit_width(w.dtype) > 8) return false;
  if (n.inputs.size() < 3 || n.inputs[2] == kNoValue) return true;
  const ValueType& c = g.value(n.inputs[2]).type;
  return c.is_static() && c.shape.rank() == 1 && c.shape[0] == w.shape[a.transpose_b ? 0 : 1];
}

/// Whether a node makes reals of int8 rows with a scale and zero point each.
bool scales_rows(const Graph& g, const Node& n) {
  if (n.op != Op::kDequantizeLinear || n.inputs.size() < 3 || n.inputs[2] == kNoValue) return false;
  const ValueType& x = g.value(n.inputs[0]).type;
  const ValueType& y = g.value(n.outputs[0]).type;
  if (x.dtype != DType::kI8 || x.quant || !x.ranked || y.dtype != DType::kF32) return false;
  const auto one_a_row = [&](ValueId id, DType dtype) {
    const ValueType& t = g.value(id).type;
    if (t.dtype != dtype || t.quant || !t.ranked) return false;
    if (t.shape.rank() == 0) return true;
    if (t.shape.rank() != x.shape.rank() || t.shape.back() != 1) return false;
    for (int d = 0; d + 1 < t.shape.rank(); ++d)
      if (t.shape[d] != x.shape[d]) return false;
    return true;
  };
  return one_a_row(n.inputs[1], DType::kF32) && one_a_row(n.inputs[2], DType::kI8) &&
         g.value(n.inputs[1]).type.shape.rank() == g.value(n.inputs[2]).type.shape.rank();
}

/// Products of such reals take the integers.
void multiply_integers(Graph& g) {
  std::vector<int> maker(g.values.size(), -1);
  bool changed = false;
  for (size_t k = 0; k < g.nodes.size(); ++k) {
    Node& n = g.nodes[k];
    if (scales_rows(g, n)) maker[static_cast<size_t>(n.outputs[0])] = static_cast<int>(k);
    if (n.op != Op::kMatMul || n.inputs[0] == kNoValue) continue;
    const int from = maker[static_cast<size_t>(n.inputs[0])];
    if (from < 0 || !multiplies_rows(g, n)) continue;
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
  const auto makes_rows = [](const Graph& g) {
    return std::any_of(g.nodes.begin(), g.nodes.end(), [&](const Node& n) {
      return (n.op == Op::kQuantize && n.outputs[0] != kNoValue && has_row_grids(g.value(n.outputs[0]).type)) ||
             scales_rows(g, n);
    });
  };
  if (std::none_of(module->graphs.begin(), module->graphs.end(), makes_rows)) return module;
  auto copy = std::make_shared<Module>(*module);
  for (Graph& graph : copy->graphs) {
    Rewriter(graph).run();
    multiply_integers(graph);
  }
  return copy;
}

}  // namespace smelt
