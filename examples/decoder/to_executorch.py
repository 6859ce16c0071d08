#!/usr/bin/env python3
"""Writes a small Llama with random weights (grouped queries, RoPE, RMSNorm, SwiGLU, key-value cache) as ExecuTorch programs.

    pip install executorch
    python3 to_executorch.py FOLDER     # writes decoder_portable.pte, decoder_xnnpack.pte, decoder_4bit.pte, decoder_int8_cache.pte

forward(tokens int64 [1, 1..16], position int64 [1]) -> scores of the next token [1, 128]; the cache holds 128 positions.
decoder_4bit has 4-bit weights in groups of 32 under XNNPACK, and llama.custom_sdpa and llama.update_cache; decoder_int8_cache has
4-bit embeddings and an 8-bit cache as well.
"""
import sys
from pathlib import Path

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackDynamicallyQuantizedPartitioner, XnnpackPartitioner
from executorch.examples.models.llama.llama_transformer import construct_transformer
from executorch.examples.models.llama.model_args import ModelArgs
from executorch.examples.models.llama.source_transformation import custom_kv_cache, quantize, sdpa
from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge_transform_and_lower
from executorch.exir.passes import MemoryPlanningPass
from executorch.exir.passes.sym_shape_eval_pass import ConstraintBasedSymShapeEvalPass


def network(custom, bits4=False, int8_cache=False):
    torch.manual_seed(1)
    args = ModelArgs(dim=64, n_layers=2, n_heads=4, n_kv_heads=2, vocab_size=128, hidden_dim=128, max_seq_len=128,
                     max_context_len=128, use_kv_cache=True, enable_dynamic_shape=True, use_sdpa_with_kv_cache_op=custom)
    model = construct_transformer(args).eval()
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() > 1:
                p.normal_(0, 0.15)
    if int8_cache:
        model = quantize.EmbeddingQuantHandler(model, bitwidth=4, group_size=32, packed=True).quantized_model()
    if bits4:
        model = quantize.quantize(model, "8da4w", group_size=32)
    if int8_cache:
        model = custom_kv_cache.replace_kv_cache_with_quantized_kv_cache(model)
    elif custom:
        model = custom_kv_cache.replace_kv_cache_with_custom_kv_cache(model)
    return sdpa.replace_sdpa_with_custom_op(model) if custom else model


def write(path, model, *partitioners):
    tokens = torch.zeros(1, 2, dtype=torch.int64)
    length = torch.export.Dim("length", min=1, max=16)
    example = (tokens, {"input_pos": torch.tensor([0])})
    with torch.no_grad():
        program = torch.export.export(model, example, dynamic_shapes=({1: length}, {"input_pos": {0: None}}), strict=True)
    edge = to_edge_transform_and_lower(program, partitioner=list(partitioners),
                                       compile_config=EdgeCompileConfig(_check_ir_validity=False, _skip_dim_order=True))
    config = ExecutorchBackendConfig(memory_planning_pass=MemoryPlanningPass(alloc_graph_input=False),
                                     sym_shape_eval_pass=ConstraintBasedSymShapeEvalPass())
    path.write_bytes(edge.to_executorch(config).buffer)


def main():
    folder = Path(sys.argv[1])
    xnnpack4 = [XnnpackDynamicallyQuantizedPartitioner(), XnnpackPartitioner()]
    write(folder / "decoder_portable.pte", network(custom=False))
    write(folder / "decoder_xnnpack.pte", network(custom=True), XnnpackPartitioner())
    write(folder / "decoder_4bit.pte", network(custom=True, bits4=True), *xnnpack4)
    write(folder / "decoder_int8_cache.pte", network(custom=True, bits4=True, int8_cache=True), *xnnpack4)


if __name__ == "__main__":
    main()
