#!/usr/bin/env python3
"""Writes networks of torchvision, timm and transformers with random weights as .onnx files, by PyTorch's exporters.

pip install torch torchvision timm transformers onnx onnxscript
python3 torch_nets.py [--exporter dynamo|torchscript] FOLDER [NAME...]      # all networks, or those named

A network that its exporter cannot write is named on standard error; the status is then 1.
"""

import argparse
import sys
import warnings
from pathlib import Path

import torch
from torch import nn

try:  # A torchvision built for another PyTorch has no detection operators; the networks here need none.
    import torchvision
except RuntimeError:
    for name in ("nms", "qnms"):
        torch.library.define(f"torchvision::{name}", "(Tensor boxes, Tensor scores, float iou) -> Tensor")
    import torchvision

import transformers


class First(nn.Module):
    """A model's first output: of a dict, a tuple, or the output class of transformers."""

    def __init__(self, model, method=None, **options):
        super().__init__()
        self.model, self.method, self.options = model, method, options

    def forward(self, *inputs):
        result = (getattr(self.model, self.method) if self.method else self.model)(*inputs, **self.options)
        if isinstance(result, dict):
            return next(iter(result.values()))
        return result if torch.is_tensor(result) else result[0]


class CachedStep(nn.Module):
    """One token of a causal decoder; keys and values of the past are inputs, those of past and token are outputs."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens, *past):
        layers = [(past[i], past[i + 1]) for i in range(0, len(past), 2)]
        cache = transformers.DynamicCache(layers)
        result = self.model(tokens, past_key_values=cache, use_cache=True)
        present = [t for layer in cache.layers for t in (layer.keys, layer.values)]
        return result.logits, *present


class T5Step(nn.Module):
    """One token of T5's decoder: keys and values of the past tokens, then those of the encoded text, are inputs."""

    def __init__(self):
        super().__init__()
        config = transformers.T5Config(attn_implementation="eager", use_cache=True)
        self.model = transformers.T5ForConditionalGeneration(config)

    def forward(self, tokens, encoded, *past):
        layers = [(past[i], past[i + 1]) for i in range(0, len(past), 2)]
        half = len(layers) // 2
        caches = [transformers.DynamicCache(some) for some in (layers[:half], layers[half:])]
        cache = transformers.EncoderDecoderCache(*caches)
        result = self.model(decoder_input_ids=tokens, encoder_outputs=(encoded,), past_key_values=cache, use_cache=True)
        return result.logits, *(t for layer in caches[0].layers for t in (layer.keys, layer.values))


class Detector(nn.Module):
    """A detector of torchvision without resizing and non-maximum suppression: scores and offsets of all boxes."""

    def __init__(self, name):
        super().__init__()
        model = getattr(torchvision.models.detection, name)(weights=None, weights_backbone=None)
        self.backbone, self.head = model.backbone, model.head

    def forward(self, x):
        result = self.head(list(self.backbone(x).values()))
        return result["cls_logits"], result["bbox_regression"]


class Edsr(nn.Module):
    """EDSR's baseline: 16 residual blocks of 64 channels, then twice the size."""

    def __init__(self, blocks=16, width=64):
        super().__init__()
        self.head = nn.Conv2d(3, width, 3, padding=1)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1))
            for _ in range(blocks)
        )
        self.tail = nn.Sequential(
            nn.Conv2d(width, 4 * width, 3, padding=1), nn.PixelShuffle(2), nn.Conv2d(width, 3, 3, padding=1)
        )

    def forward(self, x):
        x = y = self.head(x)
        for block in self.blocks:
            y = y + block(y)
        return self.tail(x + y)


class Recurrent(nn.Module):
    """Two recurrent layers in both directions over a sequence, and a classifier of each step."""

    def __init__(self, kind):
        super().__init__()
        self.layers = kind(80, 256, num_layers=2, bidirectional=True, batch_first=True)
        self.classes = nn.Linear(512, 40)

    def forward(self, x):
        return self.classes(self.layers(x)[0])


class Tcn(nn.Module):
    """Temporal convolutions of growing dilation with residual sums."""

    def __init__(self, width=128, layers=8):
        super().__init__()
        self.first = nn.Conv1d(40, width, 1)
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Conv1d(width, width, 3, padding=2**i, dilation=2**i), nn.PReLU(), nn.GroupNorm(1, width))
            for i in range(layers)
        )

    def forward(self, x):
        x = self.first(x)
        for layer in self.layers:
            x = x + layer(x)
        return x


def image(size=224):
    return (torch.rand(1, 3, size, size),)


def tokens(count):
    return (torch.randint(1, 1000, (1, count)),)


def vision(name, size=224, **options):
    return lambda: (First(getattr(torchvision.models, name)(weights=None, **options)), image(size))


def timm_vision(name, size=224):
    def make():
        import timm

        return First(timm.create_model(name, pretrained=False)), image(size)

    return make


def segmentation(name, size):
    model = getattr(torchvision.models.segmentation, name)
    return lambda: (First(model(weights=None, weights_backbone=None)), image(size))


def language(model, config, count, **options):
    def make():
        settings = config(attn_implementation="eager", **options)
        return First(model(settings), use_cache=False) if hasattr(settings, "use_cache") else First(model(settings))

    return lambda: (make(), tokens(count))


