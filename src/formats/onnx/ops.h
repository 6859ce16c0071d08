#pragma once

#include <span>

#include "formats/onnx/lower.h"

namespace smelt::onnx {

// The operator tables, one a theme.
std::span<const OpEntry> elementwise_ops();
std::span<const OpEntry> reduce_ops();
std::span<const OpEntry> nn_ops();
std::span<const OpEntry> norm_ops();
std::span<const OpEntry> shape_ops();
std::span<const OpEntry> gather_ops();
std::span<const OpEntry> quant_ops();
std::span<const OpEntry> misc_ops();
std::span<const OpEntry> control_ops();
std::span<const OpEntry> recurrent_ops();
std::span<const OpEntry> ml_ops();
std::span<const OpEntry> training_ops();
std::span<const OpEntry> preview_ops();
std::span<const OpEntry> microsoft_ops();
std::span<const OpEntry> microsoft_fused_ops();
std::span<const OpEntry> moe_ops();
std::span<const OpEntry> microsoft_quant_ops();
std::span<const OpEntry> microsoft_attention_ops();
std::span<const OpEntry> microsoft_decoding_ops();

/// The operator that the caller registered for a node, under "domain::Name" ("ai.onnx::Name" in the default domain), or
/// nullptr.
const std::shared_ptr<CustomOperator>* registered_operator(const Source& source, const NodeProto& node);
/// Its options are the node's serialized NodeProto.
void lower_registered(NodeContext& n, const std::shared_ptr<CustomOperator>& op);

/// The attributes that an operator has in any version, a space between; nothing when no list has the operator.
std::optional<std::string_view> attributes_of(std::string_view domain, std::string_view op);
bool lists_attribute(std::string_view names, std::string_view name);

/// Makes what a body captured into inputs of its graph; the outer values go behind the node's inputs.
void attach_captures(NodeContext& n, const Body& body, std::vector<ValueId>& inputs);

// Lowering functions that tables of two domains share.
void lower_conv(NodeContext& n);
void lower_causal_conv(NodeContext& n);
void lower_max_pool(NodeContext& n);
void lower_gemm(NodeContext& n);
void lower_quantize_linear(NodeContext& n);
void lower_dequantize_linear(NodeContext& n);
void lower_qlinear_conv(NodeContext& n);
void lower_layer_norm(NodeContext& n);
void lower_pad(NodeContext& n);
void lower_range(NodeContext& n);
void lower_trilu(NodeContext& n);
void lower_unique(NodeContext& n);
void lower_gather_nd(NodeContext& n);
void lower_grid_sample(NodeContext& n);
void lower_linear_attention(NodeContext& n);

}  // namespace smelt::onnx
