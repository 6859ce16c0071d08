"""Values of an ONNX model as onnxruntime computes them: every value of the main graph becomes an output."""

import pathlib
import sys

here = sys.path.pop(0)  # the tracers have the names of the packages that they import
TOGETHER = 64  # values that a run gives back


def with_all_outputs(onnx, model_file, folder):
    """The model with every value as an output, as a file, and the names in the order of the nodes."""
    model = onnx.load(model_file)
    outputs = [o.name for o in model.graph.output]
    names = [name for node in model.graph.node for name in node.output if name]
    model.graph.output.extend(onnx.ValueInfoProto(name=n) for n in names if n not in set(outputs))
    path = str(pathlib.Path(folder) / "model.onnx")
    large = model.ByteSize() > 2**31 - 1
    onnx.save(model, path, save_as_external_data=large)
    return path, names


def main():
    sys.path.append(here)
    import tracer

    sys.path.remove(here)
    ort, onnx, _ = tracer.need("onnxruntime", "onnx", "numpy")
    model_file, folder = sys.argv[1:3]
    exchange = tracer.Exchange(folder)
    options = ort.SessionOptions()
    options.log_severity_level = 3
    path, names = model_file, []
    if pathlib.Path(model_file).read_bytes()[4:8] != b"ORTM":
        path, names = with_all_outputs(onnx, model_file, folder)
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    known = {i.name for i in session.get_inputs()}
    feed = {name: array for name, array in exchange.inputs() if name in known}
    names = names or [o.name for o in session.get_outputs()]
    for first in range(0, len(names), TOGETHER):
        some = names[first : first + TOGETHER]
        for name, array in zip(some, session.run(some, feed), strict=True):
            if hasattr(array, "dtype"):
                exchange.put(name, array)
    exchange.close()


main()
