"""Runs one model with its peer in a process of its own: `peer.py MODEL FOLDER SECONDS` (called by wild.py).

Chooses inputs, writes them to FOLDER/in/N.npy in the model's order and the outputs to FOLDER/out/N.npy (LiteRT's
reference kernels: FOLDER/ref/N.npy). Prints one JSON object: ms (minimum of a run), kernels (those that ran).
"""

import json
import math
import pathlib
import sys
import time

import numpy as np

ONNX_TYPES = {
    "float": np.float32,
    "double": np.float64,
    "float16": np.float16,
    "bool": np.bool_,
    "string": np.str_,
    **{f"{sign}int{bits}": np.dtype(f"{sign}int{bits}").type for sign in ("", "u") for bits in (8, 16, 32, 64)},
}

# Sizes tried for the dimensions that a model leaves open, the first of an input apart: a batch of 1.
SIZES = (64, 16, 1, 224, 128, 640, 320, 512, 32, 8, 80, 2, 4)


def values(dtype, shape, generator):
    """Random values of one input: floats of [0, 1), all of 8 bits, wider integers of {0, 1}, which are indices."""
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        return generator.random(shape, np.float32).astype(dtype)
    if dtype.kind == "c":
        return (generator.random(shape) + 1j * generator.random(shape)).astype(dtype)
    if dtype.kind == "b":
        return generator.random(shape) < 0.5
    if dtype.kind in "iu":
        low, high = (np.iinfo(dtype).min, np.iinfo(dtype).max + 1) if dtype.itemsize == 1 else (0, 2)
        return generator.integers(low, high, shape).astype(dtype)
    words = np.array(["a", "the", "wild", "model", "7"])
    return words[generator.integers(0, len(words), shape)]


def save(folder, arrays):
    folder.mkdir(parents=True, exist_ok=True)
    for i, array in enumerate(arrays):
        array = np.asarray(array)
        if array.dtype.kind == "O":
            texts = [x.decode() if isinstance(x, bytes) else str(x) for x in array.ravel()]
            array = np.array(texts).reshape(array.shape)
        np.save(folder / f"{i}.npy", array)


def best_ms(run, seconds):
    best, end = math.inf, time.perf_counter() + seconds
    while best == math.inf or time.perf_counter() < end:
        start = time.perf_counter()
        run()
        best = min(best, (time.perf_counter() - start) * 1e3)
    return best


def shape_of(dimensions, size):
    return [d if isinstance(d, int) and d >= 0 else 1 if axis == 0 else size for axis, d in enumerate(dimensions)]


def onnxruntime_peer(model, folder, seconds):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = 1, 1, 4
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    wanted = session.get_inputs()
    types = [ONNX_TYPES[i.type.removeprefix("tensor(").removesuffix(")")] for i in wanted]
    is_open = any(not isinstance(d, int) or d < 0 for i in wanted for d in i.shape[1:])
    for size in SIZES if is_open else (1,):
        generator = np.random.default_rng(0)
        arrays = [values(t, shape_of(i.shape, size), generator) for t, i in zip(types, wanted, strict=True)]
        feeds = {i.name: array for i, array in zip(wanted, arrays, strict=True)}
        try:
            outputs = session.run(None, feeds)
            break
        except Exception as error:
            failure = error
    else:
        raise failure
    if not all(isinstance(x, np.ndarray) for x in outputs):
        outputs = [x for x in outputs if isinstance(x, np.ndarray)]
    save(folder / "in", arrays)
    save(folder / "out", outputs)
    return {"ms": best_ms(lambda: session.run(None, feeds), seconds), "kernels": "onnxruntime"}


def litert_interpreter(model, reference):
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    kind = OpResolverType.BUILTIN_REF if reference else OpResolverType.AUTO
    return Interpreter(model_path=str(model), num_threads=1, experimental_op_resolver_type=kind)


def litert_outputs(interpreter, arrays):
    """The outputs of the first invocation: variables hold their initial values."""
    details = interpreter.get_input_details()
    for detail, array in zip(details, arrays, strict=True):
        if tuple(detail["shape"]) != array.shape:
            interpreter.resize_tensor_input(detail["index"], array.shape)
    interpreter.allocate_tensors()
    for detail, array in zip(details, arrays, strict=True):
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()
    return [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]


def litert_peer(model, folder, seconds):
    interpreter, generator = litert_interpreter(model, False), np.random.default_rng(0)
    arrays = []
    for detail in interpreter.get_input_details():
        dtype = np.str_ if detail["dtype"] in (np.bytes_, np.str_) else detail["dtype"]
        arrays.append(values(dtype, [max(int(d), 0) for d in detail["shape"]], generator))
    save(folder / "in", arrays)
    outputs, kernels = None, "LiteRT"
    try:
        outputs = litert_outputs(interpreter, arrays)
        save(folder / "out", outputs)
        milliseconds = best_ms(interpreter.invoke, seconds)
    except (RuntimeError, ValueError):
        milliseconds = None
    try:
        save(folder / "ref", litert_outputs(litert_interpreter(model, True), arrays))
    except (RuntimeError, ValueError):
        if outputs is None:
            raise
    else:
        kernels = "LiteRT, LiteRT reference" if outputs is not None else "LiteRT reference"
    return {"ms": milliseconds, "kernels": kernels}


def executorch_peer(model, folder, seconds):
    import torch
    from executorch.extension.pybindings import portable_lib

    names = {0: "uint8", 1: "int8", 3: "int32", 4: "int64", 5: "float16", 6: "float32", 7: "float64", 11: "bool"}
    module = portable_lib._load_for_executorch(str(model))
    meta, generator = module.method_meta("forward"), np.random.default_rng(0)
    specs = [meta.input_tensor_meta(i) for i in range(meta.num_inputs())]
    arrays = [values(names[s.dtype()], list(s.sizes()), generator) for s in specs]
    tensors = [torch.from_numpy(np.ascontiguousarray(a)) for a in arrays]
    outputs = [np.asarray(x.detach() if hasattr(x, "detach") else x) for x in module.run_method("forward", tensors)]
    save(folder / "in", arrays)
    save(folder / "out", outputs)
    return {"ms": best_ms(lambda: module.run_method("forward", tensors), seconds), "kernels": "executorch"}


PEERS = {".onnx": onnxruntime_peer, ".ort": onnxruntime_peer, ".tflite": litert_peer, ".pte": executorch_peer}


def main():
    model, folder, seconds = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), float(sys.argv[3])
    try:
        print(json.dumps(PEERS[model.suffix](model, folder, seconds)))
    except Exception as error:  # whatever the peer raises is its refusal
        print(json.dumps({"error": " ".join(str(error).split())[:300] or type(error).__name__}))


if __name__ == "__main__":
    main()
