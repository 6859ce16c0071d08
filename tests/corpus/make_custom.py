#!/usr/bin/env python3
"""Makes tests/corpus/custom.tar.xz: golden cases of MediaPipe's and TensorFlow's custom operators, each a .tflite model
of one operator. LiteRT gives the outputs where its wheel runs the operator; the formulas below give the others.

    tests/corpus/make_custom.py

Needs the Python packages ai-edge-litert, flatbuffers and numpy.
"""
import io
import json
import struct
import tarfile
from pathlib import Path

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter
from flatbuffers import flexbuffers
from pack import add_file

HERE = Path(__file__).resolve().parent
SAME, VALID = 1, 2
TYPES = {np.dtype(np.float32): schema.TensorType.FLOAT32, np.dtype(np.int32): schema.TensorType.INT32}


def model(code, version, options, inputs, outputs):
    """inputs: arrays, or (array,) for a constant. outputs: shapes of float32 tensors."""
    m, g = schema.ModelT(), schema.SubGraphT()
    m.version, m.description, m.buffers = 3, "one custom operator", [schema.BufferT()]
    g.tensors, g.inputs, g.outputs = [], [], []

    def tensor(dtype, shape, name, data=None):
        t = schema.TensorT()
        t.type, t.shape, t.name, t.buffer = TYPES[np.dtype(dtype)], list(shape), name, 0
        if data is not None:
            b = schema.BufferT()
            b.data = np.frombuffer(data.tobytes(), np.uint8)
            m.buffers.append(b)
            t.buffer = len(m.buffers) - 1
        g.tensors.append(t)
        return len(g.tensors) - 1

    op = schema.OperatorT()
    op.inputs, op.outputs = [], []
    for i, x in enumerate(inputs):
        constant = isinstance(x, tuple)
        x = x[0] if constant else x
        op.inputs.append(tensor(x.dtype, x.shape, f"in{i}", x if constant else None))
        if not constant:
            g.inputs.append(op.inputs[-1])
    op.outputs = g.outputs = [tensor(np.float32, shape, f"out{i}") for i, shape in enumerate(outputs)]
    op.opcodeIndex, op.customOptions = 0, np.frombuffer(options, np.uint8) if options else None
    g.operators = [op]
    c = schema.OperatorCodeT()
    c.deprecatedBuiltinCode = c.builtinCode = schema.BuiltinOperator.CUSTOM
    c.customCode, c.version = code, version
    m.operatorCodes, m.subgraphs = [c], [g]
    b = flatbuffers.Builder(1024)
    b.Finish(m.Pack(b), b"TFL3")
    return bytes(b.Output())


def flex(**values):
    b = flexbuffers.Builder()
    with b.Map():
        for key, value in values.items():
            if isinstance(value, (list, tuple)):
                b.Key(key)
                b.TypedVectorFromElements(value)
            elif isinstance(value, bool):
                b.Bool(key, value)
            elif isinstance(value, int):
                b.Int(key, value)
            elif isinstance(value, float):
                b.Float(key, value)
            else:
                b.String(key, value)
    return bytes(b.Finish())


def transpose_conv(padding, stride_w, stride_h):
    return struct.pack("<3i", padding, stride_w, stride_h) + bytes(8)


def pool(padding, stride_w, stride_h, width, height, activation=0):
    return struct.pack("<6i", padding, stride_w, stride_h, width, height, activation) + bytes(16)


