"""The peers of compare.py: how each loads and runs a model, in a process of its own, and how a model becomes one of its
format.

A runner is a function of (model, threads, precision, shapes by name of input) that returns (run, results): run() is one
inference, results() gives the outputs of the last one as arrays. A converter writes a model in a peer's format into a
folder and returns the file; it raises Refused where the peer's tools cannot.
"""

import importlib
import importlib.metadata
import json
import math
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import time

TYPES = {"f32": "float32", "float": "float32", "f16": "float16", "i64": "int64", "i32": "int32"}
CONVERSION_SECONDS = 120


class Refused(Exception):
    """A peer does not convert or run a model; the text is the reason."""


def example(dtype, shape, given=None):
    """A value for an input: ones of integers, which are valid indices and masks; else numbers in [0, 1). given: its
    shape, where that is open."""
    import numpy

    dtype = numpy.dtype(TYPES.get(dtype, dtype))
    shape = given or [int(d) if not isinstance(d, str) and d and d > 0 else 1 for d in shape]
    if dtype.kind != "f":
        return numpy.ones(shape, dtype)
    return numpy.random.default_rng(1).random(shape, numpy.float32).astype(dtype)


def onnxruntime_runner(model, threads, _, shapes):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = threads, 1, 4
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for i in session.get_inputs():
        dtype = i.type.removeprefix("tensor(").removesuffix(")")
        binding.bind_cpu_input(i.name, example(dtype, i.shape, shapes.get(i.name)))
    for o in session.get_outputs():
        binding.bind_output(o.name)
    return lambda: session.run_with_iobinding(binding), binding.copy_outputs_to_cpu


def openvino_runner(model, threads, precision, shapes):
    import openvino

    settings = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": precision, "PERFORMANCE_HINT": "LATENCY"}
    request = openvino.Core().compile_model(model, "CPU", settings).create_infer_request()
    for i, port in enumerate(request.model_inputs):
        shape = [d.get_length() if d.is_static else 1 for d in port.get_partial_shape()]
        value = example(port.get_element_type().get_type_name(), shape, shapes.get(port.get_any_name()))
        request.set_input_tensor(i, openvino.Tensor(value))
    outputs = range(len(request.model_outputs))
    return request.infer, lambda: [request.get_output_tensor(i).data for i in outputs]


def litert_runner(model, threads, _, shapes):
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_path=model, num_threads=threads)
    for d in interpreter.get_input_details():
        if d["name"] in shapes:
            interpreter.resize_tensor_input(d["index"], shapes[d["name"]])
    interpreter.allocate_tensors()
    for d in interpreter.get_input_details():
        interpreter.set_tensor(d["index"], example(d["dtype"], d["shape"]))
    outputs = [d["index"] for d in interpreter.get_output_details()]
    return interpreter.invoke, lambda: [interpreter.get_tensor(i) for i in outputs]


def executorch_runner(model, threads, *_):
    # Element types by ExecuTorch's numbers; numpy has no bfloat16.
    names = {0: "uint8", 1: "int8", 3: "int32", 4: "int64", 5: "float16", 6: "float32", 7: "float64", 11: "bool"}
    import torch
    from executorch.extension.pybindings import portable_lib

    portable_lib._unsafe_reset_threadpool(threads)
    module = portable_lib._load_for_executorch(model)
    meta, tensors, last = module.method_meta("forward"), [], []
    for i in range(meta.num_inputs()):
        info = meta.input_tensor_meta(i)
        value = torch.from_numpy(example(names.get(info.dtype(), "float32"), info.sizes()))
        tensors.append(value.bfloat16() if info.dtype() == 15 else value)

    def run():
        last[:] = module.run_method("forward", tensors, False)

    return run, lambda: [t.float().numpy() for t in last]


def mnn_dtype(tensor):
    """numpy's type of a tensor; Refused where MNN's Python package has none, as for int8."""
    try:
        return tensor.getNumpyData().dtype
    except SystemError:
        raise Refused("its Python package has no tensors of the type of an input or output") from None


def mnn_order(tensor):
    """The order of a tensor's values in host memory: channels last in what comes from TFLite."""
    import MNN

    last = tensor.getDimensionType() == MNN.Tensor_DimensionType_Tensorflow
    return MNN.Tensor_DimensionType_Tensorflow if last else MNN.Tensor_DimensionType_Caffe


