#!/usr/bin/env python3
"""Writes MobileNetV2 1.0/224 with random weights as ExecuTorch programs for XNNPACK, float32 and int8.

    pip install executorch
    python3 mobilenet_v2.py FOLDER      # writes mobilenet_v2_f32.pte and mobilenet_v2_int8.pte
"""
import sys
from pathlib import Path

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import XNNPACKQuantizer, get_symmetric_quantization_config
from executorch.exir import to_edge_transform_and_lower
from torch import nn
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e


def conv(inputs, outputs, size=1, stride=1, groups=1, act=True):
    layers = [nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False), nn.BatchNorm2d(outputs)]
    return nn.Sequential(*layers, *([nn.ReLU6()] if act else []))


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride, expand):
        super().__init__()
        wide = inputs * expand
        first = [conv(inputs, wide)] if expand > 1 else []
        self.layers = nn.Sequential(*first, conv(wide, wide, 3, stride, wide), conv(wide, outputs, act=False))
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x):
        return x + self.layers(x) if self.residual else self.layers(x)


class MobileNetV2(nn.Module):
    def __init__(self):
        super().__init__()
        layers, width = [conv(3, 32, 3, 2)], 32
        for expand, outputs, count, stride in [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
                                               (6, 160, 3, 2), (6, 320, 1, 1)]:
            for i in range(count):
                layers.append(Block(width, outputs, stride if i == 0 else 1, expand))
                width = outputs
        self.features = nn.Sequential(*layers, conv(width, 1280))
        self.classifier = nn.Linear(1280, 1000)

    def forward(self, image):
        return self.classifier(self.features(image).mean((2, 3), keepdim=True).flatten(1))


def main():
    folder = Path(sys.argv[1])
    torch.manual_seed(1)
    example = (torch.randn(1, 3, 224, 224),)
    with torch.no_grad():
        network = MobileNetV2()
        for _ in range(3):  # statistics of the batch norms
            network(torch.randn(4, 3, 224, 224))
        program = torch.export.export(network.eval(), example)
        quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True))
        prepared = prepare_pt2e(program.module(), quantizer)
        prepared(*example)
        int8 = torch.export.export(convert_pt2e(prepared), example)
        for name, one in {"f32": program, "int8": int8}.items():
            lowered = to_edge_transform_and_lower(one, partitioner=[XnnpackPartitioner()]).to_executorch()
            (folder / f"mobilenet_v2_{name}.pte").write_bytes(lowered.buffer)


if __name__ == "__main__":
    main()
