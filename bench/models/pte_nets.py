#!/usr/bin/env python3
"""Writes networks of real size with random weights as ExecuTorch programs for XNNPACK: float32, int8 (static, per
channel) and dynamic (linear layers whose rows are quantized at run time).

    pip install executorch
    python3 pte_nets.py FOLDER [NAME...]      # all networks, or those named
"""

import sys
from pathlib import Path

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackDynamicallyQuantizedPartitioner
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import XNNPACKQuantizer, get_symmetric_quantization_config
from executorch.exir import to_edge_transform_and_lower
from torch import nn
from torch.nn import functional
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

IMAGE = (1, 3, 224, 224)


def conv(inputs, outputs, size=3, stride=1, groups=1, dilation=1, act=nn.ReLU):
    """Convolution, batch norm and activation; `act` None: none."""
    padding = dilation * (size - 1) // 2
    layers = [nn.Conv2d(inputs, outputs, size, stride, padding, dilation, groups, bias=False), nn.BatchNorm2d(outputs)]
    return nn.Sequential(*layers, *([act()] if act else []))


class Residual(nn.Module):
    """x + layers(x), or short(x) + layers(x), and an activation."""

    def __init__(self, layers, short=None, act=None):
        super().__init__()
        self.layers, self.short, self.act = layers, short, act

    def forward(self, x):
        y = self.layers(x) + (self.short(x) if self.short else x)
        return self.act(y) if self.act else y


class Gate(nn.Module):
    """Squeeze and excitation."""

    def __init__(self, width, narrow, gate):
        super().__init__()
        self.narrow, self.wide, self.gate = nn.Conv2d(width, narrow, 1), nn.Conv2d(narrow, width, 1), gate

    def forward(self, x):
        return x * self.gate(self.wide(functional.relu(self.narrow(x.mean((2, 3), keepdim=True)))))


class Head(nn.Module):
    def __init__(self, width, classes=1000):
        super().__init__()
        self.linear = nn.Linear(width, classes)

    def forward(self, x):
        return self.linear(x.mean((2, 3)))


def resnet(depths, bottleneck):
    layers, width = [conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)], 64
    for stage, depth in enumerate(depths):
        narrow = 64 << stage
        out = narrow * (4 if bottleneck else 1)
        for i in range(depth):
            stride = 2 if stage and not i else 1
            if bottleneck:
                body = [conv(width, narrow, 1), conv(narrow, narrow, 3, stride), conv(narrow, out, 1, act=None)]
            else:
                body = [conv(width, narrow, 3, stride), conv(narrow, narrow, act=None)]
            short = conv(width, out, 1, stride, act=None) if stride > 1 or width != out else None
            layers.append(Residual(nn.Sequential(*body), short, nn.ReLU()))
            width = out
    return nn.Sequential(*layers, Head(width))


def inverted(inputs, wide, outputs, size, stride, act, gate=None):
    body = [conv(inputs, wide, 1, act=act)] if wide != inputs else []
    body += [conv(wide, wide, size, stride, wide, act=act), *([gate] if gate else []), conv(wide, outputs, 1, act=None)]
    layers = nn.Sequential(*body)
    return Residual(layers) if stride == 1 and inputs == outputs else layers


