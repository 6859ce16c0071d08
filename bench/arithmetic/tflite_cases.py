"""Models of one quantized TFLite operator, and LiteRT's reference kernels to run them."""

import functools

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from draws import Case, integers, scale, scale_of_products, scale_of_type, zero_point

SUFFIX = "tflite"
TYPES = {
    "uint8": schema.TensorType.UINT8,
    "int8": schema.TensorType.INT8,
    "int16": schema.TensorType.INT16,
    "int32": schema.TensorType.INT32,
    "int64": schema.TensorType.INT64,
    "float32": schema.TensorType.FLOAT32,
}
Op = schema.BuiltinOperator
# The newest version of an operator that LiteRT registers, where that is below 4.
VERSIONS = {
    **{op: 3 for op in (Op.LOGISTIC, Op.TANH, Op.MEAN, Op.AVERAGE_POOL_2D, Op.SOFTMAX)},
    **{op: 2 for op in (Op.DIV, Op.SQUARED_DIFFERENCE, Op.LEAKY_RELU, Op.LOG_SOFTMAX, Op.L2_NORMALIZATION)},
    **{op: 1 for op in (Op.HARD_SWISH, Op.PRELU)},
}


class Model:
    """One operator, put together tensor by tensor."""

    def __init__(self):
        self.model, self.graph = schema.ModelT(), schema.SubGraphT()
        self.model.version, self.model.operatorCodes, self.model.buffers = 3, [], [schema.BufferT()]
        self.model.subgraphs = [self.graph]
        self.graph.tensors, self.graph.operators = [], []

    def tensor(self, dtype, shape, scales=None, zero=0, axis=0, data=None):
        t = schema.TensorT()
        t.type, t.shape, t.name = TYPES[dtype], np.array(shape, np.int32), f"t{len(self.graph.tensors)}".encode()
        if data is not None:
            buffer = schema.BufferT()
            buffer.data = np.frombuffer(np.ascontiguousarray(data, dtype).tobytes(), np.uint8)
            self.model.buffers.append(buffer)
            t.buffer = len(self.model.buffers) - 1
        if scales is not None:
            t.quantization = schema.QuantizationParametersT()
            t.quantization.scale = np.atleast_1d(np.asarray(scales, np.float32))
            t.quantization.zeroPoint = np.full(t.quantization.scale.shape, zero, np.int64)
            t.quantization.quantizedDimension = axis
        self.graph.tensors.append(t)
        return len(self.graph.tensors) - 1

    def finish(self, op, inputs, output, options=None, **fields):
        """The bytes; inputs without contents are the model's. options: the name of their table."""
        code, operator = schema.OperatorCodeT(), schema.OperatorT()
        code.builtinCode, code.deprecatedBuiltinCode, code.version = op, min(op, 127), VERSIONS.get(op, 4)
        operator.inputs, operator.outputs = np.array(inputs, np.int32), np.array([output], np.int32)
        if options:
            operator.builtinOptionsType = getattr(schema.BuiltinOptions, options)
            operator.builtinOptions = getattr(schema, options + "T")()
            for name, value in fields.items():
                setattr(operator.builtinOptions, name, value)
        self.model.operatorCodes, self.graph.operators = [code], [operator]
        self.graph.inputs = np.array([i for i in inputs if not self.graph.tensors[i].buffer], np.int32)
        self.graph.outputs = operator.outputs
        builder = flatbuffers.Builder(1 << 20)
        builder.Finish(self.model.Pack(builder), b"TFL3")
        return bytes(builder.Output())


def run(model, inputs):
    interpreter = Interpreter(
        model_content=model, num_threads=1, experimental_op_resolver_type=OpResolverType.BUILTIN_REF
    )
    interpreter.allocate_tensors()
    for detail, array in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()
    return [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]