def small_llama():
    """SmolLM-135M's sizes."""
    config = transformers.LlamaConfig(
        vocab_size=49152,
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=30,
        num_attention_heads=9,
        num_key_value_heads=3,
        tie_word_embeddings=True,
        attn_implementation="eager",
    )
    return transformers.LlamaForCausalLM(config)


def llama_prefill():
    return First(small_llama(), use_cache=False), tokens(128)


def llama_step(past=128):
    return CachedStep(small_llama()), (*tokens(1), *(torch.rand(1, 3, past, 64) for _ in range(60)))


def t5_step(past=32, source=128):
    caches = [torch.rand(1, 8, length, 64) for length in (past, source) for _ in range(12)]
    return T5Step(), (*tokens(1), torch.rand(1, source, 512), *caches)


def whisper():
    config = transformers.WhisperConfig(attn_implementation="eager")  # its defaults are those of whisper-tiny
    return transformers.WhisperModel(config)


def whisper_encoder():
    return First(whisper().encoder), (torch.rand(1, 80, 3000),)


def whisper_decoder():
    """Four tokens that attend to 1500 encoded frames."""

    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.decoder = whisper().decoder

        def forward(self, ids, frames):
            return self.decoder(input_ids=ids, encoder_hidden_states=frames, use_cache=False)[0]

    return Decoder(), (*tokens(4), torch.rand(1, 1500, 384))


def wav2vec2():
    config = transformers.Wav2Vec2Config(num_hidden_layers=4, attn_implementation="eager")
    return First(transformers.Wav2Vec2Model(config)), (torch.rand(1, 16000),)


BERT, MODEL = transformers.BertConfig, transformers.BertModel
SMALL = {"hidden_size": 384, "num_attention_heads": 12, "intermediate_size": 1536}

NETWORKS = {
    "resnet18": vision("resnet18"),
    "resnet50": vision("resnet50"),
    "mobilenet_v2": vision("mobilenet_v2"),
    "mobilenet_v3_large": vision("mobilenet_v3_large"),
    "mnasnet1_0": vision("mnasnet1_0"),
    "squeezenet1_1": vision("squeezenet1_1"),
    "shufflenet_v2": vision("shufflenet_v2_x1_0"),
    "efficientnet_b0": vision("efficientnet_b0"),
    "inception_v3": vision("inception_v3", 299, init_weights=False),
    "googlenet": vision("googlenet", init_weights=False),
    "densenet121": vision("densenet121"),
    "regnet_y_400mf": vision("regnet_y_400mf"),
    "convnext_tiny": vision("convnext_tiny"),
    "swin_t": vision("swin_t"),
    "vit_b_16": vision("vit_b_16"),
    "maxvit_t": vision("maxvit_t"),
    "deeplabv3_mobilenet": segmentation("deeplabv3_mobilenet_v3_large", 320),
    "lraspp_mobilenet": segmentation("lraspp_mobilenet_v3_large", 320),
    "ssdlite_mobilenet": lambda: (Detector("ssdlite320_mobilenet_v3_large"), image(320)),
    "retinanet_resnet50": lambda: (Detector("retinanet_resnet50_fpn"), image(320)),
    "mixer_b16": timm_vision("mixer_b16_224"),
    "mobilevit_s": timm_vision("mobilevit_s", 256),
    "ghostnet": timm_vision("ghostnet_100"),
    "edsr": lambda: (Edsr(), image(96)),
    "bert_base": language(MODEL, BERT, 128),
    "distilbert": language(transformers.DistilBertModel, transformers.DistilBertConfig, 128),
    "minilm_6": language(MODEL, BERT, 128, num_hidden_layers=6, **SMALL),
    "gpt2": language(transformers.GPT2LMHeadModel, transformers.GPT2Config, 64),
    "t5_encoder": language(transformers.T5EncoderModel, transformers.T5Config, 128),
    "t5_step": t5_step,
    "llama_prefill": llama_prefill,
    "llama_step": llama_step,
    "whisper_encoder": whisper_encoder,
    "whisper_decoder": whisper_decoder,
    "wav2vec2": wav2vec2,
    "lstm": lambda: (Recurrent(nn.LSTM), (torch.rand(1, 100, 80),)),
    "gru": lambda: (Recurrent(nn.GRU), (torch.rand(1, 100, 80),)),
    "tcn": lambda: (Tcn(), (torch.rand(1, 40, 500),)),
}


def export(name, path, exporter):
    torch.manual_seed(1)
    model, inputs = NETWORKS[name]()
    dynamo = exporter == "dynamo"
    options = {"dynamo": True, "external_data": False} if dynamo else {"dynamo": False, "opset_version": 17}
    with torch.no_grad():
        torch.onnx.export(model.eval(), inputs, path, verbose=False, **options)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--exporter", choices=("dynamo", "torchscript"), default="dynamo")
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", choices=[[], *NETWORKS])
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    warnings.filterwarnings("ignore")
    failed = 0
    for name in args.names or NETWORKS:
        path = args.folder / f"{name}.onnx"
        try:
            export(name, path, args.exporter)
            print(f"{path}: {path.stat().st_size / 1e6:.1f} MB", flush=True)
        except Exception as error:  # whatever an exporter raises
            failed += 1
            path.unlink(missing_ok=True)
            print(f"{name}: not written: {str(error).splitlines()[:1]}", file=sys.stderr, flush=True)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
