#include "passes/passes.h"

namespace smelt {

Status optimise(Module& module, const Evaluate& evaluate) {
  for (Graph& graph : module.graphs) {
    fold_constants(graph, evaluate);
    remove_dead_nodes(graph);
    recompose(graph);
    fuse_attention(graph);
    fuse_batch_norm(graph);
    fuse_activations(graph);
    fuse_quantization(graph);
    gather_before_dequantize(graph);
    fuse_pads(graph);
    channels_last(graph);
  }
  return Ok();
}

}  // namespace smelt