def weighted(kind, x_type, bias_type, per_channel, random):
    """CONV_2D, DEPTHWISE_CONV_2D, TRANSPOSE_CONV or FULLY_CONNECTED with weights of x's type, int8 for int16."""
    channels, out, size = 16, 64, 24
    w_type = "int8" if x_type == "int16" else x_type
    depth = {"CONV_2D": 9 * channels, "TRANSPOSE_CONV": 9 * channels, "DEPTHWISE_CONV_2D": 9}.get(kind, 144)
    x_scale = scale(random, 0.001, 0.2)
    w_scales = scale(random, 0.001, 0.05, out if per_channel else 1)
    shape = {"DEPTHWISE_CONV_2D": [1, 3, 3, out], "FULLY_CONNECTED": [out, depth]}.get(kind, [out, 3, 3, channels])
    weights = integers(random, w_type, shape, None if w_type == "uint8" else -127)
    bias = random.integers(-2000, 2000, out) * (256 if x_type == "int16" else 1)
    x_shape = {"DEPTHWISE_CONV_2D": [1, size, size, out], "FULLY_CONNECTED": [size * size, depth]}.get(
        kind, [1, size, size, channels]
    )
    y_size = size + 2 if kind == "TRANSPOSE_CONV" else size - 2
    y_shape = [size * size, out] if kind == "FULLY_CONNECTED" else [1, y_size, y_size, out]
    m = Model()
    x = m.tensor(x_type, x_shape, x_scale, zero_point(random, x_type))
    w_zero = int(random.integers(1, 256)) if w_type == "uint8" else 0
    w = m.tensor(w_type, shape, w_scales, w_zero, 3 if kind == "DEPTHWISE_CONV_2D" else 0, weights)
    b = m.tensor(bias_type, [out], x_scale * w_scales, data=bias)
    y = m.tensor(
        x_type, y_shape, scale_of_products(random, x_scale, w_scales, depth, x_type), zero_point(random, x_type)
    )
    code, inputs = getattr(Op, kind), [x, w, b]
    valid = {"padding": schema.Padding.VALID, "strideH": 1, "strideW": 1}
    if kind == "FULLY_CONNECTED":
        options, fields = "FullyConnectedOptions", {}
    elif kind == "CONV_2D":
        options, fields = "Conv2DOptions", {**valid, "dilationHFactor": 1, "dilationWFactor": 1}
    elif kind == "DEPTHWISE_CONV_2D":
        fields = {**valid, "depthMultiplier": 1, "dilationHFactor": 1, "dilationWFactor": 1}
        options = "DepthwiseConv2DOptions"
    else:
        options, fields = "TransposeConvOptions", valid
        inputs = [m.tensor("int32", [4], data=np.array(y_shape)), w, x, b]
    if x_type == "int16" and kind != "DEPTHWISE_CONV_2D":
        fields["quantizedBiasType"] = TYPES[bias_type]
    return m.finish(code, inputs, y, options, **fields), [integers(random, x_type, x_shape)]


def batch_matmul(dtype, random):
    depth, n = 80, 64
    a_scale, b_scale = scale(random), scale(random)
    deviation = np.sqrt(depth) * float(a_scale) * float(b_scale) * (np.iinfo(dtype).max / 1.7) ** 2
    y_scale = np.float32(deviation * random.uniform(2, 4) / np.iinfo(dtype).max)
    m = Model()
    a = m.tensor(dtype, [4, n, depth], a_scale, zero_point(random, dtype))
    b = m.tensor(dtype, [4, depth, n], b_scale, zero_point(random, dtype))
    y = m.tensor(dtype, [4, n, n], y_scale, 0)
    inputs = [integers(random, dtype, [4, n, depth]), integers(random, dtype, [4, depth, n])]
    return m.finish(Op.BATCH_MATMUL, [a, b], y, "BatchMatMulOptions"), inputs


def binary(name, options, dtype, random):
    a_scale, b_scale = scale_of_type(random, dtype), scale_of_type(random, dtype)
    span = 2 ** np.iinfo(dtype).bits
    y_scale = {
        "MUL": a_scale * b_scale * span * random.uniform(0.2, 0.6),
        "DIV": random.uniform(0.02, 0.1) * a_scale / b_scale,
        "SQUARED_DIFFERENCE": max(a_scale, b_scale) ** 2 * span * random.uniform(0.3, 1),
    }.get(name, max(a_scale, b_scale) * random.uniform(0.8, 2))
    n = 65536
    m = Model()
    a = m.tensor(dtype, [n], a_scale, zero_point(random, dtype))
    b_zero = zero_point(random, dtype)
    b = m.tensor(dtype, [n], b_scale, b_zero)
    y = m.tensor(dtype, [n], np.float32(y_scale), zero_point(random, dtype))
    inputs = [integers(random, dtype, [n]) for _ in range(2)]
    if name == "DIV":  # nothing is divided by 0
        inputs[1][inputs[1] == b_zero] = b_zero ^ 1
    return m.finish(getattr(Op, name), [a, b], y, options), inputs


FIXED = {"LOGISTIC": 1 / 256, "TANH": 1 / 128}  # scales that the operators demand of 8 bits


def unary(name, options, dtype, random, **fields):
    """Every value of 8 bits; random ones of 16."""
    bits = np.iinfo(dtype).bits
    x_scale, zero = scale_of_type(random, dtype), zero_point(random, dtype)
    y_scale, y_zero = x_scale * np.float32(random.uniform(0.5, 2)), zero_point(random, dtype)
    if name in FIXED:
        y_scale = FIXED[name] if bits == 8 else 1 / 32768
        y_zero = 0 if bits == 16 else {"LOGISTIC": np.iinfo(dtype).min, "TANH": np.iinfo(dtype).min + 128}[name]
    x = np.resize(np.arange(256) + np.iinfo(dtype).min, 65536) if bits == 8 else integers(random, dtype, 65536)
    m = Model()
    a = m.tensor(dtype, [65536], x_scale, zero)
    y = m.tensor(dtype, [65536], y_scale, y_zero)
    chosen = {k: v(random) for k, v in fields.items()}
    return m.finish(getattr(Op, name), [a], y, options, **chosen), [x.astype(dtype)]


