"""Outputs of an ExecuTorch program: its runtime gives no names of intermediate values."""

import sys

here = sys.path.pop(0)  # the tracers have the names of the packages that they import


def main():
    sys.path.append(here)
    import tracer

    sys.path.remove(here)
    torch, runtime, _ = tracer.need("torch", "executorch.runtime", "numpy")
    model_file, folder = sys.argv[1:3]
    exchange = tracer.Exchange(folder)
    program = runtime.Runtime.get().load_program(model_file)
    method = program.load_method(sorted(program.method_names)[0] if len(program.method_names) == 1 else "forward")
    for i, output in enumerate(method.execute([torch.from_numpy(a.copy()) for _, a in exchange.inputs()])):
        if isinstance(output, torch.Tensor):
            exchange.put(f"#{i}", output.detach().numpy())
    exchange.close()


main()