def cases():
    rng = np.random.default_rng(16)

    def real(*shape):
        return rng.standard_normal(shape).astype(np.float32)

    for name, options, hw, kernel, out in (
            ("same", transpose_conv(SAME, 2, 2), (4, 5), (3, 3), (8, 10)),
            ("same_odd", transpose_conv(SAME, 2, 1), (4, 4), (4, 3), (4, 8)),
            ("valid", transpose_conv(VALID, 2, 1), (4, 3), (2, 3), (5, 7)),
            ("same_even", transpose_conv(SAME, 2, 2), (5, 5), (2, 2), (10, 10))):
        yield (f"transpose_conv_bias_{name}", "Convolution2DTransposeBias", 1, options,
               [real(1, *hw, 3), (real(4, *kernel, 3),), (real(4),)], [(1, *out, 4)])
    relu = np.maximum(real(2, 6, 6, 3), 0)
    yield "max_pool_argmax", "MaxPoolingWithArgmax2D", 1, pool(SAME, 2, 2, 2, 2), [relu], [(2, 3, 3, 3)] * 2
    yield ("max_pool_argmax_overlap", "MaxPoolingWithArgmax2D", 1, pool(SAME, 2, 2, 3, 3), [real(1, 5, 7, 2)],
           [(1, 3, 4, 2)] * 2)
    yield ("max_pool_argmax_valid_relu6", "MaxPoolingWithArgmax2D", 1, pool(VALID, 1, 2, 3, 2, 3), [real(1, 6, 5, 2) * 5],
           [(1, 3, 3, 2)] * 2)
    index = (rng.integers(0, 4, (2, 3, 4, 2)) + 0.1).astype(np.float32)
    yield "max_unpool", "MaxUnpooling2D", 1, pool(SAME, 2, 2, 2, 2), [real(2, 3, 4, 2), index], [(2, 6, 8, 2)]
    index = (rng.integers(0, 6, (1, 3, 3, 2)) + 0.1).astype(np.float32)
    yield "max_unpool_overlap", "MaxUnpooling2D", 1, pool(VALID, 1, 2, 3, 2), [real(1, 3, 3, 2), index], [(1, 6, 9, 2)]
    warp = (rng.uniform(-2, 8, (2, 5, 6, 2))).astype(np.float32)
    yield "resampler", "Resampler", 1, b"", [real(2, 5, 6, 3), warp], [(2, 5, 6, 3)]
    turn = np.array([[0.8, -0.3, 0.1, 1.2], [0.25, 0.9, 0, -0.7], [0, 0, 1, 0], [0, 0, 0, 1]], np.float32)[None]
    yield ("transform_tensor", "TransformTensor", 1, flex(mode="bilinear", output_size=[6, 5]),
           [real(1, 7, 8, 3), turn], [(1, 6, 5, 3)])
    yield ("transform_tensor_v2", "TransformTensorBilinear", 2, flex(output_height=9, output_width=6),
           [real(1, 7, 8, 3), turn], [(1, 9, 6, 3)])
    for d in (2, 3):
        yield (f"transform_landmarks_{d}d", "TransformLandmarks", 1, flex(dimensions=d, scale=2.5),
               [real(1, 1, 1, 6 * d), turn], [(1, 1, 1, 6 * d)])
        yield f"transform_landmarks_v2_{d}d", "TransformLandmarks", 2, flex(unused=1), [real(1, 6, d), turn], [(1, 6, d)]
    marks = rng.uniform(10, 180, (1, 1, 1, 30)).astype(np.float32)
    yield ("landmarks_matrix", "Landmarks2TransformMatrix", 1,
           flex(dimensions=3, landmarks_range=192, left_rotation_idx=1, right_rotation_idx=4, bbox_size_multiplier=1.5,
                input_hw=[192, 160], output_hw=[64, 48], subset=[0, 2, 3, 5, 9]), [marks], [(1, 4, 4)])
    yield ("landmarks_matrix_v2", "Landmarks2TransformMatrix", 2,
           flex(left_rotation_idx=1, right_rotation_idx=4, target_rotation_radians=0.25, output_height=64,
                output_width=48, scale_x=1.5, scale_y=1.25, subset_idxs=[0, 2, 3, 5, 9, 7]),
           [marks.reshape(1, 10, 3)], [(1, 4, 4)])
    sound = rng.uniform(-1, 1, (400, 2)).astype(np.float32)
    for squared in (False, True):
        yield (f"audio_spectrogram{'_squared' if squared else ''}", "AudioSpectrogram", 1,
               flex(window_size=100, stride=40, magnitude_squared=squared), [sound], [(2, 8, 65)])
    yield ("audio_spectrogram_too_short", "AudioSpectrogram", 1,
           flex(window_size=480, stride=40, magnitude_squared=True), [sound], [(2, 0, 257)])
    spectrum, rate = rng.uniform(0, 4, (1, 3, 65)).astype(np.float32), (np.array([8000], np.int32),)
    yield ("mfcc", "Mfcc", 1, flex(upper_frequency_limit=3500, lower_frequency_limit=100, filterbank_channel_count=20,
                                   dct_coefficient_count=13), [spectrum, rate], [(1, 3, 13)])
    yield ("mfcc_band_beyond_the_spectrum", "Mfcc", 1,
           flex(upper_frequency_limit=5000, lower_frequency_limit=20, filterbank_channel_count=40,
                dct_coefficient_count=10), [spectrum, rate], [(1, 3, 10)])


