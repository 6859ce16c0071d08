#!/usr/bin/env python3
"""Compares smelt with LiteRT (pip install ai-edge-litert) on .tflite models, with as many threads each, in turns."""
import numpy as np
from ai_edge_litert.interpreter import Interpreter

import compare


def make_peer(model, inputs, threads):
    interpreter = Interpreter(model_path=str(model), num_threads=threads)
    details = interpreter.get_input_details()
    if inputs is not None:
        for d, x in zip(details, inputs):
            if tuple(d["shape"]) != x.shape:
                interpreter.resize_tensor_input(d["index"], x.shape)
    interpreter.allocate_tensors()
    for i, d in enumerate(details):
        interpreter.set_tensor(d["index"], np.zeros(d["shape"], d["dtype"]) if inputs is None else inputs[i])
    return interpreter.invoke


if __name__ == "__main__":
    compare.main(__doc__, "model.tflite", "LiteRT", make_peer)
