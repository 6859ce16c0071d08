#!/usr/bin/env python3
"""Compares smelt with ONNX Runtime (pip install onnxruntime) on .onnx models, with as many threads each, in turns."""
import numpy as np
import onnxruntime

import compare

TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64,
         "tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(int8)": np.int8, "tensor(uint8)": np.uint8,
         "tensor(bool)": np.bool_}


def make_peer(model, inputs, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    wanted = session.get_inputs()
    if inputs is None:
        inputs = [np.zeros([d if isinstance(d, int) else 1 for d in i.shape], TYPES[i.type]) for i in wanted]
    feeds = {i.name: x for i, x in zip(wanted, inputs)}
    if any(i.type not in TYPES for i in wanted) or any(o.type not in TYPES for o in session.get_outputs()):
        return lambda: session.run(None, feeds)
    binding = session.io_binding()  # as smelt does it: inputs are not copied, outputs stay where they are
    for name, x in feeds.items():
        binding.bind_cpu_input(name, x)
    for o in session.get_outputs():
        binding.bind_output(o.name)
    return lambda: session.run_with_iobinding(binding)


if __name__ == "__main__":
    compare.main(__doc__, "model.onnx", "ORT", make_peer)