def window_starts(size, out, kernel, stride, padding):
    pad = max(0, (out - 1) * stride + kernel - size) // 2 if padding == SAME else 0
    return [i * stride - pad for i in range(out)]


def max_pool_argmax(inputs, options, shapes, _):
    padding, stride_w, stride_h, width, height, activation = struct.unpack("<6i", options[:24])
    x, (n, oh, ow, channels) = inputs[0], shapes[0]
    y, index = np.zeros(shapes[0], np.float32), np.zeros(shapes[0], np.float32)
    for i, top in enumerate(window_starts(x.shape[1], oh, height, stride_h, padding)):
        for j, left in enumerate(window_starts(x.shape[2], ow, width, stride_w, padding)):
            rows, columns = range(max(top, 0), min(top + height, x.shape[1])), range(max(left, 0), min(left + width, x.shape[2]))
            window = x[:, rows][:, :, columns].reshape(n, -1, channels)
            best = window.argmax(1)
            y[:, i, j] = window.max(1)
            row, column = np.array(rows)[best // len(columns)], np.array(columns)[best % len(columns)]
            index[:, i, j] = (row - top) * width + column - left + np.float32(0.1)
    return [np.clip(y, 0, 6) if activation == 3 else y, index]


def max_unpool(inputs, options, shapes, _):
    _, stride_w, stride_h, width, height, _ = struct.unpack("<6i", options[:24])
    (x, index), y = inputs, np.zeros(shapes[0], np.float32)
    first = [-max(0, (x.shape[k + 1] - 1) * (s - w)) // 2 for k, (s, w) in enumerate(((stride_h, height), (stride_w, width)))]
    for n, i, j, c in np.ndindex(x.shape):
        row = first[0] + i * stride_h + int(index[n, i, j, c]) // width
        column = first[1] + j * stride_w + int(index[n, i, j, c]) % width
        if 0 <= row < y.shape[1] and 0 <= column < y.shape[2]:
            y[n, row, column, c] = x[n, i, j, c]
    return [y]


def bilinear(image, x, y):
    padded = np.pad(image, ((2, 2), (2, 2), (0, 0)))
    left, top = int(np.floor(x)), int(np.floor(y))
    q = padded[top + 2:top + 4, left + 2:left + 4]
    rows = q[:, 0] * (1 - (x - left)) + q[:, 1] * (x - left)
    return rows[0] * (1 - (y - top)) + rows[1] * (y - top)


def resampler(inputs, options, shapes, _):
    (image, warp), out = inputs, np.zeros(shapes[0], np.float32)
    for n, i, j in np.ndindex(warp.shape[:3]):
        x, y = warp[n, i, j]
        if -1 < x < image.shape[2] and -1 < y < image.shape[1]:
            out[n, i, j] = bilinear(image[n], x, y)
    return [out]


def transform_tensor(inputs, options, shapes, version):
    (image, turn), out, half = inputs, np.zeros(shapes[0], np.float32), 0.5 if version == 2 else 0
    for i, j in np.ndindex(out.shape[1:3]):
        x, y = turn[0, :2] @ np.array([j + half, i + half, 0, 1]) - half
        if 0 <= x <= image.shape[2] - 1 and 0 <= y <= image.shape[1] - 1:
            out[0, i, j] = bilinear(image[0], x, y)
    return [out]


def transform_landmarks(inputs, options, shapes, version):
    marks, turn = inputs[0], inputs[1][0].copy()
    values = flexbuffers.Loads(options)
    if version == 1:
        turn[:, 3] *= values["scale"]
    points = marks.reshape(-1, values["dimensions"] if version == 1 else marks.shape[-1]).copy()
    points[:, :2] = points[:, :2] @ turn[:2, :2].T + turn[:2, 3]
    return [points.reshape(marks.shape)]


def turned(angle, x=0, y=0):
    return np.array([[np.cos(angle), -np.sin(angle), x], [np.sin(angle), np.cos(angle), y], [0, 0, 1]])


def landmarks_matrix(inputs, options, shapes, version):
    o, marks = flexbuffers.Loads(options), inputs[0].reshape(-1, 3)[:, :2].astype(np.float64)
    dx, dy = marks[o["right_rotation_idx"]] - marks[o["left_rotation_idx"]]
    angle = o["target_rotation_radians"] - np.arctan2(dy, dx) if version == 2 else -np.arctan(dy / dx)
    subset = marks[o["subset_idxs" if version == 2 else "subset"]] @ turned(angle)[:2, :2].T
    low, high = subset.min(0), subset.max(0)
    centre, size = turned(-angle)[:2, :2] @ ((low + high) / 2), high - low
    if version == 2:
        w, h = o["output_width"], o["output_height"]
        scale = np.diag([o["scale_x"] * size[0] / w, o["scale_y"] * size[1] / h, 1])
        m = turned(-angle, *centre) @ scale @ turned(0, -w / 2, -h / 2)
    else:
        size, reach = size * o["bbox_size_multiplier"], o["landmarks_range"]
        (h, w), (ih, iw) = o["output_hw"], o["input_hw"]
        relative = np.array([[2 / (w - 1), 0, -1], [0, 2 / (h - 1), -1], [0, 0, 1]])
        absolute = np.array([[(iw - 1) / 2, 0, (iw - 1) / 2], [0, (ih - 1) / 2, (ih - 1) / 2], [0, 0, 1]])
        m = absolute @ turned(-angle, *(centre / reach * 2 - 1)) @ np.diag([*(size / reach), 1]) @ relative
    out = np.eye(4, dtype=np.float32)
    out[:2, :2], out[:2, 3] = m[:2, :2], m[:2, 2]
    return [out[None]]


FORMULAS = {"MaxPoolingWithArgmax2D": max_pool_argmax, "MaxUnpooling2D": max_unpool, "Resampler": resampler,
            "TransformTensor": transform_tensor, "TransformTensorBilinear": transform_tensor,
            "TransformLandmarks": transform_landmarks, "Landmarks2TransformMatrix": landmarks_matrix}


def run(data, fed):
    """The outputs that LiteRT gives. Its wheel has some of the operators in its default delegate alone."""
    runner = Interpreter(model_content=data)
    runner.allocate_tensors()
    for d, x in zip(runner.get_input_details(), fed):
        runner.set_tensor(d["index"], x)
    runner.invoke()
    return [runner.get_tensor(d["index"]) for d in runner.get_output_details()]


def npy(array):
    f = io.BytesIO()
    np.save(f, array)
    return f.getvalue()


def main():
    taken = 0
    with tarfile.open(HERE / "custom.tar.xz", "w:xz", preset=9) as tar:
        for name, code, version, options, inputs, outputs in cases():
            data = model(code, version, options, inputs, outputs)
            fed = [x for x in inputs if not isinstance(x, tuple)]
            formula = FORMULAS.get(code)
            results = formula(inputs, options, outputs, version) if formula else run(data, fed)
            info = {"name": name, "format": "tflite", "group": "ops", "source": "generated", "ops": [code],
                    "peer": "a formula" if formula else "LiteRT", "rtol": 1e-4, "atol": 1e-5}
            files = {"model.tflite": data, "case.json": json.dumps(info, indent=1).encode()}
            files |= {f"inputs/{i}.npy": npy(x) for i, x in enumerate(fed)}
            files |= {f"outputs/{i}.npy": npy(x) for i, x in enumerate(results)}
            taken += 1
            for path, content in sorted(files.items()):
                add_file(tar, f"custom/ops/{name}/{path}", content)
    print(f"custom: {taken} cases, {(HERE / 'custom.tar.xz').stat().st_size} bytes")


if __name__ == "__main__":
    main()
