"""Models of one quantized ONNX operator, and ONNX Runtime to run them."""

import functools

import numpy as np
import onnxruntime
from draws import Case, integers, scale, zero_point
from onnx import TensorProto, helper, numpy_helper

SUFFIX = "onnx"
TYPES = {"uint8": TensorProto.UINT8, "int8": TensorProto.INT8, "int32": TensorProto.INT32, "float32": TensorProto.FLOAT}


def run(model, inputs):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return session.run(None, {i.name: x for i, x in zip(session.get_inputs(), inputs, strict=True)})


def model_of(nodes, inputs, outputs, constants):
    """inputs: name -> (type, shape); outputs: name -> type; constants: name -> array."""
    graph = helper.make_graph(
        nodes,
        "case",
        [helper.make_tensor_value_info(name, TYPES[t], shape) for name, (t, shape) in inputs.items()],
        [helper.make_tensor_value_info(name, TYPES[t], None) for name, t in outputs.items()],
        [numpy_helper.from_array(np.asarray(v), name) for name, v in constants.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets)
    model.ir_version = 8
    return model.SerializeToString()


def zero(random, dtype):
    return np.dtype(dtype).type(zero_point(random, dtype))


def scale_of_sums(random, x_scale, w_scales, depth):
    return np.float32(
        np.sqrt(depth) * 74 * 74 * float(x_scale) * float(np.mean(w_scales)) / 40 * random.uniform(0.7, 1.5)
    )


def weights(random, w_type, shape, channels):
    """Weights, their scales and zero points: one a channel where `channels` is not 0."""
    w_scales = scale(random, 0.001, 0.05, channels or None)
    zeros = np.zeros(channels, w_type) if channels else zero(random, w_type) if w_type == "uint8" else np.int8(0)
    return {"w": integers(random, w_type, shape), "ws": w_scales, "wz": zeros}


def qlinear_conv(x_type, w_type, per_channel, random):
    channels, out = 16, 32
    x_scale = scale(random)
    w = weights(random, w_type, (out, channels, 3, 3), out if per_channel else 0)
    constants = {
        **{"xs": x_scale, "xz": zero(random, x_type), "yz": zero(random, x_type), **w},
        "ys": scale_of_sums(random, x_scale, w["ws"], channels * 9),
        "b": random.integers(-5000, 5000, out).astype(np.int32),
    }
    node = helper.make_node("QLinearConv", ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"], ["y"])
    shape = [1, channels, 40, 40]
    return model_of([node], {"x": (x_type, shape)}, {"y": x_type}, constants), [integers(random, x_type, shape)]


def qlinear_matmul(x_type, w_type, per_channel, random):
    depth, out = 96, 128
    x_scale = scale(random)
    w = weights(random, w_type, (depth, out), out if per_channel else 0)
    constants = {
        **{"xs": x_scale, "xz": zero(random, x_type), "yz": zero(random, x_type), **w},
        "ys": scale_of_sums(random, x_scale, w["ws"], depth),
    }
    node = helper.make_node("QLinearMatMul", ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"], ["y"])
    return model_of([node], {"x": (x_type, [400, depth])}, {"y": x_type}, constants), [
        integers(random, x_type, (400, depth))
    ]


def qdq(op, dtype, random):
    """Conv or MatMul between Q/DQ pairs, a weight scale a channel."""
    depth, out = 16, 32
    w_shape, shape, axis = (
        ((out, depth, 3, 3), [1, depth, 40, 40], 0) if op == "Conv" else ((depth, out), [400, depth], 1)
    )
    x_scale, w_scales = scale(random), scale(random, 0.001, 0.05, out)
    constants = {
        "xs": x_scale,
        "xz": zero(random, dtype),
        "w": integers(random, "int8", w_shape),
        "ws": w_scales,
        "wz": np.zeros(out, np.int8),
        "ys": scale_of_sums(random, x_scale, w_scales, depth * (9 if op == "Conv" else 1)),
        "yz": zero(random, dtype),
    }
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "xs", "xz"], ["xf"]),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wf"], axis=axis),
        helper.make_node(op, ["xf", "wf"], ["yf"]),
        helper.make_node("QuantizeLinear", ["yf", "ys", "yz"], ["y"]),
    ]
    return model_of(nodes, {"x": (dtype, shape)}, {"y": dtype}, constants), [integers(random, dtype, shape)]


