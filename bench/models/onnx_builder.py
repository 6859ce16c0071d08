"""Builds .onnx graphs node by node; the networks of onnx_nets.py are made of its methods."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Net:
    """A graph that grows node by node. Methods take names of values and return the name of the result."""

    def __init__(self, seed=1):
        self.nodes, self.constants, self.inputs, self.random = [], [], [], np.random.default_rng(seed)
        self.four_bits = False  # the weights of linear layers

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
        opsets = [helper.make_opsetid(*o) for o in (("", 17), ("com.microsoft", 1), ("ai.onnx.ml", 3))]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
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
        if self.four_bits:
            y = self.four_bit_product(x, n_in, n_out)
        else:
            y = self.op("MatMul", x, self.weight(n_in, n_out, fan_in=n_in))
        return self.op("Add", self.weight(n_out, fan_in=100), y)

    def four_bit_product(self, x, n_in, n_out, block=32):
        """ONNX Runtime's product with 4-bit weights in blocks of one scale; rows of x may be quantized to int8."""
        codes = self.constant(self.random.integers(0, 256, (n_out, n_in // block, block // 2), np.uint8))
        scales = self.random.uniform(0.5, 1, n_out * n_in // block) * 0.2 / n_in**0.5
        sizes = {"K": n_in, "N": n_out, "bits": 4, "block_size": block, "accuracy_level": 4}
        scales = self.constant(scales.astype(np.float32))
        return self.op("MatMulNBits", x, codes, scales, domain="com.microsoft", **sizes)

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