def mnn_runner(model, threads, precision, shapes):
    """As MNN's own benchmark runs a network: the inputs are copied into the session by each run."""
    import MNN
    import numpy

    interpreter = MNN.Interpreter(model)
    settings = {"backend": "CPU", "numThread": threads, "precision": "low" if precision == "bf16" else "normal"}
    session = interpreter.createSession(settings)
    inputs = interpreter.getSessionInputAll(session)
    for name in set(inputs) & set(shapes):
        interpreter.resizeTensor(inputs[name], tuple(shapes[name]))
    interpreter.resizeSession(session)
    pairs = []
    for tensor in inputs.values():
        value = example(mnn_dtype(tensor), tensor.getShape())
        pairs.append((tensor, MNN.Tensor(tensor.getShape(), tensor.getDataType(), value, mnn_order(tensor))))

    def run():
        for tensor, value in pairs:
            tensor.copyFrom(value)
        if interpreter.runSession(session):
            raise Refused("runSession fails")

    def results():
        arrays = []
        for tensor in interpreter.getSessionOutputAll(session).values():
            shape = tensor.getShape()
            host = numpy.zeros(shape, mnn_dtype(tensor))
            copy = MNN.Tensor(shape, tensor.getDataType(), host, mnn_order(tensor))
            tensor.copyToHostTensor(copy)
            arrays.append(numpy.array(copy.getNumpyData()))
        return arrays

    return run, results


def ncnn_runner(model, threads, precision, _):
    """model: the .param file. The script that pnnx writes beside it says how the inputs are handed over."""
    import ncnn

    param = pathlib.Path(model)
    script = param.with_name(param.name.replace(".ncnn.param", "_ncnn.py")).read_text()
    kinds = {line.split(" ", 1)[0] for line in param.read_text().splitlines()[2:]}
    net = ncnn.Net()
    net.opt.num_threads = threads
    for option in ("fp16_packed", "fp16_storage", "fp16_arithmetic", "bf16_storage", "bf16_packed"):
        setattr(net.opt, f"use_{option}", option.startswith("bf16") and precision == "bf16")
    if net.load_param(model) or net.load_model(model.replace(".param", ".bin")):
        foreign = sorted(kind for kind in kinds if "." in kind or "::" in kind)
        raise Refused("has no layer for " + ", ".join(foreign) if foreign else "does not load what pnnx writes")
    made = dict(re.findall(r"^    (in\d+) = torch\.\w+\((.*)\)$", script, re.M))
    values = {}
    for name, options in re.findall(r'ex\.input\("(\w+)", ncnn\.Mat\(\w+\.numpy\(\)(.*?)\)\.clone\(\)\)', script):
        words = [word.strip("() ") for word in made[name].split(",")]
        shape = [int(word) for word in words if word.isdecimal()]
        # torch.randint(10, (1, 128), dtype=torch.int): the first number is a bound.
        kind = words[-1].rpartition(".")[2]
        whole = kind in ("int", "long", "int32", "int64")
        value = example("int32" if whole else "float32", shape[1:] if whole else shape)
        index = re.search(r"batch_index=(\d+)", options)
        values[name] = ncnn.Mat(value, **({"batch_index": int(index[1])} if index else {})).clone()
    outputs, last = re.findall(r'ex\.extract\("(\w+)"\)', script), []

    def run():
        extractor = net.create_extractor()
        for name, value in values.items():
            extractor.input(name, value)
        got = [extractor.extract(name) for name in outputs]
        if any(code for code, _ in got):
            raise Refused("extract fails")
        last[:] = [mat for _, mat in got]

    return run, lambda: [mat.numpy() for mat in last]


def finished(command, folder):
    """Output of a conversion's command; Refused if it fails."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=folder, timeout=CONVERSION_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise Refused(f"conversion takes more than {CONVERSION_SECONDS} s") from None
    if done.returncode != 0:
        raise Refused(f"conversion fails: {reason_of(done)}")
    return done.stdout + done.stderr


def reason_of(done):
    """The line of a failed command's output that says most: its last one, and the signal if one ended it."""
    lines = [line.strip() for line in (done.stdout + "\n" + done.stderr).splitlines() if line.strip()]
    idle = r"(The device supports:|MNN use |Start to |\^|During handling)"
    lines = [line for line in lines if not re.match(idle, line)]
    signal = [f"signal {-done.returncode}"] if done.returncode < 0 else []
    last = [re.sub(r"^(\w+\.)*(Refused|RuntimeError): ", "", line)[:140] for line in lines[-1:]]
    return ": ".join(signal + last) or "no message"


def mnn_converter(model, folder, _):
    """By the function behind MNN.tools.mnnconvert, whose command reports its use over the network."""
    target, kind = folder / f"{model.stem}.mnn", {".onnx": "ONNX", ".tflite": "TFLITE"}[model.suffix]
    words = ["-f", kind, "--modelFile", str(model.resolve()), "--MNNModel", str(target), "--bizCode", "bench"]
    output = finished([sys.executable, "-c", "import _tools, sys; _tools.mnnconvert(sys.argv)", *words], folder)
    if not target.exists() or "Converted Success" not in output:
        said = [line for line in output.splitlines() if re.search(r"error|fail|support|can't|not ", line, re.I)]
        said = [re.sub(r"^\[[\d:]+\] :\d+: ", "", line.strip()) for line in said]
        said = [line for line in said if not line.startswith("The device supports")]
        raise Refused(f"conversion fails: {said[0][:140] if said else 'no message'}")
    return target


