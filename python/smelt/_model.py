"""Model, Session and what makes them."""

from __future__ import annotations

import json
import math
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Union

from . import _engine
from ._info import Description, Profile, Quantization, SetResult, TensorInfo
from .errors import InvalidInputError

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor
    from types import TracebackType

    from typing_extensions import Buffer, Self

Backend = Literal["cpu", "reference", "vulkan"]
Storage = Literal["auto", "buffer", "texture"]
Match = Literal["reference", "litert-xnnpack"]
PathOrBytes = Union[str, "os.PathLike[str]", "Buffer"]

_BACKENDS = ("cpu", "reference", "vulkan")
_STORAGES = ("auto", "buffer", "texture")
_MATCHES = ("reference", "litert-xnnpack")


class OperandType(NamedTuple):
    """Element type and shape of an operand or result."""

    dtype: str
    """Element type; "": not known."""
    shape: tuple[int | None, ...] | None
    """None for a dimension that is not known; None in place of the tuple if not even the rank is."""


class CustomOperator(ABC):
    """An operator in Python that runs every node of a model with its name.

    Sessions of a model may call one instance from several threads at once. An exception becomes an error of the load
    or the run.
    """

    name: str
    """As models name it: the custom_code of TFLite."""

    def infer(
        self, inputs: list[OperandType], declared: list[OperandType], options: bytes
    ) -> Sequence[tuple[str, Sequence[int | None] | None]]:
        """Types of the results, at load and again with the shapes of a run; those that the model declares by default.

        `inputs` and `declared` hold (dtype, shape) pairs; `options` are the node's options as the format stores them.
        A dimension that depends on the contents of the inputs may stay None.
        """
        return declared

    @abstractmethod
    def run(self, inputs: list[Any], options: bytes) -> Any:
        """The result, or a sequence of them, as arrays of the inferred types. Absent operands are None."""


class _Operator:
    """What the engine calls in place of a CustomOperator: operand types become OperandType."""

    def __init__(self, operator: CustomOperator) -> None:
        self.name = operator.name
        self.run = operator.run
        self._infer = operator.infer

    def infer(self, inputs: list[Any], declared: list[Any], options: bytes) -> Any:
        return self._infer([OperandType(*t) for t in inputs], [OperandType(*t) for t in declared], options)


