#!/usr/bin/env python3
"""Writes networks of real size with random weights as .onnx files, in the forms that exporters give them.

pip install onnx numpy
python3 onnx_nets.py FOLDER [NAME...]      # all networks, or those named
"""

import sys
from pathlib import Path

import numpy as np
from onnx import TensorProto
from onnx_builder import Net


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


def bert_base_4_q4(net):
    """bert_base_4 with 4-bit weights."""
    net.four_bits = True
    return bert_base_4(net)


def detections(net, maps, anchors=6, classes=91, size=320):
    """SSDLite's heads on feature maps (value, channels, edge): boxes [1, N, 4] by corners, scores [1, N, classes]."""
    parts, priors = ([], []), []
    for x, width, edge in maps:
        for columns, found in zip((4, classes), parts):
            y = net.conv(x, width, width, 3, groups=width, act="relu6")
            y = net.op("Transpose", net.conv(y, width, anchors * columns, 1), perm=[0, 2, 3, 1])
            found.append(net.op("Reshape", y, net.ints(1, -1, columns)))
        centres = np.stack(np.meshgrid(*[(np.arange(edge) + 0.5) / edge] * 2), -1).reshape(-1, 1, 2)
        sizes = net.random.uniform(0.5, 2, (1, anchors, 2)) / edge
        priors.append(np.concatenate(np.broadcast_arrays(centres, sizes), -1).reshape(1, -1, 4))
    offsets, scores = (net.op("Concat", *found, axis=1) for found in parts)
    prior = np.concatenate(priors, 1).astype(np.float32) * size
    centre, extent = net.constant(prior[..., :2]), net.constant(prior[..., 2:])
    near, far = net.op("Split", offsets, net.ints(2, 2), outputs=2, axis=2)
    middle = net.op("Add", net.op("Mul", net.op("Mul", near, net.real(0.1)), extent), centre)
    half = net.op("Mul", net.op("Mul", net.op("Exp", net.op("Mul", far, net.real(0.2))), extent), net.real(0.5))
    boxes = net.op("Concat", net.op("Sub", middle, half), net.op("Add", middle, half), axis=2)
    return boxes, net.op("Softmax", scores, axis=-1)


