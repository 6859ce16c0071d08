#!/usr/bin/env python3
"""Writes language models with random weights as .onnx files with open shapes, by the exporters that people use.

pip install torch transformers tokenizers onnx onnxruntime
python3 language_nets.py genai FOLDER [NAME...]    # pip install onnxruntime-genai: float32 and 4-bit weights
python3 language_nets.py optimum FOLDER [NAME...]  # pip install optimum-onnx: float32 and int8 weights

A network that its exporter cannot write is named on standard error; the status is then 1.
"""

import argparse
import inspect
import os
import shutil
import sys
import tempfile
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import onnx
import torch
import transformers

DECODER = {
    "hidden_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "intermediate_size": 1536,
    "vocab_size": 8000,
    "max_position_embeddings": 2048,
}
ENCODER_DECODER = {"d_model": 256, "vocab_size": 8000}
BART = {
    **ENCODER_DECODER,
    **{f"{part}_layers": 3 for part in ("encoder", "decoder")},
    **{f"{part}_attention_heads": 4 for part in ("encoder", "decoder")},
    **{f"{part}_ffn_dim": 1024 for part in ("encoder", "decoder")},
}
WHISPER = {
    **BART,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
    "suppress_tokens": [],
    "begin_suppress_tokens": [],
}
T5 = {
    **ENCODER_DECODER,
    "d_kv": 32,
    "d_ff": 1024,
    "num_layers": 4,
    "num_decoder_layers": 4,
    "num_heads": 8,
    "decoder_start_token_id": 0,
}
GENERATE = "text-generation-with-past"
TRANSLATE = "text2text-generation-with-past"

# name: the model class, its configuration, and Optimum's task (None: Optimum doesn't export it).
NETS = {
    "llama": ("LlamaForCausalLM", DECODER, GENERATE),
    "qwen2": ("Qwen2ForCausalLM", DECODER, GENERATE),
    "qwen3": ("Qwen3ForCausalLM", {**DECODER, "head_dim": 64}, GENERATE),
    "mistral": ("MistralForCausalLM", {**DECODER, "sliding_window": 256}, GENERATE),
    "gemma2": ("Gemma2ForCausalLM", {**DECODER, "head_dim": 64, "sliding_window": 256}, None),
    "granite": ("GraniteForCausalLM", DECODER, GENERATE),
    "olmo": ("OlmoForCausalLM", DECODER, GENERATE),
    "phi": ("PhiForCausalLM", {**DECODER, "num_key_value_heads": 8, "partial_rotary_factor": 0.5}, GENERATE),
    "nemotron": ("NemotronForCausalLM", {**DECODER, "head_dim": 64}, None),
    "ernie": ("Ernie4_5ForCausalLM", {**DECODER, "head_dim": 64}, None),
    "lfm2": ("Lfm2ForCausalLM", {**DECODER, "layer_types": ["conv", "full_attention"] * 2}, None),
    "gpt_oss": (
        "GptOssForCausalLM",
        {
            **DECODER,
            "head_dim": 64,
            "num_local_experts": 8,
            "num_experts_per_tok": 2,
            "intermediate_size": 512,
            "sliding_window": 128,
        },
        None,
    ),
    "gpt2": ("GPT2LMHeadModel", {"n_embd": 256, "n_layer": 4, "n_head": 8, "vocab_size": 8000}, GENERATE),
    "t5": ("T5ForConditionalGeneration", T5, TRANSLATE),
    "bart": ("BartForConditionalGeneration", BART, TRANSLATE),
    "whisper": ("WhisperForConditionalGeneration", WHISPER, "automatic-speech-recognition-with-past"),
}
ENCODERS = ("gpt2", "t5", "bart", "whisper")  # the generator's builder wants other files for these


def checkpoint(name, folder):
    """Saves the network as transformers does, with a tokenizer of a few words."""
    kind, options, _ = NETS[name]
    model_class = getattr(transformers, kind)
    torch.manual_seed(1)
    model_class(model_class.config_class(**options)).eval().float().save_pretrained(folder)
    from tokenizers import Tokenizer, models

    words = Tokenizer(models.WordLevel({f"t{i}": i for i in range(100)}, unk_token="t0"))
    transformers.PreTrainedTokenizerFast(tokenizer_object=words).save_pretrained(folder)
    if name == "whisper":
        transformers.WhisperFeatureExtractor(chunk_length=10).save_pretrained(folder)
    else:
        transformers.GenerationConfig(bos_token_id=1, eos_token_id=2, pad_token_id=0).save_pretrained(folder)


def genai(name, folder, work):
    """By the model builder of ONNX Runtime's generator."""
    from onnxruntime_genai.models import builder

    # gpt-oss is released with 4-bit weights of its own, which a random one lacks.
    for precision in ("fp32",) if name == "gpt_oss" else ("fp32", "int4"):
        made, cache = f"{work}/{precision}", f"{work}/cache"
        extra = ["int4_accuracy_level=4"] if precision == "int4" else []
        options = builder.parse_extra_options("", work, made, precision, "cpu", cache, extra)
        builder.create_model("", work, made, precision, "cpu", cache, **options)
        onnx.save(onnx.load(f"{made}/model.onnx"), folder / f"{name}_{precision}.onnx")


def optimum(name, folder, work):
    """By Optimum, and its files quantized by ONNX Runtime."""
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from optimum.exporters.onnx import main_export

    made = Path(work) / "onnx"
    main_export(work, output=made, task=NETS[name][2], do_validation=False, library_name="transformers")
    for file in made.glob("*.onnx"):
        kept = folder / f"{name}_{file.name}"
        shutil.copy(file, kept)
        int8 = folder / f"{name}_{file.stem}_int8.onnx"
        quantize_dynamic(kept, int8, weight_type=QuantType.QInt8, extra_options={"EnableSubgraph": True})


def main():
    parser = argparse.ArgumentParser(
        description=inspect.getdoc(sys.modules[__name__]), formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("exporter", choices=["genai", "optimum"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    if args.exporter == "genai":
        export, known = genai, [n for n in NETS if n not in ENCODERS]
    else:
        export, known = optimum, [n for n, (_, _, task) in NETS.items() if task]
    failed = False
    for name in args.names or known:
        if name not in known:
            parser.error(f"{args.exporter} has no network '{name}'; it has {', '.join(known)}")
        with tempfile.TemporaryDirectory() as work:
            try:
                checkpoint(name, work)
                export(name, args.folder, work)
                print(name, flush=True)
            except Exception as error:  # noqa: BLE001: whatever the exporter raises
                print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
                failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