def _choice(name: str, value: str, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise InvalidInputError(f"{name} is {value!r}, one of {', '.join(choices)} expected")
    return value


def _integer(name: str, value: int, low: int, high: int) -> int:
    if not isinstance(value, int):
        raise TypeError(f"{name} is a {type(value).__name__}, int expected")
    if not low <= value <= high:
        raise InvalidInputError(f"{name} is {value}, {low} to {high} expected")
    return value


def _ports(model: _engine.Model, method: str, outputs: bool) -> tuple[TensorInfo, ...]:
    return tuple(
        TensorInfo._make((*fields, Quantization._make(quantization) if quantization else None))
        for *fields, quantization in model.ports(method, outputs)
    )


class Method:
    """A method of a model on the variables of a session; made by `Session.method`."""

    def __init__(self, session: Session, name: str) -> None:
        self._session = session
        self.name = name
        self.inputs = _ports(session._loaded, name, False)
        self.outputs = _ports(session._loaded, name, True)

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """Run the method once; inputs and result as those of `Session.run`."""
        return self._session.call(self.name, inputs, named)

    def __repr__(self) -> str:
        return _signature(self.name, self.inputs, self.outputs)


def _signature(name: str, inputs: Sequence[TensorInfo], outputs: Sequence[TensorInfo]) -> str:
    take = ", ".join(f"{p.name}: {p.type}" for p in inputs)
    give = ", ".join(f"{p.name}: {p.type}" for p in outputs)
    return f"{name}({take}) -> ({give})"


class Session(_engine.Session):
    """A model made ready to run, with variables of its own; made by `Model.session`.

    Several threads may use one session: its runs take turns. Sessions of one model share its weights and run at the
    same time. A session is a context manager that closes itself.
    """

    def __init__(
        self,
        model: Model,
        *,
        threads: int = 1,
        backend: Backend = "cpu",
        method: str = "",
        memory_limit: int = 0,
        seconds_limit: float = 0,
        steps_limit: int = 0,
        profile: bool = False,
        seed: int = 0,
        device: int = -1,
        device_storage: Storage = "auto",
        fp16: bool = False,
        isa: str = "",
        match: Match = "reference",
        deterministic: bool = False,
        strict_types: bool = False,
    ) -> None:
        if not isinstance(model, Model):
            raise TypeError(f"model is a {type(model).__name__}, smelt.Model expected")
        if not isinstance(seconds_limit, (int, float)):
            raise TypeError(f"seconds_limit is a {type(seconds_limit).__name__}, float expected")
        if not 0 <= seconds_limit < math.inf:
            raise InvalidInputError(f"seconds_limit is {seconds_limit}, at least 0 expected")
        super().__init__(
            model._loaded,
            method=method,
            backend=_choice("backend", backend, _BACKENDS),
            threads=_integer("threads", threads, 1, 256),
            device=_integer("device", device, -1, 2**31 - 1),
            storage=_choice("device_storage", device_storage, _STORAGES),
            fp16=bool(fp16),
            seed=_integer("seed", seed, 0, 2**64 - 1),
            memory_limit=_integer("memory_limit", memory_limit, 0, 2**63 - 1),
            seconds_limit=float(seconds_limit),
            steps_limit=_integer("steps_limit", steps_limit, 0, 2**63 - 1),
            profile=bool(profile),
            isa=isa,
            match=_choice("match", match, _MATCHES),
            deterministic=bool(deterministic),
            strict_types=bool(strict_types),
        )
        self._loaded = model._loaded
        self._method = method
        self._executor: ThreadPoolExecutor | None = None

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """Inputs of the session's method."""
        return _ports(self._loaded, self._method, False)

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        """Outputs of the session's method."""
        return _ports(self._loaded, self._method, True)

    def method(self, name: str) -> Method:
        """A method of the model, to be called on this session's variables. Raises InvalidInputError for no such."""
        return Method(self, name)

    async def run_async(self, *inputs: Any, **named: Any) -> Any:
        """Run once on a thread of the session; inputs and result as those of `run`.

        Cancelling the task cancels the run.
        """
        import asyncio  # slow to import
        from concurrent.futures import ThreadPoolExecutor

        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, "smelt-session")
        future = self._executor.submit(self.run, *inputs, **named)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            if future.running():
                self.cancel()
            raise

    def prepare(self, *inputs: Any, **named: Any) -> tuple[OperandType, ...]:
        """Plan a run for inputs of these types and shapes, so that `run` need not; contents are not read.

        Returns type and shape of each output, as far as they don't depend on contents.
        """
        return tuple(OperandType._make(t) for t in self.plan(inputs, named))

    def bind(self, *arrays: Any, **named: Any) -> None:
        """Give arrays that `run` writes outputs into and returns: one for each output, or some by name.

        None: a new array every time. Without arguments: no array is bound. Arrays must be writable and C-contiguous;
        a run raises InvalidInputError for an array whose element type or shape is not the output's.
        """
        if named:
            names = [p.name for p in self.outputs]
            if arrays:
                raise InvalidInputError("outputs are bound by position and by name")
            if unknown := [n for n in named if n not in names]:
                raise InvalidInputError(f"no output '{unknown[0]}'; the model has: {', '.join(names)}")
            arrays = tuple(named.get(n) for n in names)
        self.set_bound(arrays)

    @property
    def profile(self) -> Profile:
        """Time by operator of all runs so far; empty unless the session was made with profile=True."""
        return Profile(self.entries())

    def bench(self, *inputs: Any, runs: int = 20, warmup: int = 3, **named: Any) -> dict[str, float]:
        """Time runs with these inputs, without conversions: first_run_ms, min_ms, median_ms, p90_ms, runs."""
        _integer("runs", runs, 1, 10_000_000)
        _integer("warmup", warmup, 0, 10_000_000)
        first, *measured = self.measure(max(warmup, 1), runs, inputs, named)
        measured.sort()
        return {
            "first_run_ms": first,
            "min_ms": measured[0],
            "median_ms": measured[len(measured) // 2],
            "p90_ms": measured[min(len(measured) - 1, int(len(measured) * 0.9))],
            "runs": runs,
        }

    def close(self) -> None:
        """Free the session's memory. Later calls raise InvalidInputError; a second close() does nothing."""
        super().close()
        if self._executor is not None:
            self._executor.shutdown(wait=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Model:
    """A loaded model: an immutable graph whose constants are views of the mapped file; made by `load`.

    Calling it runs it in a session of its own that keeps the model's variables: `model(x)` gives a tuple of new arrays,
    `model(name=x)` a dict by output name. It is safe from several threads, which take turns; for parallel runs make a
    session for each thread.
    """

    def __init__(self, loaded: _engine.Model) -> None:
        self._loaded = loaded
        self._session: Session | None = None
        self._lock = threading.Lock()

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """Run the first method once; inputs and result as those of `Session.run`."""
        if self._session is None:
            with self._lock:
                if self._session is None:
                    self._session = Session(self)
        return self._session.run(*inputs, **named)

    @property
    def format(self) -> str:
        """ "tflite", "onnx", "executorch", "xnnpack" or "vulkan"."""
        return self._loaded.format

    @property
    def producer(self) -> str:
        """What the file says about its writer."""
        return self._loaded.producer

    @property
    def metadata(self) -> dict[str, str]:
        """Metadata of the file: ONNX's metadata_props, TFLite's names and signatures; values of one key are lines."""
        return self._loaded.metadata

    @property
    def warnings(self) -> list[str]:
        """What departs from the format's rules and was read all the same, a line each."""
        return self._loaded.warnings

    @property
    def text_files(self) -> dict[str, list[str]]:
        """Lines of the files that TFLite metadata packs into the model, such as labels, by file name."""
        return self._loaded.text_files

    @property
    def file_bytes(self) -> int:
        """Size of the model's own file."""
        return self._loaded.file_bytes

    @property
    def methods(self) -> tuple[str, ...]:
        """Names of the methods; the first is the one that runs unless another is named."""
        return tuple(self._loaded.methods)

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """Inputs of the first method."""
        return _ports(self._loaded, "", False)

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        """Outputs of the first method."""
        return _ports(self._loaded, "", True)

    def session(
        self,
        *,
        threads: int = 1,
        backend: Backend = "cpu",
        method: str = "",
        memory_limit: int = 0,
        seconds_limit: float = 0,
        steps_limit: int = 0,
        profile: bool = False,
        seed: int = 0,
        device: int = -1,
        device_storage: Storage = "auto",
        fp16: bool = False,
        isa: str = "",
        match: Match = "reference",
        deterministic: bool = False,
        strict_types: bool = False,
    ) -> Session:
        """A session with variables of its own.

        threads: number of compute threads, 1 to 256.
        backend: "cpu", "reference" (the slow, obvious kernels) or "vulkan".
        method: the method that `run` runs; "": the first.
        memory_limit: bytes that a run may use beyond the weights; 0: 1 GiB + 64x inputs + 16x weights.
        seconds_limit, steps_limit: of one run; 0: none, and a number of nodes that scales with the model.
        profile: measure operators; `Session.profile` has the times.
        seed: of random operators without a seed of their own.
        device, device_storage, fp16: of the Vulkan back-end, as the options of the command line.
        isa: level of the CPU's kernels that `smelt devices` lists; "": SMELT_ISA, else the best. "bf16" and,
            with AMX, "amx_bf16" round the operands of float32 products to bfloat16: half of the time or less, results
            within 1 to 3 %.
        match: whose integers a quantized TFLite model gives, "reference" (LiteRT's reference kernels) or
            "litert-xnnpack" (LiteRT as it runs by default).
        deterministic: give the same bits for every number of threads and every position in a batch.
        strict_types: keep values between nodes in the file's element types; the CPU computes on with float16 and
            bfloat16 values in float32 otherwise.

        Raises InvalidInputError for values out of range, DeviceError where the device is not there.
        """
        return Session(
            self,
            threads=threads,
            backend=backend,
            method=method,
            memory_limit=memory_limit,
            seconds_limit=seconds_limit,
            steps_limit=steps_limit,
            profile=profile,
            seed=seed,
            device=device,
            device_storage=device_storage,
            fp16=fp16,
            isa=isa,
            match=match,
            deterministic=deterministic,
            strict_types=strict_types,
        )

    def inspect(
        self,
        *,
        optimised: bool = False,
        backend: Backend = "cpu",
        device: int = -1,
        device_storage: Storage = "auto",
        fp16: bool = False,
    ) -> Description:
        """Operators, attributes, types, sizes and the kernel that runs each node, as `smelt inspect --json` prints.

        optimised: the graph that runs execute, fused and folded, in place of the file's.
        """
        target = (
            _choice("backend", backend, _BACKENDS),
            _integer("device", device, -1, 2**31 - 1),
            _choice("device_storage", device_storage, _STORAGES),
            bool(fp16),
        )

        def describe(page: bool) -> str:
            return self._loaded.describe(bool(optimised), page, *target)

        return Description(json.loads(describe(False)), lambda: describe(True))

    def bench(
        self, *inputs: Any, threads: int = 1, backend: Backend = "cpu", runs: int = 20, warmup: int = 3, **named: Any
    ) -> dict[str, float]:
        """`Session.bench` in a new session."""
        with self.session(threads=threads, backend=backend) as session:
            return session.bench(*inputs, runs=runs, warmup=warmup, **named)

    def __repr__(self) -> str:
        return f"<smelt.Model {self.format}: {_signature(self.methods[0], self.inputs, self.outputs)}>"


def load(
    source: PathOrBytes,
    *,
    custom_operators: Sequence[CustomOperator] = (),
    data_files: Sequence[str | os.PathLike[str]] = (),
    tolerate: Sequence[str] = (),
    name: str = "model",
    folder: str | os.PathLike[str] = "",
) -> Model:
    """Load a model of any format, recognised by content.

    source: a path, or the file's bytes (bytes are viewed, other buffers copied).
    custom_operators: operators that the model may use besides the built-in ones.
    data_files: external weights of ExecuTorch programs (.ptd).
    tolerate: rules of its format that the file may break, by the names that errors give them, or "all".
    name, folder: for bytes: label of messages, and where external data may lie ("": external data is an error).

    Raises InvalidModelError, UnsupportedError, FileError or LimitError with the place in the file.
    """
    files = [os.fspath(f) for f in data_files]
    rules = [tolerate] if isinstance(tolerate, str) else list(tolerate)
    operators = [_Operator(o) for o in custom_operators]
    if isinstance(source, (str, os.PathLike)):
        path = os.fspath(source)
        if not isinstance(path, str):
            raise TypeError(f"source is a path of {type(path).__name__}, str expected")
        return Model(_engine.load_file(path, files, rules, operators))
    return Model(_engine.load_bytes(source, name, os.fspath(folder), files, rules, operators))


def verify_bundle(
    path: str | os.PathLike[str],
    *,
    backend: Backend = "cpu",
    threads: int = 1,
    rtol: float | None = None,
    atol: float | None = None,
) -> list[SetResult]:
    """Run every test set of a bundled program (.bpte) and compare: |expected - got| <= atol + |rtol * got|.

    Tolerances default to 1e-5 and 1e-8. Raises InvalidModelError for a file without test sets.
    """
    sets = _engine.verify_bundle(
        os.fspath(path),
        _choice("backend", backend, _BACKENDS),
        _integer("threads", threads, 1, 256),
        rtol,
        atol,
    )
    return [SetResult(*s) for s in sets]