def quantize(x_type, y_type, random):
    n = 65536
    y_scale = scale_of_type(random, y_type)
    m = Model()
    if x_type == "float32":
        x = m.tensor("float32", [n])
        values = (random.normal(size=n) * float(y_scale) * 2.0 ** (np.iinfo(y_type).bits - 2)).astype(np.float32)
        values[:4096] = (random.integers(-100, 100, 4096) + 0.5) * float(y_scale)
    else:
        x = m.tensor(x_type, [n], scale_of_type(random, x_type), zero_point(random, x_type))
        values = integers(random, x_type, n)
    y = m.tensor(y_type, [n], y_scale, zero_point(random, y_type))
    return m.finish(Op.QUANTIZE, [x], y, "QuantizeOptions"), [values]


def prelu(dtype, random):
    m = Model()
    x_scale = scale(random)
    x = m.tensor(dtype, [256, 256], x_scale, zero_point(random, dtype))
    alpha = m.tensor(
        dtype, [256], scale(random, 0.002, 0.02), zero_point(random, dtype), 0, integers(random, dtype, 256)
    )
    y = m.tensor(dtype, [256, 256], x_scale * np.float32(random.uniform(0.7, 2)), zero_point(random, dtype))
    return m.finish(Op.PRELU, [x, alpha], y), [integers(random, dtype, [256, 256])]


def reduce(name, dtype, axes, random):
    shape = [32, 16, 16, 64]
    x_scale = scale(random)
    m = Model()
    x = m.tensor(dtype, shape, x_scale, zero_point(random, dtype))
    a = m.tensor("int32", [len(axes)], data=np.array(axes))
    kept = [1 if d in axes else n for d, n in enumerate(shape)]
    y = m.tensor(dtype, kept, x_scale * np.float32(random.uniform(0.05, 0.5)), zero_point(random, dtype))
    return m.finish(getattr(Op, name), [x, a], y, "ReducerOptions", keepDims=True), [integers(random, dtype, shape)]


def average_pool(dtype, random):
    x_scale, zero = scale(random), zero_point(random, dtype)
    m = Model()
    x = m.tensor(dtype, [1, 64, 64, 32], x_scale, zero)
    y = m.tensor(dtype, [1, 32, 32, 32], x_scale, zero)
    fields = {"padding": schema.Padding.SAME, "strideH": 2, "strideW": 2, "filterWidth": 3, "filterHeight": 3}
    model = m.finish(Op.AVERAGE_POOL_2D, [x], y, "Pool2DOptions", **fields)
    return model, [integers(random, dtype, [1, 64, 64, 32])]


def normalized(name, options, dtype, random, **fields):
    """SOFTMAX, LOG_SOFTMAX or L2_NORMALIZATION over rows of 100."""
    info = np.iinfo(dtype)
    y_scale, y_zero = {
        "SOFTMAX": (1 / 256 if info.bits == 8 else 1 / 32768, info.min if info.bits == 8 else 0),
        "LOG_SOFTMAX": (16 / 256, info.max),
        "L2_NORMALIZATION": (1 / 128, info.min + 128),
    }[name]
    m = Model()
    x = m.tensor(dtype, [1024, 100], scale_of_type(random, dtype), zero_point(random, dtype))
    y = m.tensor(dtype, [1024, 100], y_scale, y_zero)
    return m.finish(getattr(Op, name), [x], y, options, **fields), [integers(random, dtype, [1024, 100])]


def resize(dtype, half_pixel, random):
    x_scale, zero = scale(random), zero_point(random, dtype)
    m = Model()
    x = m.tensor(dtype, [1, 17, 19, 64], x_scale, zero)
    size = m.tensor("int32", [2], data=np.array([45, 37]))
    y = m.tensor(dtype, [1, 45, 37, 64], x_scale, zero)
    model = m.finish(Op.RESIZE_BILINEAR, [x, size], y, "ResizeBilinearOptions", halfPixelCenters=half_pixel)
    return model, [integers(random, dtype, [1, 17, 19, 64])]


def concatenation(random):
    m = Model()
    parts = [
        m.tensor("uint8", [1, 32, 32, 16], scale(random, 0.02, 0.05), zero_point(random, "uint8")) for _ in range(3)
    ]
    y = m.tensor("uint8", [1, 32, 32, 48], scale(random, 0.03, 0.06), zero_point(random, "uint8"))
    model = m.finish(Op.CONCATENATION, parts, y, "ConcatenationOptions", axis=3)
    return model, [integers(random, "uint8", [1, 32, 32, 16]) for _ in range(3)]


