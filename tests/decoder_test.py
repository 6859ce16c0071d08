#!/usr/bin/env python3
"""A Llama with a key-value cache generates the same tokens with smelt and with ExecuTorch.

    decoder_test.py GENERATE [FOLDER]       exit status 77: skipped, no executorch package

Without FOLDER the programs are written by examples/decoder/to_executorch.py.
"""
import subprocess
import sys
import tempfile
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "decoder"
COUNT = 64
PROMPT = [3, 14, 15, 92, 65]


def upstream(program):
    import torch
    import executorch.kernels.quantized  # noqa: F401, registers operators
    from executorch.extension.llm.custom_ops import custom_ops  # noqa: F401
    from executorch.extension.pybindings import portable_lib

    module = portable_lib._load_for_executorch(str(program))
    tokens, fresh, position = [], PROMPT, 0
    while len(tokens) < COUNT:
        scores = module.run_method("forward", (torch.tensor([fresh]), torch.tensor([position])))[0]
        position += len(fresh)
        fresh = [int(scores.reshape(-1, scores.shape[-1])[-1].argmax())]
        tokens += fresh
    return tokens


def main():
    try:
        import executorch.extension.pybindings.portable_lib  # noqa: F401
    except ImportError as e:
        print(f"skipped: {e}")
        return 77
    with tempfile.TemporaryDirectory() as made:
        folder = Path(sys.argv[2] if len(sys.argv) > 2 else made)
        if folder == Path(made):
            subprocess.run([sys.executable, EXAMPLE / "to_executorch.py", made], check=True, capture_output=True)
        wrong = 0
        for program in sorted(folder.glob("decoder_*.pte")):
            done = subprocess.run([sys.argv[1], program, str(COUNT), *map(str, PROMPT)], capture_output=True, text=True)
            ours, theirs = [int(t) for t in done.stdout.split()], upstream(program)
            same = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), min(len(ours), COUNT))
            print(f"{program.name}: {same} of {COUNT} tokens agree {done.stderr.strip()}")
            wrong += same < COUNT
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
