#!/usr/bin/env python3
"""Writes networks of real size with random weights as .onnx files, in the forms that exporters give them.

pip install onnx numpy
python3 onnx_nets.py FOLDER [NAME...]      # all networks, or those named
"""

import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Net:
    """A graph that grows node by node. Methods take names of values and return the name of the result."""

    def __init__(self, seed=1):
        self.nodes, self.constants, self.inputs, self.random = [], [], [], np.random.default_rng(seed)

    def input(self, name, shape, dtype=TensorProto.FLOAT):
        self.inputs.append(helper.make_tensor_value_info(name, dtype, shape))
        return name

    def op(self, kind, *inputs, outputs=1, **attributes):
        names = [f"{kind.lower()}_{len(self.nodes)}" + (f"_{i}" if i else "") for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, name=names[0], **attributes))
        return names if outputs > 1 else names[0]

    def constant(self, array):
        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def ints(self, *values):
        return self.constant(np.array(values, np.int64))

    def real(self, value):
        return self.constant(np.float32(value))

    def weight(self, *shape, fan_in=1):
        return self.constant(self.random.normal(0, fan_in**-0.5, shape).astype(np.float32))

    def save(self, path, outputs):
        infos = [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in outputs]
        graph = helper.make_graph(self.nodes, path.stem, self.inputs, infos, self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.save(onnx.shape_inference.infer_shapes(model), path)

    # Images.
    def conv(self, x, c_in, c_out, kernel=3, stride=1, groups=1, dilation=1, act=None):
        """A convolution that keeps the size (of stride 1), as a folded batch norm leaves it."""
        pad = dilation * (kernel - 1) // 2
        fan_in = c_in // groups * kernel * kernel / 2
        y = self.op(
            "Conv",
            x,
            self.weight(c_out, c_in // groups, kernel, kernel, fan_in=fan_in),
            self.weight(c_out, fan_in=100),
            kernel_shape=[kernel] * 2,
            strides=[stride] * 2,
            pads=[pad] * 4,
            group=groups,
            dilations=[dilation] * 2,
        )
        return self.activate(y, act)

    def activate(self, x, act):
        if act == "relu6":
            return self.op("Clip", x, self.real(0), self.real(6))
        if act == "silu":
            return self.op("Mul", x, self.op("Sigmoid", x))
        return self.op("Relu", x) if act == "relu" else x

    def max_pool(self, x, kernel, stride, pad=0):
        return self.op("MaxPool", x, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4)

    def classifier(self, x, channels, classes=1000):
        x = self.op("Flatten", self.op("GlobalAveragePool", x))
        return self.op("Gemm", x, self.weight(classes, channels, fan_in=channels), self.weight(classes), transB=1)

    # Sequences.
    def linear(self, x, n_in, n_out):
        """torch.nn.Linear on three dimensions: a matrix product and an addition."""
        return self.op(
            "Add", self.weight(n_out, fan_in=100), self.op("MatMul", x, self.weight(n_in, n_out, fan_in=n_in))
        )

    def layer_norm(self, x, width, decomposed=False):
        """LayerNormalization; decomposed: as opset 16 and older have it."""
        scale, bias = self.constant(np.ones(width, np.float32)), self.weight(width, fan_in=100)
        if not decomposed:
            return self.op("LayerNormalization", x, scale, bias, axis=-1, epsilon=1e-5)
        centred = self.op("Sub", x, self.op("ReduceMean", x, axes=[-1]))
        variance = self.op("ReduceMean", self.op("Pow", centred, self.real(2)), axes=[-1])
        deviation = self.op("Sqrt", self.op("Add", variance, self.real(1e-5)))
        return self.op("Add", self.op("Mul", self.op("Div", centred, deviation), scale), bias)

    def gelu(self, x):
        """The error function's form, as torch exports it before opset 20."""
        erf = self.op("Erf", self.op("Div", x, self.real(2**0.5)))
        return self.op("Mul", self.op("Mul", x, self.op("Add", erf, self.real(1))), self.real(0.5))

    def size(self, x, axis):
        """Dimension `axis` of a value, as a list of one."""
        return self.op("Unsqueeze", self.op("Gather", self.op("Shape", x), self.constant(np.int64(axis))), self.ints(0))

    def heads(self, x, heads, depth, perm=(0, 2, 1, 3), shape=None):
        x = self.op("Reshape", x, shape or self.ints(0, -1, heads, depth))
        return self.op("Transpose", x, perm=list(perm))

    def joined(self, x, width, shape=None):
        return self.op("Reshape", self.op("Transpose", x, perm=[0, 2, 1, 3]), shape or self.ints(0, -1, width))

    def hf_attention(self, x, width, heads, mask=None, open_shape=False):
        """BERT's attention as transformers' eager form exports: product, division, mask, softmax, product. open_shape:
        the shapes of the reshapes are put together from that of x."""
        depth = width // heads
        split = joined = None
        if open_shape:
            sizes = [self.size(x, 0), self.size(x, 1)]
            split = self.op("Concat", *sizes, self.ints(heads), self.ints(depth), axis=0)
            joined = self.op("Concat", *sizes, self.ints(width), axis=0)
        q = self.heads(self.linear(x, width, width), heads, depth, shape=split)
        k = self.heads(self.linear(x, width, width), heads, depth, (0, 2, 3, 1), shape=split)
        v = self.heads(self.linear(x, width, width), heads, depth, shape=split)
        scores = self.op("Div", self.op("MatMul", q, k), self.real(depth**0.5))
        if mask:
            scores = self.op("Add", scores, mask)
        y = self.op("MatMul", self.op("Softmax", scores, axis=-1), v)
        return self.linear(self.joined(y, width, joined), width, width)

    def sdpa(self, q, k, v, depth, mask=None):
        """torch's scaled_dot_product_attention of [B, H, S, D]: q and k are each scaled by the root of the scale."""
        root = self.real(depth**-0.25)
        k = self.op("Mul", self.op("Transpose", k, perm=[0, 1, 3, 2]), root)
        scores = self.op("MatMul", self.op("Mul", q, root), k)
        if mask:
            scores = self.op("Add", scores, mask)
        return self.op("MatMul", self.op("Softmax", scores, axis=-1), v)

    def qkv_attention(self, x, width, heads):
        """timm's attention: one product for q, k and v, which a transpose and a split part."""
        depth = width // heads
        qkv = self.op("Reshape", self.linear(x, width, 3 * width), self.ints(0, -1, 3, heads, depth))
        parts = self.op("Split", self.op("Transpose", qkv, perm=[2, 0, 3, 1, 4]), self.ints(1, 1, 1), outputs=3, axis=0)
        q, k, v = (self.op("Squeeze", p, self.ints(0)) for p in parts)
        return self.linear(self.joined(self.sdpa(q, k, v, depth), width), width, width)

    def mlp(self, x, width, wide):
        return self.linear(self.gelu(self.linear(x, width, wide)), wide, width)


def resnet(net, depths, bottleneck):
    x = net.conv(net.input("image", [1, 3, 224, 224]), 3, 64, 7, 2, act="relu")
    x, width = net.max_pool(x, 3, 2, 1), 64
    for stage, depth in enumerate(depths):
        narrow = 64 << stage
        out = narrow * (4 if bottleneck else 1)
        for i in range(depth):
            stride = 2 if stage and not i else 1
            if bottleneck:
                y = net.conv(net.conv(x, width, narrow, 1, act="relu"), narrow, narrow, 3, stride, act="relu")
                y = net.conv(y, narrow, out, 1)
            else:
                y = net.conv(net.conv(x, width, narrow, 3, stride, act="relu"), narrow, narrow)
            short = net.conv(x, width, out, 1, stride) if stride > 1 or width != out else x
            x, width = net.op("Relu", net.op("Add", y, short)), out
    return [net.classifier(x, width)]


def resnet18(net):
    return resnet(net, [2, 2, 2, 2], False)


def resnet50(net):
    return resnet(net, [3, 4, 6, 3], True)


def vgg_like(net):
    x, width = net.input("image", [1, 3, 224, 224]), 3
    for count, out in [(1, 64), (1, 128), (2, 256), (2, 512), (2, 512)]:
        for _ in range(count):
            x, width = net.conv(x, width, out, act="relu"), out
        x = net.max_pool(x, 2, 2)
    return [net.classifier(x, width)]


def inverted_residuals(net, x, width, rows, act, squeeze=False):
    """rows: expansion, channels, count, stride, kernel."""
    for expand, out, count, first_stride, kernel in rows:
        for i in range(count):
            stride, wide = first_stride if i == 0 else 1, width * expand
            y = net.conv(x, width, wide, 1, act=act) if expand > 1 else x
            y = net.conv(y, wide, wide, kernel, stride, wide, act=act)
            if squeeze:
                narrow = max(1, width // 4)
                s = net.conv(net.op("GlobalAveragePool", y), wide, narrow, 1, act=act)
                y = net.op("Mul", y, net.op("Sigmoid", net.conv(s, narrow, wide, 1)))
            y = net.conv(y, wide, out, 1)
            x = net.op("Add", x, y) if stride == 1 and width == out else y
            width = out
    return x, width


MOBILENET_V2 = [
    (1, 16, 1, 1, 3),
    (6, 24, 2, 2, 3),
    (6, 32, 3, 2, 3),
    (6, 64, 4, 2, 3),
    (6, 96, 3, 1, 3),
    (6, 160, 3, 2, 3),
    (6, 320, 1, 1, 3),
]


def mobilenet_v2(net):
    x = net.conv(net.input("image", [1, 3, 224, 224]), 3, 32, 3, 2, act="relu6")
    x, width = inverted_residuals(net, x, 32, MOBILENET_V2, "relu6")
    return [net.classifier(net.conv(x, width, 1280, 1, act="relu6"), 1280)]


def efficientnet_b0(net):
    x = net.conv(net.input("image", [1, 3, 224, 224]), 3, 32, 3, 2, act="silu")
    rows = [
        (1, 16, 1, 1, 3),
        (6, 24, 2, 2, 3),
        (6, 40, 2, 2, 5),
        (6, 80, 3, 2, 3),
        (6, 112, 3, 1, 5),
        (6, 192, 4, 2, 5),
        (6, 320, 1, 1, 3),
    ]
    x, width = inverted_residuals(net, x, 32, rows, "silu", squeeze=True)
    return [net.classifier(net.conv(x, width, 1280, 1, act="silu"), 1280)]


def deeplab_mobilenet_v2(net):
    """MobileNetV2 at output stride 16 on 320x320 and a head of rates 12, 24 and 36."""
    x = net.conv(net.input("image", [1, 3, 320, 320]), 3, 32, 3, 2, act="relu6")
    rows = [(e, c, n, 1 if c == 160 else s, k) for e, c, n, s, k in MOBILENET_V2]
    x, width = inverted_residuals(net, x, 32, rows, "relu6")
    branches = [net.conv(x, width, 256, 1, act="relu")]
    branches += [net.conv(x, width, 256, 3, dilation=rate, act="relu") for rate in (12, 24, 36)]
    pooled = net.conv(net.op("GlobalAveragePool", x), width, 256, 1, act="relu")
    branches.append(net.op("Resize", pooled, "", "", net.ints(1, 256, 20, 20), mode="linear"))
    x = net.conv(net.op("Concat", *branches, axis=1), 5 * 256, 256, 1, act="relu")
    x = net.conv(net.conv(x, 256, 256, act="relu"), 256, 21, 1)
    return [net.op("Resize", x, "", "", net.ints(1, 21, 320, 320), mode="linear")]


def unet(net):
    x, width, skips = net.input("image", [1, 3, 256, 256]), 3, []
    for out in (32, 64, 128, 256):
        x, width = net.conv(net.conv(x, width, out, act="relu"), out, out, act="relu"), out
        skips.append((x, out))
        x = net.max_pool(x, 2, 2)
    x, width = net.conv(net.conv(x, width, 512, act="relu"), 512, 512, act="relu"), 512
    for skip, out in reversed(skips):
        x = net.op("ConvTranspose", x, net.weight(width, out, 2, 2, fan_in=width), kernel_shape=[2, 2], strides=[2, 2])
        x = net.op("Concat", x, skip, axis=1)
        x, width = net.conv(net.conv(x, 2 * out, out, act="relu"), out, out, act="relu"), out
    return [net.conv(x, width, 2, 1)]


def bert_base_4(net):
    """Four layers of BERT-base on 128 tokens."""
    ids, seen = net.input("ids", [1, 128], TensorProto.INT64), net.input("seen", [1, 128], TensorProto.INT64)
    x = net.op("Add", net.op("Gather", net.weight(30522, 768), ids, axis=0), net.weight(1, 128, 768))
    mask = net.op("Cast", net.op("Unsqueeze", seen, net.ints(1, 2)), to=TensorProto.FLOAT)
    mask = net.op("Mul", net.op("Sub", net.real(1), mask), net.real(np.finfo(np.float32).min))
    x = net.layer_norm(x, 768)
    for _ in range(4):
        x = net.layer_norm(net.op("Add", net.hf_attention(x, 768, 12, mask), x), 768)
        x = net.layer_norm(net.op("Add", net.mlp(x, 768, 3072), x), 768)
    return [x]


def bert_base_4_open(net):
    """bert_base_4 for any number of sequences and tokens up to 2,048; shapes follow from those of the input, as torch's
    exporter writes them."""
    sizes = ["sequences", "tokens"]
    ids, seen = net.input("ids", sizes, TensorProto.INT64), net.input("seen", sizes, TensorProto.INT64)
    tokens = net.size(ids, 1)
    positions = net.op("Slice", net.weight(1, 2048, 768), net.ints(0), tokens, net.ints(1))
    x = net.op("Add", net.op("Gather", net.weight(30522, 768), ids, axis=0), positions)
    mask = net.op("Cast", net.op("Unsqueeze", seen, net.ints(1, 2)), to=TensorProto.FLOAT)
    mask = net.op("Mul", net.op("Sub", net.real(1), mask), net.real(np.finfo(np.float32).min))
    x = net.layer_norm(x, 768)
    for _ in range(4):
        x = net.layer_norm(net.op("Add", net.hf_attention(x, 768, 12, mask, open_shape=True), x), 768)
        x = net.layer_norm(net.op("Add", net.mlp(x, 768, 3072), x), 768)
    return [x]


def vit(net, width, heads, layers):
    x = net.op(
        "Conv",
        net.input("image", [1, 3, 224, 224]),
        net.weight(width, 3, 16, 16, fan_in=768),
        net.weight(width),
        kernel_shape=[16, 16],
        strides=[16, 16],
    )
    x = net.op("Transpose", net.op("Reshape", x, net.ints(0, width, -1)), perm=[0, 2, 1])
    x = net.op("Add", net.op("Concat", net.weight(1, 1, width), x, axis=1), net.weight(1, 197, width))
    for _ in range(layers):
        x = net.op("Add", x, net.qkv_attention(net.layer_norm(x, width, True), width, heads))
        x = net.op("Add", x, net.mlp(net.layer_norm(x, width, True), width, 4 * width))
    return [net.op("Gather", net.layer_norm(x, width, True), net.ints(0), axis=1)]


def vit_b_4(net):
    return vit(net, 768, 12, 4)


def deit_tiny(net):
    return vit(net, 192, 3, 12)


def swin_blocks(net):
    """Four blocks of Swin-T's first stage: windows of 7x7, shifted by an index in every other block, position bias."""
    size, window, width, heads = 56, 7, 96, 3
    x = net.input("tokens", [1, size * size, width])
    count, area = size // window, window * window
    for block in range(4):
        y = net.op("Reshape", net.layer_norm(x, width), net.ints(1, size, size, width))
        turned = net.ints(*np.roll(np.arange(size), -(window // 2)))
        back = net.ints(*np.roll(np.arange(size), window // 2))
        if block % 2:
            y = net.op("Gather", net.op("Gather", y, turned, axis=1), turned, axis=2)
        y = net.op(
            "Transpose", net.op("Reshape", y, net.ints(1, count, window, count, window, width)), perm=[0, 1, 3, 2, 4, 5]
        )
        y = net.op("Reshape", y, net.ints(count * count, area, width))
        depth = width // heads
        qkv = net.op("Reshape", net.linear(y, width, 3 * width), net.ints(0, area, 3, heads, depth))
        qkv = net.op("Transpose", qkv, perm=[2, 0, 3, 1, 4])
        q, k, v = (net.op("Gather", qkv, net.constant(np.int64(i)), axis=0) for i in range(3))
        scores = net.op("MatMul", net.op("Mul", q, net.real(depth**-0.5)), net.op("Transpose", k, perm=[0, 1, 3, 2]))
        scores = net.op("Add", scores, net.weight(1, heads, area, area))
        if block % 2:
            scores = net.op("Reshape", scores, net.ints(1, count * count, heads, area, area))
            scores = net.op("Add", scores, net.weight(1, count * count, 1, area, area))
            scores = net.op("Reshape", scores, net.ints(-1, heads, area, area))
        y = net.linear(net.joined(net.op("MatMul", net.op("Softmax", scores, axis=-1), v), width), width, width)
        y = net.op("Reshape", y, net.ints(1, count, count, window, window, width))
        y = net.op("Reshape", net.op("Transpose", y, perm=[0, 1, 3, 2, 4, 5]), net.ints(1, size, size, width))
        if block % 2:
            y = net.op("Gather", net.op("Gather", y, back, axis=1), back, axis=2)
        x = net.op("Add", x, net.op("Reshape", y, net.ints(1, size * size, width)))
        x = net.op("Add", x, net.mlp(net.layer_norm(x, width), width, 4 * width))
    return [x]


def convnext_t_stages(net):
    """The first and the third stage of ConvNeXt-T, three blocks each: depthwise 7x7, norm, products."""
    x, width = net.conv(net.input("image", [1, 3, 224, 224]), 3, 96, 4, 4), 96
    for stage in range(2):
        if stage:
            x, width = net.conv(x, width, 384, 4, 4), 384
        for _ in range(3):
            y = net.op("Transpose", net.conv(x, width, width, 7, groups=width), perm=[0, 2, 3, 1])
            y = net.op("Mul", net.mlp(net.layer_norm(y, width), width, 4 * width), net.weight(width))
            x = net.op("Add", x, net.op("Transpose", y, perm=[0, 3, 1, 2]))
    return [net.classifier(x, width)]


NETWORKS = [
    resnet18,
    resnet50,
    vgg_like,
    mobilenet_v2,
    efficientnet_b0,
    deeplab_mobilenet_v2,
    unet,
    bert_base_4,
    bert_base_4_open,
    vit_b_4,
    deit_tiny,
    swin_blocks,
    convnext_t_stages,
]


def main():
    folder, names = Path(sys.argv[1]), sys.argv[2:]
    folder.mkdir(parents=True, exist_ok=True)
    for network in NETWORKS:
        if not names or network.__name__ in names:
            net = Net()
            net.save(folder / f"{network.__name__}.onnx", network(net))


if __name__ == "__main__":
    main()
