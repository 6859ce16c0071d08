"""Values of a TFLite model as LiteRT computes them: the interpreter keeps all tensors."""

import sys

here = sys.path.pop(0)  # the tracers have the names of the packages that they import


def main():
    sys.path.append(here)
    import tracer

    sys.path.remove(here)
    litert, numpy = tracer.need("ai_edge_litert.interpreter", "numpy")
    model_file, folder = sys.argv[1:3]
    exchange = tracer.Exchange(folder)
    # A delegate would keep what lies between its nodes to itself.
    resolver = litert.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = litert.Interpreter(
        model_file, experimental_op_resolver_type=resolver, experimental_preserve_all_tensors=True
    )
    given = exchange.inputs()
    details = interpreter.get_input_details()
    for detail, (_, array) in zip(details, given, strict=True):
        interpreter.resize_tensor_input(detail["index"], array.shape)
    interpreter.allocate_tensors()
    for detail, (_, array) in zip(details, given, strict=True):
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()
    fed = {detail["index"] for detail in details}
    for detail in interpreter.get_tensor_details():
        if detail["index"] in fed:
            continue
        try:
            exchange.put(detail["name"], interpreter.get_tensor(detail["index"]))
        except ValueError:  # a temporary tensor, or one that no node writes
            continue
    exchange.close()


main()
