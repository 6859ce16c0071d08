#include <algorithm>
#include <limits>
#include <utility>

#include "base/selection.h"
#include "ops/matmul/matmul.h"
#include "ops/reduce/reduce.h"
#include "passes/decompose/rules.h"
#include "passes/passes.h"
#include "passes/value_map.h"
#include "tensor/numeric.h"

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

namespace {

/// Reduced dimensions of a shape in runs of neighbours, the last run first. Dimensions of 1 part no run.
std::vector<std::vector<int64_t>> runs_of_axes(const Shape& shape, const Tensor& axes) {
  std::vector<bool> reduced(static_cast<size_t>(shape.rank()), false);
  for (int64_t i = 0; i < axes.elements(); ++i) {
    const int64_t axis = get_int(axes, i);
    reduced[static_cast<size_t>(axis < 0 ? axis + shape.rank() : axis)] = true;
  }
  std::vector<std::vector<int64_t>> runs;
  bool parted = true;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    if (!reduced[static_cast<size_t>(d)]) {
      parted = parted || shape[d] != 1;
      continue;
    }
    if (parted) runs.emplace_back();
    parted = false;
    runs.back().push_back(d);
  }
  return runs;
}

/// True if the function of all numbers is that of the results of their groups, of which SumSquare's are summed.
/// Narrow floats would round in between, means of integers too.
bool joins_groups(Reduction fn, DType type) {
  const bool real = type == DType::kF32 || type == DType::kF64;
  if (fn == Reduction::kMean || fn == Reduction::kSumSquare) return real;
  return fn < Reduction::kL1 && (real || !is_float(type));
}

}  // namespace

/// Norms by sums, what needs the maximum first, and dimensions that are no neighbours one run after another.
std::optional<DecomposedNode> reduce(const NodeSpec& spec) {
  constexpr Reduction kFunctions[] = {Reduction::kL1, Reduction::kL2, Reduction::kLogSum, Reduction::kLogSumExp};
  ReduceAttrs a = spec.attrs<ReduceAttrs>();
  const Tensor* const axes = spec.constant(1);
  if (!unquantized(spec) || !axes || axes->elements() == 0 || spec.inputs[0].shape.rank() == 0) return std::nullopt;
  const DType type = spec.inputs[0].dtype;
  const auto runs = runs_of_axes(spec.inputs[0].shape, *axes);
  const bool of_others = std::ranges::count(kFunctions, a.fn) > 0 && type == DType::kF32;
  if (!of_others && (runs.size() < 2 || !joins_groups(a.fn, type))) return std::nullopt;
  Decomposition c(spec);
  const auto reduced = [&](Reduction fn, ValueId x) {
    a.fn = fn;
    const bool keep = std::exchange(a.keep_dims, true);
    for (size_t i = 0; i + 1 < runs.size(); ++i) {
      x = c.add(Op::kReduce, make_attrs<ReduceAttrs>(a), {x, c.i64(runs[i])});
      if (fn == Reduction::kSumSquare) a.fn = Reduction::kSum;
    }
    a.keep_dims = keep;
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
    case Reduction::kLogSum:
      return c.finish({c.unary(Unary::kLog, reduced(Reduction::kSum, x))});
    default:
      return c.finish({reduced(a.fn, x)});
  }
}

/// What is no number is not equal to itself; an infinity is equal to one.
std::optional<DecomposedNode> not_finite(const NodeSpec& spec) {
  const auto& attrs = spec.attrs<UnaryAttrs>();
  if (!unquantized(spec, {0}, {DType::kF32})) return std::nullopt;
  Decomposition c(spec);
  const ValueId x = c.input(0);
  if (attrs.fn == Unary::kIsNan) return c.finish({c.binary(Binary::kNotEqual, x, x)});
  const bool positive = attrs.a != 0, negative = attrs.b != 0;
  if (attrs.fn != Unary::kIsInf || (!positive && !negative)) return std::nullopt;
  const double inf = std::numeric_limits<double>::infinity();
  const ValueId of = positive && negative ? c.unary(Unary::kAbs, x) : x;
  return c.finish({c.binary(Binary::kEqual, of, c.scalar(DType::kF32, positive ? inf : -inf))});
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
                           SMELT_RULE(IndexTensors, 1, index_tensors),
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
                           SMELT_RULE(Unary, 1, not_finite)};
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