def hybrid(asymmetric, per_channel, random):
    """FULLY_CONNECTED of float32 rows with int8 weights."""
    n, depth = 64, 288
    m = Model()
    x = m.tensor("float32", [256, depth])
    scales = scale(random, 0.001, 0.01, n if per_channel else 1)
    w = m.tensor("int8", [n, depth], scales, 0, 0, integers(random, "int8", [n, depth], -127))
    b = m.tensor("float32", [n], data=random.normal(size=n))
    y = m.tensor("float32", [256, n])
    options = {"asymmetricQuantizeInputs": asymmetric}
    model = m.finish(Op.FULLY_CONNECTED, [x, w, b], y, "FullyConnectedOptions", **options)
    return model, [random.normal(size=(256, depth)).astype(np.float32)]


def cases():
    """The rows of docs/arithmetic.md."""
    part = functools.partial
    for kind in ("CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", "FULLY_CONNECTED"):
        yield Case(f"{kind} uint8", part(weighted, kind, "uint8", "int32", False))
        for per_channel in (False, True):
            text = "a scale a channel" if per_channel else "one scale"
            yield Case(f"{kind} int8, {text}", part(weighted, kind, "int8", "int32", per_channel))
            for bias in ("int64", "int32")[: 1 if kind == "DEPTHWISE_CONV_2D" else 2]:
                yield Case(f"{kind} int16, {bias} bias, {text}", part(weighted, kind, "int16", bias, per_channel))
    for dtype in ("int8", "int16"):
        yield Case(f"BATCH_MATMUL {dtype}", part(batch_matmul, dtype))
    for name, options in (("ADD", "AddOptions"), ("SUB", "SubOptions"), ("MUL", "MulOptions")):
        for dtype in ("uint8", "int8", "int16"):
            yield Case(f"{name} {dtype}", part(binary, name, options, dtype))
    yield Case("DIV uint8", part(binary, "DIV", "DivOptions", "uint8"))
    yield Case("SQUARED_DIFFERENCE int8", part(binary, "SQUARED_DIFFERENCE", "SquaredDifferenceOptions", "int8"))
    for dtype in ("uint8", "int8", "int16"):
        yield Case(f"LOGISTIC {dtype}", part(unary, "LOGISTIC", None, dtype))
        yield Case(f"TANH {dtype}", part(unary, "TANH", None, dtype))
        slope = {"alpha": lambda random: float(random.uniform(0.01, 0.5))}
        yield Case(f"LEAKY_RELU {dtype}", part(unary, "LEAKY_RELU", "LeakyReluOptions", dtype, **slope))
        yield Case(f"QUANTIZE float32 to {dtype}", part(quantize, "float32", dtype))
    for dtype in ("uint8", "int8"):
        yield Case(f"HARD_SWISH {dtype}", part(unary, "HARD_SWISH", "HardSwishOptions", dtype))
        yield Case(f"PRELU {dtype}", part(prelu, dtype))
        yield Case(f"LOG_SOFTMAX {dtype}", part(normalized, "LOG_SOFTMAX", "LogSoftmaxOptions", dtype))
        yield Case(f"L2_NORMALIZATION {dtype}", part(normalized, "L2_NORMALIZATION", "L2NormOptions", dtype))
    pairs = "int8 int8, uint8 uint8, uint8 int8, int8 uint8, int16 int8, int16 int16, int8 int16"
    for pair in pairs.split(", "):
        x_type, y_type = pair.split()
        yield Case(f"QUANTIZE {x_type} to {y_type}", part(quantize, x_type, y_type))
    for dtype in ("uint8", "int8", "int16"):
        for axes in ([1, 2], [3], [0]):
            yield Case(f"MEAN {dtype} over {axes}", part(reduce, "MEAN", dtype, axes))
        yield Case(f"AVERAGE_POOL_2D {dtype}", part(average_pool, dtype))
        yield Case(f"SOFTMAX {dtype}", part(normalized, "SOFTMAX", "SoftmaxOptions", dtype, beta=1.0))
        for half_pixel in (False, True):
            text = "half pixels" if half_pixel else "corners"
            yield Case(f"RESIZE_BILINEAR {dtype}, {text}", part(resize, dtype, half_pixel))
    yield Case("CONCATENATION uint8", concatenation)
    for asymmetric in (False, True):
        for per_channel in (False, True):
            text = ("rows with a zero point" if asymmetric else "symmetric rows") + (
                ", a scale a channel" * per_channel
            )
            yield Case(f"hybrid FULLY_CONNECTED, {text}", part(hybrid, asymmetric, per_channel))
