#!/usr/bin/env python3
"""Writes a Llama of 135 million random weights (SmolLM's sizes) with 4-bit weights, to generate text with.

pip install numpy onnx                      # decoder.onnx
pip install executorch                      # decoder.pte
python3 decoder_nets.py FOLDER [onnx] [pte]

decoder.onnx has the form of ONNX Runtime's generator: MatMulNBits in blocks of 32 with int8 rows, GroupQueryAttention
with rotary embeddings, caches as inputs and outputs that grow by a token a run. decoder.pte has the form of
ExecuTorch's Llama: 8da4w in groups of 32 under XNNPACK, llama.custom_sdpa, a cache of 1024 positions in the program.
"""

import sys
from pathlib import Path

WIDTH, LAYERS, HEADS, KV_HEADS, HIDDEN, VOCABULARY, POSITIONS = 576, 30, 9, 3, 1536, 49152, 1024
HEAD, BLOCK = WIDTH // HEADS, 32


def write_onnx(path):
    import numpy
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    rng = numpy.random.default_rng(1)
    nodes, constants = [], []

    def constant(name, array):
        constants.append(numpy_helper.from_array(array, name))
        return name

    def node(op, inputs, outputs, domain="com.microsoft", **attributes):
        nodes.append(helper.make_node(op, inputs, outputs, outputs[0], domain=domain, **attributes))
        return outputs[0]

    def product(name, x, columns, rows):
        blocks = columns // BLOCK
        codes = constant(f"{name}.codes", rng.integers(0, 256, (rows, blocks, BLOCK // 2), numpy.uint8))
        scales = rng.uniform(0.5, 1, rows * blocks).astype(numpy.float32) * numpy.float32(0.2 / columns**0.5)
        return node(
            "MatMulNBits",
            [x, codes, constant(f"{name}.scales", scales)],
            [name],
            K=columns,
            N=rows,
            bits=4,
            block_size=BLOCK,
            accuracy_level=4,
        )

    def norm_weight(name):
        return constant(name, numpy.ones(WIDTH, numpy.float32))

    angles = numpy.outer(numpy.arange(POSITIONS), 10000.0 ** (-numpy.arange(0, HEAD, 2) / HEAD))
    cosines = constant("cos", numpy.cos(angles).astype(numpy.float32))
    sines = constant("sin", numpy.sin(angles).astype(numpy.float32))
    one = constant("one", numpy.array([1], numpy.int64))
    node("ReduceSum", ["attention_mask", one], ["length"], "", keepdims=0)
    node("Sub", ["length", one], ["last"], "")
    node("Cast", ["last"], ["seqlens_k"], "", to=TensorProto.INT32)
    node("Shape", ["attention_mask"], ["mask_shape"], "", start=1, end=2)
    node("Squeeze", ["mask_shape"], ["total"], "")
    node("Cast", ["total"], ["total_sequence_length"], "", to=TensorProto.INT32)
    embedding = constant("embedding", rng.standard_normal((VOCABULARY, WIDTH), numpy.float32))
    x = node("Gather", [embedding, "input_ids"], ["embedded"], "", axis=0)
    normed = node("SimplifiedLayerNormalization", [x, norm_weight("norm")], ["normed"], "", epsilon=1e-5, axis=-1)
    inputs = [
        helper.make_tensor_value_info("input_ids", TensorProto.INT64, [1, "tokens"]),
        helper.make_tensor_value_info("attention_mask", TensorProto.INT64, [1, "total"]),
    ]
    outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, "tokens", VOCABULARY])]

    def cache(name, length):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, KV_HEADS, length, HEAD])

    for i in range(LAYERS):
        qkv = product(f"{i}.qkv", normed, WIDTH, WIDTH + 2 * KV_HEADS * HEAD)
        past = [f"past_key_values.{i}.{kind}" for kind in ("key", "value")]
        present = [f"present.{i}.{kind}" for kind in ("key", "value")]
        inputs += [cache(name, "past") for name in past]
        outputs += [cache(name, "total") for name in present]
        attended = node(
            "GroupQueryAttention",
            [qkv, "", "", *past, "seqlens_k", "total_sequence_length", cosines, sines],
            [f"{i}.attended", *present],
            num_heads=HEADS,
            kv_num_heads=KV_HEADS,
            do_rotary=1,
        )
        attended = product(f"{i}.o", attended, WIDTH, WIDTH)
        skip = [x, attended, norm_weight(f"{i}.norm")]
        x = f"{i}.sum"
        normed = node("SkipSimplifiedLayerNormalization", skip, [f"{i}.normed", "", "", x], epsilon=1e-5)
        gate, up = product(f"{i}.gate", normed, WIDTH, HIDDEN), product(f"{i}.up", normed, WIDTH, HIDDEN)
        gate = node("Mul", [gate, node("Sigmoid", [gate], [f"{i}.sigmoid"], "")], [f"{i}.silu"], "")
        down = product(f"{i}.down", node("Mul", [gate, up], [f"{i}.product"], ""), HIDDEN, WIDTH)
        skip = [x, down, norm_weight(f"{i}.norm2")]
        x = f"{i}.sum2"
        outs = [f"{i}.normed2"] if i == LAYERS - 1 else [f"{i}.normed2", "", "", x]
        normed = node("SkipSimplifiedLayerNormalization", skip, outs, epsilon=1e-5)
    product("logits", normed, WIDTH, VOCABULARY)
    graph = helper.make_graph(nodes, "decoder", inputs, outputs, constants)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)


