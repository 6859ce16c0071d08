"""ONNX models for tests of the page, written without the onnx package."""

import struct

from onnx_proto import field

FLOAT, INT64, BOOL = 1, 7, 9


def value(name, dims, kind=FLOAT):
    shape = b"".join(field(1, field(1, d)) for d in dims)
    return field(1, name) + field(2, field(1, field(1, kind) + field(2, shape)))


def tensor(name, dims, values, kind=FLOAT):
    raw = struct.pack(f"<{len(values)}{'f' if kind == FLOAT else 'q'}", *values)
    return b"".join(field(1, d) for d in dims) + field(2, kind) + field(8, name) + field(9, raw)


def node(op, inputs, outputs, name="", **attributes):
    out = b"".join(field(1, i) for i in inputs) + b"".join(field(2, o) for o in outputs)
    out += field(3, name) + field(4, op)
    for key, v in attributes.items():
        kind, content = (2, field(3, v)) if isinstance(v, int) else (5, field(6, v))
        out += field(5, field(1, key) + content + field(20, kind))
    return out


def graph(name, nodes, inputs, outputs, constants=()):
    return (b"".join(field(1, n) for n in nodes) + field(2, name) + b"".join(field(5, c) for c in constants) +
            b"".join(field(11, i) for i in inputs) + b"".join(field(12, o) for o in outputs))


def model(content):
    return (field(1, 8) + field(2, "page test") + field(7, content) + field(8, field(2, 17)) +
            field(14, field(1, "colour") + field(2, "vermilion")))


def control():
    """An If with two bodies, Add and Relu that fuse, a chain that folds, a constant of 1,000 elements."""
    then = graph("when_true", [node("Relu", ["sum"], ["t"], "inner_relu")], [], [value("t", [10, 100])])
    other = graph("when_false", [node("Neg", ["sum"], ["f"]), node("Exp", ["f"], ["g"])], [], [value("g", [10, 100])])
    nodes = [
        node("Shape", ["x"], ["shape"]), node("Gather", ["shape", "one"], ["rows"]),
        node("Unsqueeze", ["rows", "axis"], ["row"]), node("Concat", ["row", "ten"], ["target"], axis=0),
        node("Add", ["x", "weights"], ["sums"], "adder"), node("Relu", ["sums"], ["sum"]),
        node("If", ["condition"], ["chosen"], "fork", then_branch=then, else_branch=other),
        node("Reshape", ["chosen", "target"], ["y"], "last"),
    ]
    constants = [tensor("weights", [10, 100], [i / 500 - 1 for i in range(1000)]), tensor("one", [], [1], INT64),
                 tensor("axis", [1], [0], INT64), tensor("ten", [1], [10], INT64)]
    return model(graph("main", nodes, [value("x", [10, 100]), value("condition", [], BOOL)],
                       [value("y", [100, 10])], constants))


def large(count):
    """`count` element-wise nodes: blocks with a residual edge, and the input used again every 100 nodes."""
    nodes, last, skip = [], "x", "x"
    for i in range(count):
        inputs = [last]
        if i % 8 == 7:
            inputs.append(skip)
        elif i % 100 == 50:
            inputs.append("x")
        op = "Add" if len(inputs) > 1 else ("Relu", "Neg", "Exp", "Abs")[i % 4]
        nodes.append(node(op, inputs, [f"v{i}"], f"n{i}"))
        last = f"v{i}"
        if i % 8 == 7:
            skip = last
    return model(graph("large", nodes, [value("x", [4])], [value(last, [4])]))
