"""The Python interface of ExecuTorch's runtime on smelt: `from smelt.executorch import Runtime`.

    method = Runtime.get().load_program("model.pte").load_method("forward")
    outputs = method.execute([x])

Inputs may be numpy arrays, torch tensors (on the CPU) and numbers. Outputs are torch tensors if any input is one, else
numpy arrays.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import numpy as np

from ._arrays import numpy_dtype
from ._info import TensorInfo
from ._model import Model, Session, load

__all__ = ["Method", "MethodMeta", "Program", "Runtime", "TensorMeta", "Verification"]


class Verification(IntEnum):
    """Taken and without effect: smelt verifies every byte of a program."""

    Minimal = 0
    InternalConsistency = 1


class TensorMeta:
    """Type and shape of an input or output."""

    def __init__(self, info: TensorInfo) -> None:
        self._info = info

    def sizes(self) -> tuple[int, ...]:
        """The dimensions; of those that a run decides, the bound."""
        bound = self._info.bound or (-1,) * len(self._info.shape or ())
        return tuple(b if d is None else d for d, b in zip(self._info.shape or (), bound, strict=True))

    def dtype(self) -> str:
        """The element type by smelt's name; ExecuTorch gives a number."""
        return self._info.dtype

    def nbytes(self) -> int:
        """Bytes of a tensor of these dimensions."""
        return int(np.prod(self.sizes(), dtype=np.int64)) * numpy_dtype(self._info.dtype).itemsize


class MethodMeta:
    """Names and types of a method."""

    def __init__(self, name: str, session: Session) -> None:
        self._name, self._inputs, self._outputs = name, session.inputs, session.outputs

    def name(self) -> str:
        """The method's name."""
        return self._name

    def num_inputs(self) -> int:
        """Number of inputs."""
        return len(self._inputs)

    def num_outputs(self) -> int:
        """Number of outputs."""
        return len(self._outputs)

    def input_tensor_meta(self, index: int) -> TensorMeta:
        """Type and shape of an input; IndexError for no such."""
        return TensorMeta(self._inputs[index])

    def output_tensor_meta(self, index: int) -> TensorMeta:
        """Type and shape of an output; IndexError for no such."""
        return TensorMeta(self._outputs[index])


class Method:
    """A method of a program with variables of its own; made by `Program.load_method`."""

    def __init__(self, model: Model, name: str) -> None:
        self._session = model.session(method=name)
        self.metadata = MethodMeta(name, self._session)

    def execute(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """Run once; outputs in the method's order. Raises smelt.InvalidInputError where inputs don't fit."""
        tensors = [type(x).__module__.partition(".")[0] == "torch" for x in inputs]
        arrays = [x.detach().numpy() if t else x for x, t in zip(inputs, tensors, strict=True)]
        outputs: tuple[Any, ...] = self._session.run(*arrays)
        if not any(tensors):
            return list(outputs)
        import torch

        return [torch.from_numpy(x) if isinstance(x, np.ndarray) else x for x in outputs]


class Program:
    """A loaded program; made by `Runtime.load_program`."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def method_names(self) -> set[str]:
        """Names of the methods."""
        return set(self._model.methods)

    def load_method(self, name: str) -> Method | None:
        """A method ready to run; None if the program has none of the name."""
        return Method(self._model, name) if name in self._model.methods else None

    def metadata(self, method_name: str) -> MethodMeta:
        """Names and types of a method; smelt.InvalidInputError for no such."""
        return MethodMeta(method_name, self._model.session(method=method_name))


class Runtime:
    """The runtime; `Runtime.get()` gives it."""

    _instance: Runtime | None = None

    @staticmethod
    def get() -> Runtime:
        """The one runtime of the process."""
        if Runtime._instance is None:
            Runtime._instance = Runtime()
        return Runtime._instance

    def load_program(
        self,
        data: bytes | bytearray | str | os.PathLike[str],
        *,
        verification: Verification = Verification.InternalConsistency,
        data_path: str | os.PathLike[str] | None = None,
    ) -> Program:
        """Load a program from its bytes or file; data_path: external weights (.ptd). Raises smelt.Error if it can't."""
        return Program(load(data, data_files=[data_path] if data_path else []))
