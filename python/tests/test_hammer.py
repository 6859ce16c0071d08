"""Eight threads over one model, doing everything that a program may do at once.

SMELT_HAMMER_SECONDS: how long, 2 by default. Longer under valgrind (suppressing what CPython itself does):
PYTHONMALLOC=malloc SMELT_HAMMER_SECONDS=30 valgrind --error-exitcode=1 python -m pytest python/tests/test_hammer.py
"""

from __future__ import annotations

import os
import random
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import smelt

SECONDS = float(os.environ.get("SMELT_HAMMER_SECONDS", "2"))


@pytest.mark.parametrize("name", ["digits.onnx", "digits_int8.tflite"])
def test_eight_threads_over_one_model(digits: Path, name: str) -> None:
    model = smelt.load(digits / name)
    (port,) = model.inputs
    x = np.ones([d or 1 for d in port.shape or ()], port.numpy_dtype)
    (expected,) = model(x)
    shared = model.session(threads=2)
    end = time.monotonic() + SECONDS / 2
    wrong: list[str] = []

    def check(result: Any) -> None:
        if not np.array_equal(result, expected):
            wrong.append(f"{result} instead of {expected}")

    def work(seed: int) -> None:
        r = random.Random(seed)
        own = model.session(threads=r.choice([1, 2]))

        def bound() -> None:
            target = np.empty_like(expected)
            own.bind(target)
            own.run(x)
            check(target)
            own.bind(None)

        def viewed() -> None:
            (view,) = own.view(x)
            check(np.array(view))

        calls = [
            lambda: check(shared.run(x)[0]),
            lambda: check(own.run(**{port.name: x})[model.outputs[0].name]),
            lambda: check(model(x)[0]),
            lambda: check(smelt.load(digits / name).session().run(x)[0]),
            bound,
            viewed,
            own.reset_state,
            lambda: model.inspect(),
        ]
        while time.monotonic() < end and not wrong:
            try:
                r.choices(calls, [40, 40, 10, 2, 5, 5, 5, 1])[0]()
            except Exception as e:
                wrong.append(repr(e))
                raise

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong, wrong[0]