def mobile(first, rows, last, act, gates=None):
    """rows: kernel, width inside, width, stride, gated."""
    layers, width = [conv(3, first, 3, 2, act=act)], first
    for size, wide, out, stride, gated in rows:
        gate = Gate(wide, max(8, wide // 4), gates()) if gated else None
        layers.append(inverted(width, wide, out, size, stride, act, gate))
        width = out
    return nn.Sequential(*layers, conv(width, last, 1, act=act), Head(last))


def repeated(table, first, gated=False):
    """rows of mobile() from expansion, channels, count, stride, kernel."""
    rows, width = [], first
    for expand, out, count, stride, size in table:
        for i in range(count):
            rows.append((size, width * expand, out, stride if i == 0 else 1, gated))
            width = out
    return rows


MOBILENET_V2 = [(1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 32, 3, 2, 3), (6, 64, 4, 2, 3), (6, 96, 3, 1, 3)]
MOBILENET_V2 += [(6, 160, 3, 2, 3), (6, 320, 1, 1, 3)]
EFFICIENTNET_B0 = [(1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3), (6, 112, 3, 1, 5)]
EFFICIENTNET_B0 += [(6, 192, 4, 2, 5), (6, 320, 1, 1, 3)]
MOBILENET_V3 = [(3, 16, 16, 1, 0), (3, 64, 24, 2, 0), (3, 72, 24, 1, 0), (5, 72, 40, 2, 1), (5, 120, 40, 1, 1)]
MOBILENET_V3 += [(5, 120, 40, 1, 1), (3, 240, 80, 2, 0), (3, 200, 80, 1, 0), (3, 184, 80, 1, 0), (3, 184, 80, 1, 0)]
MOBILENET_V3 += [(3, 480, 112, 1, 1), (3, 672, 112, 1, 1), (5, 672, 160, 2, 1), (5, 960, 160, 1, 1), (5, 960, 160, 1, 1)]


class DeepLab(nn.Module):
    """MobileNetV2 of output stride 16 and a head of rates 6, 12 and 18 on 257x257."""

    def __init__(self):
        super().__init__()
        rows = repeated([(e, c, n, 1 if c == 160 else s, k) for e, c, n, s, k in MOBILENET_V2], 32)
        layers, width = [conv(3, 32, 3, 2, act=nn.ReLU6)], 32
        for size, wide, out, stride, _ in rows:
            layers.append(inverted(width, wide, out, size, stride, nn.ReLU6))
            width = out
        self.body = nn.Sequential(*layers)
        self.heads = nn.ModuleList([conv(width, 256, 1), *(conv(width, 256, 3, dilation=r) for r in (6, 12, 18))])
        self.join = nn.Sequential(conv(1024, 256, 1), nn.Conv2d(256, 21, 1))

    def forward(self, x):
        y = self.body(x)
        y = self.join(torch.cat([head(y) for head in self.heads], 1))
        return functional.interpolate(y, x.shape[2:], mode="bilinear", align_corners=True)


class UNet(nn.Module):
    def __init__(self, widths=(32, 64, 128, 256, 512)):
        super().__init__()
        down, up, rise = [], [], []
        for inputs, outputs in zip((3, *widths), widths):
            down.append(nn.Sequential(conv(inputs, outputs), conv(outputs, outputs)))
        for inputs, outputs in zip(widths[:0:-1], widths[-2::-1]):
            rise.append(nn.ConvTranspose2d(inputs, outputs, 2, 2))
            up.append(nn.Sequential(conv(2 * outputs, outputs), conv(outputs, outputs)))
        self.down, self.up, self.rise = nn.ModuleList(down), nn.ModuleList(up), nn.ModuleList(rise)
        self.last = nn.Conv2d(widths[0], 2, 1)

    def forward(self, x):
        skips = []
        for i, layer in enumerate(self.down):
            x = layer(functional.max_pool2d(x, 2) if i else x)
            skips.append(x)
        for rise, layer, skip in zip(self.rise, self.up, skips[-2::-1]):
            x = layer(torch.cat([rise(x), skip], 1))
        return self.last(x)


def edsr(width=64, blocks=8):
    body = [
        Residual(nn.Sequential(nn.Conv2d(width, width, 3, 1, 1), nn.ReLU(), nn.Conv2d(width, width, 3, 1, 1)))
        for _ in range(blocks)
    ]
    tail = [nn.Conv2d(width, 4 * width, 3, 1, 1), nn.PixelShuffle(2), nn.Conv2d(width, 3, 3, 1, 1)]
    return nn.Sequential(nn.Conv2d(3, width, 3, 1, 1), *body, *tail)


def ds_cnn(width=64):
    """Keyword spotting on 49 frames of 10 coefficients."""
    layers = [nn.Conv2d(1, width, (10, 4), 2, (4, 1)), nn.ReLU()]
    for _ in range(4):
        layers += [conv(width, width, 3, groups=width), conv(width, width, 1)]
    return nn.Sequential(*layers, Head(width, 12))


class Ssd(nn.Module):
    """MobileNetV2 on 320x320 and SSDLite's heads on its last two feature maps: offsets and scores of all boxes."""

    def __init__(self, anchors=6, classes=91):
        super().__init__()
        rows, width, parts = repeated(MOBILENET_V2, 32), 32, [conv(3, 32, 3, 2, act=nn.ReLU6)]
        for size, wide, out, stride, _ in rows:
            parts.append(inverted(width, wide, out, size, stride, nn.ReLU6))
            width = out
        self.near, self.far = nn.Sequential(*parts[:14]), nn.Sequential(*parts[14:], conv(width, 1280, 1, act=nn.ReLU6))
        self.sizes = (4, classes)
        self.heads = nn.ModuleList(
            nn.Sequential(conv(c, c, 3, groups=c, act=nn.ReLU6), nn.Conv2d(c, anchors * n, 1))
            for n in self.sizes
            for c in (96, 1280)
        )

    def forward(self, x):
        near = self.near(x)
        maps, found = (near, self.far(near)), []
        for i, columns in enumerate(self.sizes):
            heads = [self.heads[2 * i + j](y) for j, y in enumerate(maps)]
            found.append(torch.cat([y.permute(0, 2, 3, 1).reshape(1, -1, columns) for y in heads], 1))
        return found[0], found[1].softmax(-1)


class Tcn(nn.Module):
    """Temporal convolutions of growing dilation with residual sums, over 500 frames of 40 features."""

    def __init__(self, width=128, layers=8):
        super().__init__()
        self.first = nn.Conv1d(40, width, 1)
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Conv1d(width, width, 3, padding=2**i, dilation=2**i), nn.ReLU()) for i in range(layers)
        )

    def forward(self, x):
        x = self.first(x)
        for layer in self.layers:
            x = x + layer(x)
        return x


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x):
        batch, rows, width = x.shape
        q, k, v = (f(x).view(batch, rows, self.heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        scores = (q @ k.transpose(-1, -2)) * (width // self.heads) ** -0.5
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, rows, width))


def mlp(width, wide):
    return nn.Sequential(nn.Linear(width, wide), nn.GELU(), nn.Linear(wide, width))


class Encoder(nn.Module):
    """Layers of a transformer; `first`: norms stand in front, as in ViT, else behind, as in BERT."""

    def __init__(self, width, heads, layers, first):
        super().__init__()
        self.first = first
        self.parts = nn.ModuleList()
        for _ in range(layers):
            for part in (Attention(width, heads), mlp(width, 4 * width)):
                self.parts.append(nn.ModuleList([part, nn.LayerNorm(width)]))

    def forward(self, x):
        for part, norm in self.parts:
            x = x + part(norm(x)) if self.first else norm(x + part(x))
        return x


class ViT(nn.Module):
    def __init__(self, width, heads, layers):
        super().__init__()
        self.patches, self.encoder = nn.Conv2d(3, width, 16, 16), Encoder(width, heads, layers, True)
        self.places, self.head = nn.Parameter(torch.randn(1, 196, width)), nn.Linear(width, 1000)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2) + self.places
        return self.head(self.encoder(x).mean(1))