def ssd_mobilenet_v2(net):
    """SSDLite on 320x320 with 3,234 boxes, before non-maximum suppression."""
    x = net.conv(net.input("image", [1, 3, 320, 320]), 3, 32, 3, 2, act="relu6")
    x, width = inverted_residuals(net, x, 32, MOBILENET_V2[:5], "relu6")
    maps = [(x, width, 20)]
    x, width = inverted_residuals(net, x, width, MOBILENET_V2[5:], "relu6")
    x, width = net.conv(x, width, 1280, 1, act="relu6"), 1280
    maps.append((x, width, 10))
    for out, edge in ((512, 5), (256, 3), (256, 2), (128, 1)):
        y = net.conv(x, width, out // 2, 1, act="relu6")
        y = net.conv(y, out // 2, out // 2, 3, 2, out // 2, act="relu6")
        x, width = net.conv(y, out // 2, out, 1, act="relu6"), out
        maps.append((x, width, edge))
    return list(detections(net, maps))


def ssd_mobilenet_v2_nms(net):
    """The boxes that are left of each class, 20 at most."""
    boxes, scores = ssd_mobilenet_v2(net)
    limits = [net.ints(20), net.constant(np.array([0.5], np.float32)), net.constant(np.array([0.02], np.float32))]
    kept = net.op("NonMaxSuppression", boxes, net.op("Transpose", scores, perm=[0, 2, 1]), *limits)
    return [net.op("Gather", boxes, net.op("Gather", kept, net.constant(np.int64(2)), axis=1), axis=1)]


def yolo_n(net):
    """A YOLO of the smallest size on 320x320: cross-stage blocks, a pyramid up and down, boxes by distributions."""

    def block(x, c_in, width, count, residual=True):
        half = width // 2
        parts = list(net.op("Split", net.conv(x, c_in, width, 1, act="silu"), net.ints(half, half), outputs=2, axis=1))
        for _ in range(count):
            y = net.conv(net.conv(parts[-1], half, half, act="silu"), half, half, act="silu")
            parts.append(net.op("Add", parts[-1], y) if residual else y)
        return net.conv(net.op("Concat", *parts, axis=1), half * len(parts), width, 1, act="silu")

    def twice(x):
        return net.op("Resize", x, "", net.constant(np.array([1, 1, 2, 2], np.float32)), mode="nearest")

    x, width, maps = net.conv(net.input("image", [1, 3, 320, 320]), 3, 16, 3, 2, act="silu"), 16, []
    for out, count in ((32, 1), (64, 2), (128, 2), (256, 1)):
        x, width = block(net.conv(x, width, out, 3, 2, act="silu"), out, out, count), out
        maps.append(x)
    pools = [net.conv(x, 256, 128, 1, act="silu")]
    for _ in range(3):
        pools.append(net.max_pool(pools[-1], 5, 1, 2))
    top = net.conv(net.op("Concat", *pools, axis=1), 512, 256, 1, act="silu")
    middle = block(net.op("Concat", twice(top), maps[2], axis=1), 384, 128, 1, False)
    fine = block(net.op("Concat", twice(middle), maps[1], axis=1), 192, 64, 1, False)
    down = net.conv(fine, 64, 64, 3, 2, act="silu")
    middle = block(net.op("Concat", down, middle, axis=1), 192, 128, 1, False)
    down = net.conv(middle, 128, 128, 3, 2, act="silu")
    top = block(net.op("Concat", down, top, axis=1), 384, 256, 1, False)
    found = []
    for x, width in ((fine, 64), (middle, 128), (top, 256)):
        heads = []
        for inner, columns in ((64, 64), (80, 80)):
            y = net.conv(net.conv(x, width, inner, act="silu"), inner, inner, act="silu")
            heads.append(net.conv(y, inner, columns, 1))
        found.append(net.op("Reshape", net.op("Concat", *heads, axis=1), net.ints(1, 144, -1)))
    boxes, scores = net.op("Split", net.op("Concat", *found, axis=2), net.ints(64, 80), outputs=2, axis=1)
    boxes = net.op("Transpose", net.op("Reshape", boxes, net.ints(1, 4, 16, -1)), perm=[0, 2, 1, 3])
    steps = net.constant(np.arange(16, dtype=np.float32).reshape(1, 16, 1, 1))
    boxes = net.op("Conv", net.op("Softmax", boxes, axis=1), steps, kernel_shape=[1, 1])
    return [net.op("Concat", net.op("Reshape", boxes, net.ints(1, 4, -1)), net.op("Sigmoid", scores), axis=1)]


def boosted_trees(net, rows=1, features=50, trees=300, depth=6):
    """A gradient-boosted regressor of complete trees, as converters write those of LightGBM and XGBoost."""
    inner, count = 2**depth - 1, 2 ** (depth + 1) - 1
    node, leaf = np.tile(np.arange(count), trees), np.tile(np.arange(inner, count), trees)
    is_leaf = node >= inner
    attributes = {
        "nodes_treeids": np.repeat(np.arange(trees), count),
        "nodes_nodeids": node,
        "nodes_featureids": np.where(is_leaf, 0, net.random.integers(0, features, node.size)),
        "nodes_values": np.where(is_leaf, 0, net.random.random(node.size)),
        "nodes_modes": ["LEAF" if i else "BRANCH_LEQ" for i in is_leaf],
        "nodes_truenodeids": np.where(is_leaf, 0, 2 * node + 1),
        "nodes_falsenodeids": np.where(is_leaf, 0, 2 * node + 2),
        "target_treeids": np.repeat(np.arange(trees), count - inner),
        "target_nodeids": leaf,
        "target_ids": np.zeros_like(leaf),
        "target_weights": net.random.normal(0, 0.1, leaf.size),
    }
    attributes = {name: v if isinstance(v, list) else v.tolist() for name, v in attributes.items()}
    x = net.input("features", [rows, features])
    return [net.op("TreeEnsembleRegressor", x, domain="ai.onnx.ml", n_targets=1, **attributes)]


def boosted_trees_256(net):
    """boosted_trees on 256 rows."""
    return boosted_trees(net, 256)


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
    bert_base_4_q4,
    vit_b_4,
    deit_tiny,
    swin_blocks,
    convnext_t_stages,
    ssd_mobilenet_v2,
    ssd_mobilenet_v2_nms,
    yolo_n,
    boosted_trees,
    boosted_trees_256,
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
