#include <algorithm>
#include <limits>
#include <utility>

#include "base/selection.h"
#include "ops/matmul/matmul.h"
#include "ops/reduce/reduce.h"
#include "passes/decompose/rules.h"
#include "passes/passes.h"
#include "passes/value_map.h"

namespace smelt {
namespace decomposition {

/// min(max(x, lower), upper).
std::optional<DecomposedNode> clamp(const NodeSpec& spec) {
  if (!unquantized(spec)) return std::nullopt;
  Decomposition c(spec);
  ValueId v = c.input(0);
  if (spec.has(1)) v = c.binary(Binary::kMax, v, c.input(1));
  if (spec.has(2)) v = c.binary(Binary::kMin, v, c.input(2));
  return c.finish({v});
}

/// Of a narrow float.
std::optional<DecomposedNode> dequantize(const NodeSpec& spec) {
  if (!unquantized(spec, {0}, {DType::kF16}) || spec.outputs[0].dtype != DType::kF32) return std::nullopt;
  Decomposition c(spec);
  return c.finish({c.cast(c.input(0), DType::kF32)});
}

/// int8 rows with scales and zero points are dequantized first.
std::optional<DecomposedNode> matmul(const NodeSpec& spec) {
  if (!spec.has(3) || !spec.has(4)) return std::nullopt;
  Decomposition c(spec);
  QuantizeLinearAttrs back;
  back.axis = spec.inputs[0].shape.rank() - 1;
  back.to = DType::kF32;
  const ValueId real =
      c.add(Op::kDequantizeLinear, make_attrs<QuantizeLinearAttrs>(back), {c.input(0), c.input(3), c.input(4)});
  std::vector<ValueId> operands{real, c.input(1)};
  if (spec.has(2)) operands.push_back(c.input(2));
  return c.finish({c.add(Op::kMatMul, spec.node.attrs, operands)});
}

/// Norms by sums, and what needs the maximum first.
std::optional<DecomposedNode> reduce(const NodeSpec& spec) {
  constexpr Reduction kFunctions[] = {Reduction::kL1, Reduction::kL2, Reduction::kLogSum, Reduction::kLogSumExp};
  ReduceAttrs a = spec.attrs<ReduceAttrs>();
  if (std::ranges::count(kFunctions, a.fn) == 0 || !unquantized(spec, {0}, {DType::kF32}) || !spec.constant(1) ||
      spec.constant(1)->elements() == 0)
    return std::nullopt;
  Decomposition c(spec);
  const auto reduced = [&](Reduction fn, ValueId x) {
    a.fn = fn;
    return c.add(Op::kReduce, make_attrs<ReduceAttrs>(a), {x, c.input(1)});
  };
  const ValueId x = c.input(0);
  switch (a.fn) {
    case Reduction::kLogSumExp: {
      const bool keep = std::exchange(a.keep_dims, true);
      UnaryAttrs finite(Unary::kClamp);
      finite.b = static_cast<double>(std::numeric_limits<float>::max());
      finite.a = -finite.b;
      const ValueId most = c.add(Op::kUnary, make_attrs<UnaryAttrs>(finite), {reduced(Reduction::kMax, x)});
      a.keep_dims = keep;
      const ValueId sum = reduced(Reduction::kSum, c.unary(Unary::kExp, c.binary(Binary::kSub, x, most)));
      return c.finish(
          {c.binary(Binary::kAdd, c.unary(Unary::kLog, sum), c.reshape(most, dims_of(spec.outputs[0].shape)))});
    }
    case Reduction::kL1:
      return c.finish({reduced(Reduction::kSum, c.unary(Unary::kAbs, x))});
    case Reduction::kL2:
      return c.finish({c.unary(Unary::kSqrt, reduced(Reduction::kSumSquare, x))});
    default:
      return c.finish({c.unary(Unary::kLog, reduced(Reduction::kSum, x))});
  }
}

/// What is no number is not equal to itself.
std::optional<DecomposedNode> is_nan(const NodeSpec& spec) {
  if (spec.attrs<UnaryAttrs>().fn != Unary::kIsNan || !unquantized(spec, {0}, {DType::kF32})) return std::nullopt;
  Decomposition c(spec);
  return c.finish({c.binary(Binary::kNotEqual, c.input(0), c.input(0))});
}

namespace {

struct Rule {
  Op op;
  size_t inputs;  ///< that the node has at least
  std::optional<DecomposedNode> (*apply)(const NodeSpec&);
};

#define SMELT_RULE(op, inputs, apply) \
  { Op::k##op, inputs, builds_op(#op) ? apply : nullptr }
/// Of which every decomposition has an element-wise function.
#define SMELT_RULE_OF_UNARY(op, inputs, apply) \
  { Op::k##op, inputs, builds_op(#op) && builds_op("Unary") ? apply : nullptr }
constexpr Rule kRules[] = {SMELT_RULE(Clamp, 2, clamp),
                           SMELT_RULE(CrossEntropyLoss, 1, cross_entropy_loss),
                           SMELT_RULE(DeformConv, 3, deform_conv),
                           SMELT_RULE(Dequantize, 1, dequantize),
                           SMELT_RULE(Einsum, 1, einsum),
                           SMELT_RULE(ExpertMatMul, 3, expert_matmul),
                           SMELT_RULE(GroupQueryAttention, 1, group_query_attention),
                           SMELT_RULE(IndexPut, 1, index_put),
                           SMELT_RULE(LpNorm, 1, lp_norm),
                           SMELT_RULE(MaskedScatter, 1, masked_scatter),
                           SMELT_RULE(MatMul, 5, matmul),
                           SMELT_RULE(MeanVarianceNorm, 1, mean_variance_norm),
                           SMELT_RULE(NllLoss, 1, nll_loss),
                           SMELT_RULE(PairwiseDistance, 1, pairwise_distance),
                           SMELT_RULE_OF_UNARY(Pool, 1, lp_pool),
                           SMELT_RULE_OF_UNARY(Reduce, 2, reduce),
                           SMELT_RULE(ReverseSequence, 1, reverse_sequence),
                           SMELT_RULE(SparseToDense, 1, sparse_to_dense),
                           SMELT_RULE(Triangle, 1, triangle),
                           SMELT_RULE(Unary, 1, is_nan)};
#undef SMELT_RULE
#undef SMELT_RULE_OF_UNARY

const Rule* rule_for(const Node& node) {
  const auto it = std::ranges::find(kRules, node.op, &Rule::op);
  return it != std::end(kRules) && node.inputs.size() >= it->inputs ? it : nullptr;
}

}  // namespace
}  // namespace decomposition

bool may_decompose(const Node& node) { return decomposition::rule_for(node) != nullptr; }

std::optional<DecomposedNode> decompose(const NodeSpec& node) {
  const decomposition::Rule* const rule = decomposition::rule_for(node.node);
  return rule && rule->apply ? rule->apply(node) : std::nullopt;
}

std::vector<Node> splice(Graph& graph, const Node& node, const DecomposedNode& parts) {
  ValueMap map(*parts.graph);
  map.stands_for(parts.inputs, node.inputs);
  map.stands_for(parts.outputs, node.outputs);
  map.add_others(graph);
  std::vector<Node> out;
  for (const Node& part : parts.graph->nodes) {
    Node& n = out.emplace_back(node);
    n.op = part.op;
    n.attrs = part.attrs;
    n.inputs = part.inputs;
    n.outputs = part.outputs;
    map.rename(n);
  }
  return out;
}

}  // namespace smelt