class Bert(nn.Module):
    def __init__(self, width=768, heads=12, layers=4):
        super().__init__()
        self.words, self.encoder = nn.Embedding(30522, width), Encoder(width, heads, layers, False)

    def forward(self, ids):
        return self.encoder(self.words(ids))


class ConvNextBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.depthwise, self.norm = nn.Conv2d(width, width, 7, 1, 3, groups=width), nn.LayerNorm(width)
        self.mlp = mlp(width, 4 * width)

    def forward(self, x):
        y = self.mlp(self.norm(self.depthwise(x).permute(0, 2, 3, 1)))
        return x + y.permute(0, 3, 1, 2)


def convnext():
    first = [nn.Conv2d(3, 96, 4, 4), *(ConvNextBlock(96) for _ in range(3))]
    return nn.Sequential(*first, nn.Conv2d(96, 384, 4, 4), *(ConvNextBlock(384) for _ in range(3)), Head(384))


def image(*shape):
    return lambda: torch.randn(*(shape or IMAGE))


NETWORKS = {
    "resnet18": (lambda: resnet([2, 2, 2, 2], False), image()),
    "resnet50": (lambda: resnet([3, 4, 6, 3], True), image()),
    "mobilenet_v2": (lambda: mobile(32, repeated(MOBILENET_V2, 32), 1280, nn.ReLU6), image()),
    "mobilenet_v3": (lambda: mobile(16, MOBILENET_V3, 960, nn.Hardswish, nn.Hardsigmoid), image()),
    "efficientnet_b0": (lambda: mobile(32, repeated(EFFICIENTNET_B0, 32, True), 1280, nn.SiLU, nn.Sigmoid), image()),
    "deeplab": (DeepLab, image(1, 3, 257, 257)),
    "unet": (UNet, image(1, 3, 256, 256)),
    "edsr": (edsr, image(1, 3, 96, 96)),
    "ds_cnn": (ds_cnn, image(1, 1, 49, 10)),
    "ssd_mobilenet_v2": (Ssd, image(1, 3, 320, 320)),
    "tcn": (Tcn, image(1, 40, 500)),
    "deit_tiny": (lambda: ViT(192, 3, 12), image()),
    "bert_base_4": (Bert, lambda: torch.randint(0, 30522, (1, 128))),
    "convnext_t_stages": (convnext, image()),
}
TRANSFORMERS = {"deit_tiny", "bert_base_4", "convnext_t_stages"}


def lowered(program, *partitioners):
    return to_edge_transform_and_lower(program, partitioner=list(partitioners)).to_executorch().buffer


def quantized(program, example, dynamic):
    config = get_symmetric_quantization_config(is_per_channel=True, is_dynamic=dynamic)
    prepared = prepare_pt2e(program.module(), XNNPACKQuantizer().set_global(config))
    prepared(*example)
    return torch.export.export(convert_pt2e(prepared), example)


def main():
    folder, names = Path(sys.argv[1]), sys.argv[2:]
    folder.mkdir(parents=True, exist_ok=True)
    for name, (make, draw) in NETWORKS.items():
        if names and name not in names:
            continue
        torch.manual_seed(1)
        with torch.no_grad():
            network = make()
            if name not in TRANSFORMERS:
                for _ in range(3):  # statistics of the batch norms
                    network(draw())
            example = (draw(),)
            program = torch.export.export(network.eval(), example)
            (folder / f"{name}_f32.pte").write_bytes(lowered(program, XnnpackPartitioner()))
            if name in TRANSFORMERS:
                parts = [XnnpackDynamicallyQuantizedPartitioner(), XnnpackPartitioner()]
                (folder / f"{name}_dynamic.pte").write_bytes(lowered(quantized(program, example, True), *parts))
            else:
                (folder / f"{name}_int8.pte").write_bytes(lowered(quantized(program, example, False), XnnpackPartitioner()))
        print(name, flush=True)


if __name__ == "__main__":
    main()