def contributed(op, dtype, random, operands=1, shape=(65536,), y_scale=None, y_zero=None, **attributes):
    """An operator of com.microsoft between 8-bit tensors."""
    scales = [scale(random, 0.01, 0.1) for _ in range(operands)]
    names, constants = [], {}
    for i in range(operands):
        names += [f"x{i}", f"s{i}", f"z{i}"]
        constants |= {f"s{i}": scales[i], f"z{i}": zero(random, dtype)}
    product = np.prod(scales) * 128 if op == "QLinearMul" else max(scales)
    constants["ys"] = np.float32(y_scale or product * random.uniform(0.7, 1.6))
    constants["yz"] = zero(random, dtype) if y_zero is None else np.dtype(dtype).type(y_zero)
    node = helper.make_node(op, [*names, "ys", "yz"], ["y"], domain="com.microsoft", **attributes)
    inputs = {f"x{i}": (dtype, list(shape)) for i in range(operands)}
    return model_of([node], inputs, {"y": dtype}, constants), [integers(random, dtype, shape) for _ in range(operands)]


def quantize_linear(dtype, random):
    s = scale(random)
    x = (random.normal(size=65536) * s * 80).astype(np.float32)
    x[:8192] = ((random.integers(-100, 100, 8192) + 0.5) * s).astype(np.float32)
    node = helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"])
    constants = {"s": s, "z": zero(random, dtype)}
    return model_of([node], {"x": ("float32", [65536])}, {"y": dtype}, constants), [x]


def dynamic_quantize_linear(random):
    x = (random.normal(size=65536) * random.uniform(0.1, 9) + random.uniform(-2, 2)).astype(np.float32)
    node = helper.make_node("DynamicQuantizeLinear", ["x"], ["y", "s", "z"])
    return model_of([node], {"x": ("float32", [65536])}, {"y": "uint8", "s": "float32", "z": "uint8"}, {}), [x]


def integer_product(op, random):
    """MatMulInteger or ConvInteger."""
    conv = op == "ConvInteger"
    shape, w_shape = ([1, 16, 40, 40], (32, 16, 3, 3)) if conv else ([256, 96], (96, 64))
    constants = {"w": integers(random, "int8", w_shape), "xz": zero(random, "uint8"), "wz": np.int8(0)}
    node = helper.make_node(op, ["x", "w", "xz", "wz"], ["y"])
    return model_of([node], {"x": ("uint8", shape)}, {"y": "int32"}, constants), [integers(random, "uint8", shape)]


def cases():
    """The rows of docs/arithmetic.md."""
    part = functools.partial
    for x_type, w_type in (("uint8", "uint8"), ("uint8", "int8"), ("int8", "int8")):
        for per_channel in (False, True):
            text = f"{x_type} by {w_type}, " + ("a scale a channel" if per_channel else "one scale")
            yield Case(f"QLinearConv {text}", part(qlinear_conv, x_type, w_type, per_channel))
            if w_type == "int8" or not per_channel:
                yield Case(f"QLinearMatMul {text}", part(qlinear_matmul, x_type, w_type, per_channel))
    for dtype in ("uint8", "int8"):
        low = np.iinfo(dtype).min
        for op in ("Conv", "MatMul"):
            yield Case(f"{op} between Q/DQ, {dtype}", part(qdq, op, dtype))
        for op in ("QLinearAdd", "QLinearMul"):
            yield Case(f"{op} {dtype}", part(contributed, op, dtype, operands=2))
        yield Case(f"QLinearSigmoid {dtype}", part(contributed, "QLinearSigmoid", dtype, y_scale=1 / 256, y_zero=low))
        yield Case(f"QLinearLeakyRelu {dtype}", part(contributed, "QLinearLeakyRelu", dtype, alpha=0.1))
        soft = {"shape": (256, 256), "y_scale": 1 / 256, "y_zero": low, "axis": 1, "opset": 13}
        yield Case(f"QLinearSoftmax {dtype}", part(contributed, "QLinearSoftmax", dtype, **soft))
        whole = {"shape": (16, 512, 7, 7)}
        yield Case(f"QLinearGlobalAveragePool {dtype}", part(contributed, "QLinearGlobalAveragePool", dtype, **whole))
        pool = {"shape": (1, 64, 64, 64), "kernel_shape": [3, 3], "strides": [2, 2]}
        yield Case(f"QLinearAveragePool {dtype}", part(contributed, "QLinearAveragePool", dtype, **pool))
        yield Case(f"QuantizeLinear {dtype}", part(quantize_linear, dtype))
    yield Case("DynamicQuantizeLinear", dynamic_quantize_linear)
    for op in ("MatMulInteger", "ConvInteger"):
        yield Case(op, part(integer_product, op))