def write_pte(path):
    import torch
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import (
        XnnpackDynamicallyQuantizedPartitioner,
        XnnpackPartitioner,
    )
    from executorch.examples.models.llama.llama_transformer import construct_transformer
    from executorch.examples.models.llama.model_args import ModelArgs
    from executorch.examples.models.llama.source_transformation import custom_kv_cache, quantize, sdpa
    from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge_transform_and_lower
    from executorch.exir.passes import MemoryPlanningPass
    from executorch.exir.passes.sym_shape_eval_pass import ConstraintBasedSymShapeEvalPass

    torch.manual_seed(1)
    sizes = {"dim": WIDTH, "n_layers": LAYERS, "n_heads": HEADS, "n_kv_heads": KV_HEADS, "hidden_dim": HIDDEN}
    limits = {"vocab_size": VOCABULARY, "max_seq_len": POSITIONS, "max_context_len": POSITIONS}
    forms = {"use_kv_cache": True, "enable_dynamic_shape": True, "use_sdpa_with_kv_cache_op": True}
    model = construct_transformer(ModelArgs(**sizes, **limits, **forms)).eval()
    model = quantize.quantize(model, "8da4w", group_size=BLOCK)
    model = sdpa.replace_sdpa_with_custom_op(custom_kv_cache.replace_kv_cache_with_custom_kv_cache(model))
    length = torch.export.Dim("length", min=1, max=POSITIONS - 1)
    example = (torch.zeros(1, 2, dtype=torch.int64), {"input_pos": torch.tensor([0])})
    with torch.no_grad():
        shapes = ({1: length}, {"input_pos": {0: None}})
        program = torch.export.export(model, example, dynamic_shapes=shapes, strict=True)
    edge = to_edge_transform_and_lower(
        program,
        partitioner=[XnnpackDynamicallyQuantizedPartitioner(), XnnpackPartitioner()],
        compile_config=EdgeCompileConfig(_check_ir_validity=False, _skip_dim_order=True),
    )
    config = ExecutorchBackendConfig(
        memory_planning_pass=MemoryPlanningPass(alloc_graph_input=False),
        sym_shape_eval_pass=ConstraintBasedSymShapeEvalPass(),
    )
    path.write_bytes(edge.to_executorch(config).buffer)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    folder, chosen = Path(sys.argv[1]), sys.argv[2:] or ["onnx", "pte"]
    folder.mkdir(parents=True, exist_ok=True)
    if "onnx" in chosen:
        write_onnx(folder / "decoder.onnx")
    if "pte" in chosen:
        write_pte(folder / "decoder.pte")


if __name__ == "__main__":
    main()
