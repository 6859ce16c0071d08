#!/usr/bin/env python3
"""Writes networks with random weights as .tflite files by LiteRT Torch, quantized by AI Edge Quantizer's recipes:
those of torch_nets.py, and a decoder of SmolLM's sizes with caches, whose prompt and step are a file each.

pip install torch torchvision timm transformers litert-torch tensorflow-cpu
python3 litert_torch_nets.py FOLDER [NAME...]      # all networks, or those named

tensorflow-cpu: LiteRT Torch's decoders import TensorFlow's schema. A network that cannot be written is named on
standard error; the status is then 1.
"""

import argparse
import logging
import os
import sys
import warnings
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import litert_torch
import torch
import torch_nets
from ai_edge_quantizer import qtyping, quantizer, recipe

CACHE = 512  # places of a decoder's caches
IMAGES = ("mobilenet_v2", "mobilenet_v3_large", "resnet18", "efficientnet_b0", "regnet_y_400mf", "convnext_tiny")
TRANSFORMERS = ("swin_t", "minilm_6", "t5_encoder", "wav2vec2")
DECODER = ("llama_prefill", "llama_step")


def float16():
    """Weights of float16, which the network widens."""
    weights = qtyping.TensorQuantizationConfig(num_bits=16, dtype=qtyping.TensorDataType.FLOAT)
    floats = qtyping.ComputePrecision.FLOAT
    config = qtyping.OpQuantizationConfig(weight_tensor_config=weights, compute_precision=floats)
    rule = {"regex": ".*", "operation": qtyping.TFLOperationName.ALL_SUPPORTED, "op_config": config.to_dict()}
    return [rule | {"algorithm_key": "float_casting"}]


DYNAMIC, INT8 = ("dynamic", recipe.dynamic_wi8_afp32), ("int8", recipe.static_wi8_ai8)
INT4, ROTATED = ("int4", recipe.dynamic_wi4b32_afp32), ("rotated_dynamic", recipe.dynamic_wi8c_hr_afp32)
FLOAT16 = ("f16", float16)
RECIPES = (
    {name: (DYNAMIC, INT8) for name in IMAGES}
    | {name: (DYNAMIC, FLOAT16, ROTATED) for name in TRANSFORMERS}
    | {name: (DYNAMIC, FLOAT16, INT4, ROTATED) for name in DECODER}
)


def decoder(rows):
    """A third of SmolLM-135M's layers, for `rows` tokens."""
    from litert_torch.generative.examples.smollm import smollm
    from litert_torch.generative.layers import kv_cache
    from litert_torch.generative.utilities import converter
    from litert_torch.generative.utilities.export_config import ExportConfig

    config = smollm.get_model_config()
    config.num_layers, config.vocab_size, config.max_seq_len = 10, 16384, CACHE
    model = smollm.SmolLM(config).eval()
    for weights in model.parameters():
        torch.nn.init.normal_(weights, 0, 0.02) if weights.dim() > 1 else torch.nn.init.ones_(weights)
    mask = torch.triu(torch.full((rows, CACHE), float("-inf")), diagonal=1)[None, None]
    inputs = {
        "tokens": torch.ones((1, rows), dtype=torch.int),
        "input_pos": torch.arange(rows, dtype=torch.int),
        "kv_cache": kv_cache.KVCache.from_model_config(CACHE, config),
        "mask": mask,
    }
    module = converter.ExportableModule(model, export_config=ExportConfig())
    return litert_torch.signature("run", module, sample_kwargs=inputs).convert()


def converted(name):
    torch.manual_seed(1)
    with torch.no_grad():
        if name in DECODER:
            return decoder(1 if name == "llama_step" else 128)
        model, inputs = torch_nets.NETWORKS[name]()
        return litert_torch.convert(model.eval(), inputs)


def samples(path):
    """Inputs for the ranges of values, as AI Edge Quantizer wants them."""
    from ai_edge_litert.interpreter import Interpreter

    (key, signature), *_ = Interpreter(str(path)).get_signature_list().items()
    image = torch_nets.image()[0].numpy()
    return {key: [{name: image for name in signature["inputs"]}]}


def write(name, folder):
    real = folder / f"{name}_f32.tflite"
    converted(name).export(str(real))
    for suffix, rules in RECIPES[name]:
        work = quantizer.Quantizer(str(real))
        work.load_quantization_recipe(rules())
        ranges = work.calibrate(samples(real)) if work.need_calibration else None
        work.quantize(ranges).export_model(str(folder / f"{name}_{suffix}.tflite"), overwrite=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", choices=[[], *RECIPES])
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    failed = 0
    for name in args.names or RECIPES:
        try:
            write(name, args.folder)
            print(name, flush=True)
        except Exception as error:  # whatever the converters raise
            failed += 1
            print(f"{name}: not written: {str(error).splitlines()[:1]}", file=sys.stderr, flush=True)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