def ncnn_converter(model, folder, shapes):
    if shapes:
        raise Refused("open shapes: pnnx is not told any")
    command = shutil.which("pnnx", path=f"{pathlib.Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
    if not command:
        raise Refused("no command pnnx (pip install pnnx)")
    name = re.sub(r"\W", "_", model.stem)
    link = folder / f"{name}.onnx"
    link.symlink_to(model.resolve())
    finished([command, link.name, "fp16=0"], folder)
    target = folder / f"{name}.ncnn.param"
    if not target.exists():
        raise Refused("conversion fails: pnnx writes no .param")
    return target


class Peer:
    """modules: those imported before time and memory are counted; formats: suffixes of the models that it takes."""

    def __init__(self, package, formats, runner, modules, converter=None):
        self.package, self.formats, self.runner, self.converter = package, formats, runner, converter
        self.modules = ["numpy", *modules]

    def version(self):
        try:
            return importlib.metadata.version(self.package)
        except importlib.metadata.PackageNotFoundError:
            return None


PEERS = {
    "onnxruntime": Peer("onnxruntime", [".onnx"], onnxruntime_runner, ["onnxruntime"]),
    "openvino": Peer("openvino", [".onnx"], openvino_runner, ["openvino"]),
    "litert": Peer("ai-edge-litert", [".tflite"], litert_runner, ["ai_edge_litert.interpreter"]),
    "executorch": Peer(
        "executorch", [".pte"], executorch_runner, ["torch", "executorch.extension.pybindings.portable_lib"]
    ),
    "mnn": Peer("MNN", [".onnx", ".tflite"], mnn_runner, ["MNN"], mnn_converter),
    "ncnn": Peer("ncnn", [".onnx"], ncnn_runner, ["ncnn"], ncnn_converter),
}


def converted(peer, model, folder, shapes):
    """The file that a peer runs for a model: below `folder`, where a conversion and its failure are kept."""
    if not PEERS[peer].converter:
        return model
    state = model.stat()
    key = [str(model.resolve()), state.st_size, state.st_mtime_ns, *shapes]
    place = folder / peer / re.sub(r"\W", "_", "_".join(map(str, key)))
    kept = place / "result.json"
    if not kept.exists():
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        try:
            result = {"file": str(PEERS[peer].converter(model, place, shapes))}
        except Refused as reason:
            result = {"reason": str(reason)}
        kept.write_text(json.dumps(result))
    result = json.loads(kept.read_text())
    if "reason" in result:
        raise Refused(result["reason"])
    return pathlib.Path(result["file"])


def sample(array, count=256):
    """Values of an array, at even distances, as numbers."""
    flat = array.reshape(-1)
    return [float(v) for v in flat[:: max(1, -(-flat.size // count))]]


def child(engine, threads, seconds, model, precision, *shapes):
    """Prints the figures of one engine in this process as JSON, without the start and the memory of Python and its
    modules; and a sample of each output."""
    for module in PEERS[engine].modules:
        importlib.import_module(module)
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    before = pages * os.sysconf("SC_PAGE_SIZE") / 2**20
    seconds, start = float(seconds), time.perf_counter()
    run, results = PEERS[engine].runner(model, int(threads), precision, dict(map(shape_of, shapes)))
    run()
    first, best, end = time.perf_counter() - start, math.inf, time.perf_counter() + seconds
    while time.perf_counter() < end or best == math.inf:
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - before
    samples = [sample(array) for array in results()]
    print(json.dumps({"ms": best * 1e3, "first": first * 1e3, "memory": memory, "outputs": samples}))


def shape_of(text):
    """("ids", [8, 128]) of "ids=8x128"."""
    name, _, dimensions = text.rpartition("=")
    return name, [int(d) for d in dimensions.split("x")]


def difference(reference, other):
    """How far outputs are from those of another engine: the smallest relative L2 distance of the first output to one of
    as many samples; infinite where there is none or a value is no number."""

    def norm(values):
        return math.sqrt(sum(v * v for v in values))

    first = reference[0]
    fits = [o for o in other if len(o) == len(first)]
    gaps = [norm([a - b for a, b in zip(first, o)]) / (norm(first) or 1) for o in fits]
    return min((g for g in gaps if not math.isnan(g)), default=math.inf)
