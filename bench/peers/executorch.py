#!/usr/bin/env python3
"""Compares smelt with ExecuTorch (pip install executorch) on .pte programs, with as many threads each, in turns.

bench/models/mobilenet_v2.py writes two.
"""
import sys

import numpy as np
import torch

here = sys.path.pop(0)  # this file has the package's name
from executorch.extension.pybindings import portable_lib

sys.path.append(here)
import compare

# Element types by ExecuTorch's number.
TYPES = {0: torch.uint8, 1: torch.int8, 3: torch.int32, 4: torch.int64, 5: torch.float16, 6: torch.float32, 7: torch.float64,
         11: torch.bool, 15: torch.bfloat16}


def make_peer(model, inputs, threads):
    portable_lib._unsafe_reset_threadpool(threads)
    module = portable_lib._load_for_executorch(str(model))
    meta = module.method_meta("forward")
    if inputs is None:
        info = [meta.input_tensor_meta(i) for i in range(meta.num_inputs())]
        tensors = [torch.zeros(list(t.sizes()), dtype=TYPES[t.dtype()]) for t in info]
    else:
        tensors = [torch.from_numpy(np.ascontiguousarray(x)) for x in inputs]
    return lambda: module.run_method("forward", tensors, False)


if __name__ == "__main__":
    compare.main(__doc__, "model.pte", "ExecuTorch", make_peer)
