#include "base/selection.h"
#include "passes/passes.h"

namespace smelt {

Status optimise(Module& module, const Evaluate& evaluate) {
  for (Graph& graph : module.graphs) {
    if (builds_op("MatMul") && builds_op("Transpose")) read_matrices_transposed(graph, Matrices::kConstant);
    const std::vector<ValueId> constants = fold_constants(graph, evaluate);
    remove_dead_nodes(graph);
    if (builds_op("ShapeOf") || builds_op("Expand")) fold_shape_arithmetic(module, graph, evaluate, constants);
    if (builds_op("Dequantize")) sink_dequantize(graph);
    if (builds_op("Cast") || builds_op("Expand") || builds_op("Concat") || builds_op("Unary") || builds_op("BitCast"))
      remove_identities(graph);
    if (builds_op("Reshape") && (builds_op("Reduce") || builds_op("MatMul"))) sink_reshapes(graph);
    if (builds_op("LayerNorm") || builds_op("GroupNorm") || builds_op("Unary") || builds_op("MatMul")) recompose(graph);
    if (builds_op("Rotary")) fuse_turned_rows(graph);
    if (builds_op("ExpertMatMul")) fuse_experts(graph);
    if (builds_op("Attention")) {
      part_joint_heads(graph);
      fuse_attention(graph);
    }
    const bool may_lack_fusions = builds_format("onnx") || builds_format("ort") || builds_format("executorch");
    if (may_lack_fusions && builds_op("Transpose") && (builds_op("Unary") || builds_op("Binary")))
      sink_transposes(graph);
    if (builds_op("BatchNorm")) fuse_batch_norm(graph);
    fuse_activations(graph);
    if (builds_op("DepthSpace") && builds_op("Conv")) shuffle_pixels_in_blocks(graph);
    if (builds_op("DequantizeLinear")) fuse_quantization(graph);
    if (builds_op("Gather") || builds_op("EmbeddingLookup")) gather_before_dequantize(graph);
    if (builds_op("Pad")) fuse_pads(graph);
    if (builds_op("Transpose")) {
      merge_transposes(graph);
      channels_last(graph);
      if (builds_op("LayerNorm")) recompose_normalizations(graph);
      if (builds_op("MatMul")) read_matrices_transposed(graph, Matrices::kDynamic);
    }
    // TFLite's converter does so itself: a build for its models alone does without.
    if (may_lack_fusions) merge_common_subexpressions(graph);
  }
  return Ok();
}

}  // namespace smelt
