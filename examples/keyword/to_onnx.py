#!/usr/bin/env python3
"""Writes keys.onnx, which names the key of a telephone by its sound, and five.wav, the sound of one.

    pip install numpy onnx; python to_onnx.py

A key sounds in two tones, one for its row and one for its column (ITU-T Q.23). The network takes half a second at 8 kHz,
which its metadata state as sample_rate; five.wav is at 16 kHz, so the command resamples it.
"""

import wave

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ROWS, COLUMNS, KEYS = (697, 770, 852, 941), (1209, 1336, 1477), "123456789*0#"
RATE, SAMPLES, WINDOW = 8000, 4000, 400


def network():
    t = np.arange(WINDOW) / RATE
    waves = [f(2 * np.pi * tone * t) for tone in ROWS + COLUMNS for f in (np.sin, np.cos)]
    key_of = np.zeros((len(ROWS) + len(COLUMNS), len(KEYS)), np.float32)
    for k in range(len(KEYS)):
        key_of[k // 3, k] = key_of[len(ROWS) + k % 3, k] = 1
    constants = {
        "waves": np.stack(waves)[:, None].astype(np.float32) / WINDOW,
        "pairs": np.array([1, len(ROWS) + len(COLUMNS), -1]),
        "channel": np.array([1, 1, SAMPLES]),
        "last": np.array([2]),
        "floor": np.float32(1e-6),
        "key_of": key_of,
    }
    nodes = [
        helper.make_node("Reshape", ["sound", "channel"], ["signal"]),
        helper.make_node("Conv", ["signal", "waves"], ["correlations"], strides=[WINDOW]),
        helper.make_node("Mul", ["correlations", "correlations"], ["powers"]),
        helper.make_node("Reshape", ["powers", "pairs"], ["by_tone"]),
        helper.make_node("ReduceSum", ["by_tone", "last"], ["sums"], keepdims=0),
        helper.make_node("Add", ["sums", "floor"], ["energies"]),
        helper.make_node("Log", ["energies"], ["logs"]),
        helper.make_node("MatMul", ["logs", "key_of"], ["keys"]),
        helper.make_node("Softmax", ["keys"], ["scores"], axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "keys",
        [helper.make_tensor_value_info("sound", TensorProto.FLOAT, [1, SAMPLES])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, len(KEYS)])],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    helper.set_model_props(model, {"sample_rate": str(RATE)})
    onnx.checker.check_model(model)
    return model


if __name__ == "__main__":
    onnx.save(network(), "keys.onnx")
    with open("labels.txt", "w", encoding="utf-8") as f:
        f.writelines(f"{key}\n" for key in KEYS)
    key, rate = KEYS.index("5"), 16000
    t = np.arange(rate // 2) / rate
    sound = np.sin(2 * np.pi * ROWS[key // 3] * t) + np.sin(2 * np.pi * COLUMNS[key % 3] * t)
    with wave.open("five.wav", "wb") as w:
        w.setnchannels(1)
        w.setsampwidth(2)
        w.setframerate(rate)
        w.writeframes((sound * 12000).astype("<i2").tobytes())
