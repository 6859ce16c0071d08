#pragma once

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <vector>

#include "ops/core/decomposition.h"
#include "ops/core/node_spec.h"

/// The rules of decompose(), one for an operator: the node in other operators, nullopt where the rule does not apply.
/// All shapes of `spec` are known.
namespace smelt::decomposition {

std::optional<DecomposedNode> clamp(const NodeSpec& spec);
std::optional<DecomposedNode> cross_entropy_loss(const NodeSpec& spec);
std::optional<DecomposedNode> deform_conv(const NodeSpec& spec);
std::optional<DecomposedNode> dequantize(const NodeSpec& spec);
std::optional<DecomposedNode> einsum(const NodeSpec& spec);
std::optional<DecomposedNode> expert_matmul(const NodeSpec& spec);
std::optional<DecomposedNode> group_query_attention(const NodeSpec& spec);
std::optional<DecomposedNode> index_put(const NodeSpec& spec);
std::optional<DecomposedNode> index_tensors(const NodeSpec& spec);
std::optional<DecomposedNode> lp_norm(const NodeSpec& spec);
std::optional<DecomposedNode> lp_pool(const NodeSpec& spec);
std::optional<DecomposedNode> masked_scatter(const NodeSpec& spec);
std::optional<DecomposedNode> matmul(const NodeSpec& spec);
std::optional<DecomposedNode> mean_variance_norm(const NodeSpec& spec);
std::optional<DecomposedNode> nll_loss(const NodeSpec& spec);
std::optional<DecomposedNode> not_finite(const NodeSpec& spec);
std::optional<DecomposedNode> pairwise_distance(const NodeSpec& spec);
std::optional<DecomposedNode> reduce(const NodeSpec& spec);
std::optional<DecomposedNode> reverse_sequence(const NodeSpec& spec);
std::optional<DecomposedNode> sparse_to_dense(const NodeSpec& spec);
std::optional<DecomposedNode> triangle(const NodeSpec& spec);

inline constexpr std::initializer_list<DType> kIndexTypes = {DType::kI32, DType::kI64};
/// Rules compute with these in float32 and round the results.
inline constexpr std::initializer_list<DType> kFloatTypes = {DType::kF32, DType::kF16, DType::kBF16};

/// True if these inputs are there, have one of these element types, and are not quantized.
inline bool unquantized(const NodeSpec& spec, std::initializer_list<size_t> inputs,
                        std::initializer_list<DType> types) {
  return std::ranges::all_of(inputs, [&](size_t i) {
    return spec.has(i) && !spec.inputs[i].quant && std::ranges::count(types, spec.inputs[i].dtype) > 0;
  });
}

/// True if no operand is quantized.
inline bool unquantized(const NodeSpec& spec) {
  return !spec.outputs[0].quant && std::ranges::none_of(spec.inputs, [](const ValueType& t) { return !!t.quant; });
}

inline std::vector<int64_t> dims_of(const Shape& s) { return {s.begin(), s.end()}; }

}  // namespace smelt::decomposition
