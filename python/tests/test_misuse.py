"""5,000 random wrong uses with a fixed seed: each ends in a result or a documented exception, never in a crash."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import smelt
from models import identity_onnx, onnx_model, relu_onnx, relu_tflite

CALLS = 5000
EXPECTED = (smelt.Error, TypeError)


def values(r: random.Random) -> Any:
    """Something that might be an input, most often a wrong one."""
    shape = tuple(r.choice([0, 1, 2, 3, 64]) for _ in range(r.choice([0, 1, 2, 2, 2, 3, 5])))
    dtype = r.choice(
        ["f4", "f4", "f4", "f8", "f2", "i1", "u1", "i8", "?", "c8", ">f4", ">i2", "U3", "S2", "M8[s]", "O", "V5"]
    )
    a = np.zeros(shape, dtype)
    return r.choice(
        [
            a,
            np.zeros((1, 64), "f4"),
            np.zeros((64, 1), "f4").T,
            np.zeros((1, 128), "f4")[:, ::2],
            np.zeros((1, 128), "f4")[:, ::-2],
            np.asfortranarray(a),
            np.broadcast_to(np.float32(1), (1, 64)),
            memoryview(bytearray(256)),
            memoryview(bytes(256)).cast("f"),
            memoryview(bytes(256))[::2],
            b"x" * 256,
            bytearray(3),
            "text",
            None,
            1,
            -1.5,
            1 << 80,
            float("nan"),
            object(),
            type,
            [1, 2],
            [[0.0] * 64],
            [[1], [1, 2]],
            ["a"],
            [],
            (),
            [None],
            {},
            {"x": a},
            {1: 2},
            set(),
            range(64),
            a.tolist(),
            np.float32(1),
            np.ma.masked_array(np.zeros((1, 64), "f4")),
            np.lib.stride_tricks.as_strided(np.zeros(1, "f4"), (1 << 40, 1 << 20), (0, 0)),
            np.lib.stride_tricks.as_strided(np.zeros(1, "f4"), (1,) * 20, (0,) * 20),
            (i for i in range(3)),
            lambda: 1,
            smelt,
        ]
    )


def options(r: random.Random) -> dict[str, Any]:
    """Options of a session, often out of range."""
    numbers = [0, 1, 2, 3, -1, 300, 2**31, 2**64, -(2**70), 1.5, "2", None, float("inf"), float("nan")]
    names = ["threads", "memory_limit", "seconds_limit", "steps_limit", "seed", "device", "profile", "fp16"]
    names += ["deterministic", "strict_types"]
    out = {name: r.choice(numbers) for name in r.sample(names, r.choice([0, 0, 1, 2]))}
    if r.random() < 0.3:
        out["backend"] = r.choice(["cpu", "reference", "", "CPU", None, 3, "\0"])
    if r.random() < 0.2:
        out["isa"] = r.choice(["", "baseline", "bf16", "avx7", None, 3, "x" * 10_000, "\udcff"])
    if r.random() < 0.2:
        out["match"] = r.choice(["reference", "litert-xnnpack", "", None, 3, "\udcff"])
    if r.random() < 0.2:
        out["method"] = r.choice(["", "main", "other", None, 3, "x" * 10_000, "\udcff"])
    return out


def names(r: random.Random) -> dict[str, Any]:
    return {
        r.choice(["x", "y", "a", "b", "", "z" * 1000, "\udcff", "\0"]): values(r)
        for _ in range(r.choice([0, 0, 0, 1, 2]))
    }


def misuse(r: random.Random, models: list[smelt.Model], files: list[bytes], sessions: list[smelt.Session]) -> None:
    session, model = r.choice(sessions), r.choice(models)
    arguments = [values(r) for _ in range(r.choice([0, 1, 1, 1, 2, 3]))]
    kind = r.randrange(12)
    if kind == 0:
        data = bytearray(r.choice(files))
        for _ in range(r.choice([1, 2, 10])):
            data[r.randrange(len(data))] = r.randrange(256)
        smelt.load(bytes(data[: r.randrange(len(data) + 1)]) if r.random() < 0.5 else bytes(data))(*arguments)
    elif kind == 1:
        smelt.load(values(r))
    elif kind == 2:
        made = model.session(**options(r))
        sessions[r.randrange(len(sessions))] = made
        made.run(*arguments, **names(r))
    elif kind == 3:
        session.bind(*arguments, **names(r))
    elif kind == 4:
        kept = session.view(*arguments, **names(r))
        session.run(*arguments, **names(r))
        del kept
    elif kind == 5:
        r.choice([session.close, session.cancel, session.reset_state, lambda: session.profile, lambda: session.isa])()
    elif kind == 6:
        session.method(r.choice(["main", "", "other", values(r)]))(*arguments)
    elif kind == 7:
        model.bench(*arguments, runs=r.choice([1, 0, -1, 2.5, "3"]), warmup=r.choice([0, 1, -1, None]))
    elif kind == 8:
        model.inspect(backend=r.choice(["cpu", "reference", "gpu", None]), optimised=r.choice([True, False, "x"]))
    elif kind == 9:
        smelt.verify_bundle(r.choice([values(r), "nothing", __file__]), threads=r.choice([1, 0, "1"]))
    else:
        session.run(*arguments, **names(r))


def test_random_misuse(digits: Path) -> None:
    r = random.Random(19)
    files = [
        relu_onnx(),
        relu_onnx(("n", "m")),
        relu_tflite(),
        identity_onnx("string"),
        identity_onnx("int8", None),
        onnx_model(
            [("Add", ["a", "b"], ["y"])],
            [("a", "float32", ("n", 64)), ("b", "float32", (1, "m"))],
            [("y", "float32", None)],
        ),
        (digits / "digits_xnnpack.pte").read_bytes(),
    ]
    models = [smelt.load(f) for f in files]
    sessions = [m.session() for m in models]
    refused = 0
    for i in range(CALLS):
        if i % 50 == 0:
            sessions = [m.session(seconds_limit=5) for m in models]
        try:
            misuse(r, models, files, sessions)
        except EXPECTED as e:
            refused += 1
            assert str(e)  # noqa: PT017
    assert refused > CALLS // 2
    x = np.linspace(-1, 1, 64, dtype=np.float32).reshape(1, 64)
    np.testing.assert_array_equal(models[0](x)[0], np.maximum(x, 0))
