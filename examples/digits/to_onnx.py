#!/usr/bin/env python3
"""Writes the network of weights.npz as ONNX: float32, int8 with QuantizeLinear/DequantizeLinear pairs, int8 with QLinear operators.

    pip install onnx onnxruntime scikit-learn
    python3 to_onnx.py          # writes digits.onnx, digits_qdq.onnx, digits_qoperator.onnx

All take float32 [1, 1, 8, 8] in [0, 1].
"""
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from sklearn.datasets import load_digits

HERE = Path(__file__).resolve().parent


def network():
    w = [v for _, v in np.load(HERE / "weights.npz").items()]
    kernels = {
        "conv1": w[0].transpose(3, 2, 0, 1), "conv2": w[2].transpose(3, 2, 0, 1),
        "depthwise": w[4].transpose(2, 3, 0, 1), "pointwise": w[6].transpose(3, 2, 0, 1), "dense": w[8],
    }
    constants = [numpy_helper.from_array(np.ascontiguousarray(k), name) for name, k in kernels.items()]
    constants += [numpy_helper.from_array(w[2 * i + 1], name + "_bias") for i, name in enumerate(kernels)]
    nodes, last = [], "image"
    # Stride 2 under Keras' "same" pads the far side only.
    for name, options in {
        "conv1": dict(pads=[1, 1, 1, 1]), "conv2": dict(pads=[0, 0, 1, 1], strides=[2, 2]),
        "depthwise": dict(pads=[1, 1, 1, 1], group=32), "pointwise": {},
    }.items():
        nodes.append(helper.make_node("Conv", [last, name, name + "_bias"], [name + "_sum"], name, **options))
        nodes.append(helper.make_node("Relu", [name + "_sum"], [name + "_out"], name + "_relu"))
        last = name + "_out"
    nodes.append(helper.make_node("GlobalAveragePool", [last], ["pooled"], "pool"))
    nodes.append(helper.make_node("Flatten", ["pooled"], ["flat"], "flatten"))
    nodes.append(helper.make_node("Gemm", ["flat", "dense", "dense_bias"], ["logits"], "dense"))
    nodes.append(helper.make_node("Softmax", ["logits"], ["scores"], "softmax", axis=-1))
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, 8, 8])
    scores = helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 10])
    graph = helper.make_graph(nodes, "digits", [image], [scores], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="to_onnx.py")


class Digits(CalibrationDataReader):
    def __init__(self):
        self.images = iter((load_digits().images[:300] / 16).astype(np.float32))

    def get_next(self):
        image = next(self.images, None)
        return None if image is None else {"image": image[None, None]}


def main():
    model = network()
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, HERE / "digits.onnx")
    for format in QuantFormat:
        quantize_static(HERE / "digits.onnx", HERE / f"digits_{format.name.lower()}.onnx", Digits(), quant_format=format,
                        per_channel=True, activation_type=QuantType.QInt8, weight_type=QuantType.QInt8)


if __name__ == "__main__":
    main()
