// Operators that only move elements, as lookups by the indices that their reference kernels move.
#include <algorithm>
#include <numeric>

#include "convert/convert.h"
#include "convert/node_runner.h"
#include "ops/core/op.h"
#include "ops/gather/gather.h"
#include "ops/shape/shape.h"
#include "tensor/numeric.h"
#include "tensor/quant_params.h"

namespace smelt::convert {
namespace {

/// Number of leading operands that are moved; the others say where to. 0: the operator computes.
size_t moved_operands(const Node& node) {
  switch (node.op) {
    case Op::kBatchToSpace:
    case Op::kSpaceToBatch:
    case Op::kMatrixDiag:
    case Op::kStridedSlice:
    case Op::kGatherND:
    case Op::kReverseSequence:
    case Op::kUnfold:
    case Op::kDiagonal:
    case Op::kAsStrided:
    case Op::kRepeatInterleave:
    case Op::kCenterCropPad:
      return 1;
    case Op::kPad:
      return static_cast<const PadAttrs&>(*node.attrs).mode == PadAttrs::Mode::kConstant ? 0 : 1;
    case Op::kMatrixSetDiag:
      return 2;
    default:
      return 0;
  }
}

/// Elements that a lookup may take, or take from.
constexpr int64_t kMostElements = int64_t{1} << 24;

/// The number of each result's source element, operands one behind the other, from 1 on; 0: zero.
std::optional<std::vector<int64_t>> sources(const Graph& graph, const Node& node, size_t moved,
                                            const Evaluate& evaluate) {
  std::vector<Datum> in, out;
  int64_t next = 1;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const ValueId id = node.inputs[i];
    if (id == kNoValue) {
      in.emplace_back();
      continue;
    }
    const Value& v = graph.value(id);
    if (i >= moved) {
      if (!v.constant) return std::nullopt;
      in.emplace_back(*v.constant);
      continue;
    }
    if (v.type.shape.elements() > kMostElements - next) return std::nullopt;
    Tensor numbers(DType::kI64, v.type.shape);
    std::iota(numbers.data<int64_t>(), numbers.data<int64_t>() + numbers.elements(), next);
    next += numbers.elements();
    in.emplace_back(std::move(numbers));
  }
  // The node alone, on integers, since kernels look at the graph's types too.
  Graph typed;
  Node alone = node;
  const auto add = [&](ValueId& id, bool number) {
    if (id == kNoValue) return;
    id = typed.add_value(graph.value(id));
    if (!number) return;
    typed.value(id).type.dtype = DType::kI64;
    typed.value(id).type.quant = nullptr;
  };
  for (size_t i = 0; i < alone.inputs.size(); ++i) add(alone.inputs[i], i < moved);
  add(alone.outputs[0], true);
  if (!evaluate(typed, alone, std::move(in), out).ok() || !out[0].is_tensor()) return std::nullopt;
  const Tensor& y = out[0].tensor;
  if (y.dtype() != DType::kI64 || !(y.shape() == graph.value(node.outputs[0]).type.shape)) return std::nullopt;
  return std::vector<int64_t>(y.data<int64_t>(), y.data<int64_t>() + y.elements());
}

/// The operands in a row, an element for zero behind them if `zero`, and what the indices take of that.
std::vector<Node> lookup(Graph& graph, const Node& node, size_t moved, std::vector<int64_t> indices, bool zero) {
  std::vector<Node> out;
  const ValueType result = graph.value(node.outputs[0]).type;
  const auto add = [&](Op op, AttrsPtr attrs, std::vector<ValueId> inputs, const Shape& shape) {
    Node& n = out.emplace_back(node);
    n.op = op;
    n.attrs = std::move(attrs);
    n.inputs = std::move(inputs);
    n.outputs = {graph.add_value({.type = ValueType::tensor(result.dtype, shape, result.quant)})};
    return n.outputs[0];
  };
  const auto dims = [&](const Shape& s) { return graph.add_value(constant_integers({s.begin(), s.end()})); };
  std::vector<ValueId> parts;
  int64_t total = 0;
  for (size_t i = 0; i < moved; ++i) {
    const Shape flat{graph.value(node.inputs[i]).type.shape.elements()};
    total += flat[0];
    const ValueId shape = dims(flat);
    parts.push_back(add(Op::kReshape, make_attrs<ReshapeAttrs>(), {node.inputs[i], shape}, flat));
  }
  if (zero) {
    Tensor fill(result.dtype, Shape{1});
    // Padding is the real number 0; what lies beside a diagonal is the integer.
    if (result.quant && node.op == Op::kSpaceToBatch) set_int(fill, 0, result.quant->zero_point());
    fill.set_quant(result.quant);
    parts.push_back(graph.add_value(constant_value(std::move(fill))));
  }
  for (int64_t& i : indices) i = i == 0 ? total : i - 1;
  ValueId row = parts[0];
  if (parts.size() > 1) row = add(Op::kConcat, make_attrs<AxisAttrs>(0), parts, Shape{total + (zero ? 1 : 0)});
  const Shape flat{static_cast<int64_t>(indices.size())};
  const ValueId at = graph.add_value(constant_integers(indices));
  const ValueId taken = add(Op::kGather, make_attrs<GatherAttrs>(), {row, at}, flat);
  const ValueId shape = dims(result.shape);
  add(Op::kReshape, make_attrs<ReshapeAttrs>(), {taken, shape}, result.shape);
  out.back().outputs = node.outputs;
  return out;
}

}  // namespace

void move_by_indices(Module& module, const formats::Writer& writer, const formats::WriteOptions& options,
                     const Evaluate& evaluate) {
  for (Graph& graph : module.graphs) {
    std::vector<Node> nodes;
    nodes.reserve(graph.nodes.size());
    for (const Node& node : graph.nodes) {
      nodes.push_back(node);
      const size_t moved = moved_operands(node);
      if (moved == 0 || node.inputs.size() < moved || node.outputs.size() != 1 || node.outputs[0] == kNoValue) continue;
      const ValueType& y = graph.value(node.outputs[0]).type;
      const bool fits = y.is_static() && std::ranges::all_of(std::span(node.inputs).first(moved), [&](ValueId id) {
                          if (id == kNoValue) return false;
                          const ValueType& x = graph.value(id).type;
                          return x.is_static() && x.dtype == y.dtype && same_quant_params(x.quant, y.quant);
                        });
      if (!fits || (y.quant && !is_per_tensor(y.quant)) || bit_width(y.dtype) < 8 || y.shape.elements() > kMostElements)
        continue;
      if (writer.can_write(module, graph, node, options)) continue;
      auto indices = sources(graph, node, moved, evaluate);
      if (!indices) continue;
      const bool zero = std::ranges::count(*indices, 0) > 0;
      std::vector<Node> parts = lookup(graph, node, moved, std::move(*indices), zero);
      nodes.pop_back();
      std::ranges::move(parts, std::back_inserter(nodes));
    }
    graph.nodes = std::move(nodes);
  }
}

}  // namespace smelt::convert
