#!/usr/bin/env python3
"""Quantizes the .onnx networks of onnx_nets.py with ONNX Runtime's tools.

pip install onnx onnxruntime
python3 onnx_int8_nets.py FOLDER_OF_NETWORKS FOLDER     # NAME_qdq: static, QDQ; NAME_dynamic: dynamic (transformers)
"""

import sys
from pathlib import Path

import numpy as np
import onnx
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static

DTYPES = {onnx.TensorProto.FLOAT: np.float32, onnx.TensorProto.INT64: np.int64}


class RandomInputs(CalibrationDataReader):
    """Two sets of random inputs; ones where the network takes integers."""

    def __init__(self, path):
        random, self.sets = np.random.default_rng(1), []
        inputs = onnx.load(path, load_external_data=False).graph.input
        for _ in range(2):
            feed = {}
            for i in inputs:
                shape = [d.dim_value for d in i.type.tensor_type.shape.dim]
                dtype = DTYPES[i.type.tensor_type.elem_type]
                feed[i.name] = np.ones(shape, dtype) if dtype == np.int64 else random.random(shape, dtype)
            self.sets.append(feed)

    def get_next(self):
        return self.sets.pop() if self.sets else None


def main():
    source, folder = Path(sys.argv[1]), Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted(source.glob("*.onnx")):
        kinds = {n.op_type for n in onnx.load(path, load_external_data=False).graph.node}
        # Trees, 4-bit weights already, and a result that a step of a score changes altogether.
        if not kinds & {"Conv", "MatMul", "Gemm"} or kinds & {"MatMulNBits", "NonMaxSuppression"}:
            continue
        if {"Softmax", "MatMul"} <= kinds:
            quantize_dynamic(path, folder / f"{path.stem}_dynamic.onnx", weight_type=QuantType.QInt8, per_channel=True)
        quantize_static(
            path,
            folder / f"{path.stem}_qdq.onnx",
            RandomInputs(path),
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
        )


if __name__ == "__main__":
    main()
