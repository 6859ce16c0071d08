"""The Python interface of LiteRT (TensorFlow Lite) on smelt: `from smelt.litert import Interpreter, CompiledModel`.

Models of every format of smelt load, not only TFLite. Tensors other than inputs and outputs have no contents here.
docs/python.md lists the differences.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

from . import errors
from ._compiled_model import CompiledModel, HardwareAccelerator, TensorBuffer, signature_names
from ._info import TensorInfo
from ._model import CustomOperator, Model, Session, load

__all__ = [
    "CompiledModel",
    "HardwareAccelerator",
    "Interpreter",
    "OpResolverType",
    "SignatureRunner",
    "TensorBuffer",
]

Array = npt.NDArray[Any]


class OpResolverType(Enum):
    """Taken and without effect. smelt's integer results are those of BUILTIN_REF, bit by bit."""

    AUTO = 0
    BUILTIN = 1
    BUILTIN_REF = 2
    BUILTIN_WITHOUT_DEFAULT_DELEGATES = 3


class _State:
    """Contents and shapes of the inputs and outputs of a method."""

    def __init__(self, model: Model, method: str, threads: int) -> None:
        self.session: Session = model.session(method=method, threads=threads)
        self.inputs, self.outputs = self.session.inputs, self.session.outputs
        loaded = model._loaded
        self.input_at = {index: i for i, index in enumerate(loaded.value_ids(method, False))}
        self.output_at = {index: i for i, index in enumerate(loaded.value_ids(method, True))}
        self.shapes = [tuple(1 if d is None else d for d in info.shape or ()) for info in self.inputs]
        self.arrays: list[Array] | None = None  # of the inputs; None: not allocated
        self.results: list[Any] = [None] * len(self.outputs)

    def allocate(self) -> None:
        old = self.arrays or []
        arrays = []
        for i, (info, shape) in enumerate(zip(self.inputs, self.shapes, strict=True)):
            kept = i < len(old) and old[i].shape == shape
            arrays.append(old[i] if kept else np.zeros(shape, info.numpy_dtype))
        try:
            planned = self.session.prepare(*arrays)
        except errors.Error as e:
            raise RuntimeError(str(e)) from None
        self.results = [
            np.zeros(shape, info.numpy_dtype) if shape is not None and None not in shape else None
            for info, (_, shape) in zip(self.outputs, planned, strict=True)
        ]
        self.arrays = arrays

    def details(self, outputs: bool) -> list[dict[str, Any]]:
        infos = self.outputs if outputs else self.inputs
        shapes = [None if r is None else np.shape(r) for r in self.results] if outputs else self.shapes
        return [
            _details(info, index, shape)
            for info, index, shape in zip(infos, self.output_at if outputs else self.input_at, shapes, strict=True)
        ]

    def set(self, position: int, value: Any) -> None:
        if self.arrays is None:
            raise ValueError("Cannot set tensor: Tensor is unallocated. Try calling allocate_tensors() first")
        target, info = self.arrays[position], self.inputs[position]
        array = np.asarray(value)
        if array.dtype != target.dtype and not (target.dtype == object and array.dtype.kind in "OSU"):
            raise ValueError(
                f"Cannot set tensor: Got value of type {array.dtype} but expected type {info.dtype} for input "
                f"{position}, name: {info.name}"
            )
        if array.ndim != target.ndim:
            raise ValueError(
                f"Cannot set tensor: Dimension mismatch. Got {array.ndim} but expected {target.ndim} for input "
                f"{position}."
            )
        for i, (got, expected) in enumerate(zip(array.shape, target.shape, strict=True)):
            if got != expected:
                raise ValueError(
                    f"Cannot set tensor: Dimension mismatch. Got {got} but expected {expected} for dimension {i} of "
                    f"input {position}."
                )
        target[...] = array

    def run(self) -> None:
        if self.arrays is None:
            raise RuntimeError("Invoke called on model that is not ready.")
        try:
            self.results = list(self.session.run(*self.arrays))
        except errors.Error as e:
            raise RuntimeError(str(e)) from None


def _details(info: TensorInfo, index: int, shape: Sequence[int] | None) -> dict[str, Any]:
    q = info.quantization
    scales, zero_points = (q.scales, q.zero_points) if q else ((), ())
    signature = [-1 if d is None else d for d in info.shape or ()]
    return {
        "name": info.name,
        "index": index,
        "shape": np.array([max(d, 1) for d in signature] if shape is None else shape, np.int32),
        "shape_signature": np.array(signature, np.int32),
        "dtype": info.numpy_dtype.type,
        "quantization": (scales[0], zero_points[0]) if len(scales) == 1 else (0.0, 0),
        "quantization_parameters": {
            "scales": np.array(scales, np.float32),
            "zero_points": np.array(zero_points, np.int32),
            "quantized_dimension": q.axis if q else 0,
            "block_size": q.block if q else 0,
        },
        "sparsity_parameters": {},
    }


class SignatureRunner:
    """Runs a signature by the names of its inputs; made by `Interpreter.get_signature_runner`."""

    def __init__(self, interpreter: Interpreter, signature_key: str) -> None:
        self._state = interpreter._state_of(signature_key)
        self._inputs = signature_names(interpreter._model, signature_key, self._state.inputs)
        self._outputs = signature_names(interpreter._model, signature_key, self._state.outputs)

    def __call__(self, **inputs: Any) -> dict[str, Any]:
        """Outputs by name. ValueError for a wrong number of inputs, wrong names, types or ranks."""
        if len(inputs) != len(self._inputs):
            raise ValueError(
                f"Invalid number of inputs provided for running a SignatureDef, expected {len(self._inputs)} vs "
                f"provided {len(inputs)}"
            )
        state = self._state
        for name, value in inputs.items():
            if name not in self._inputs:
                raise ValueError(f"Invalid Input name ({name}) for SignatureDef")
            shape = np.shape(value)
            if state.shapes[self._inputs[name]] != shape:
                state.shapes[self._inputs[name]] = shape
                state.arrays = None
        if state.arrays is None:
            state.allocate()
        for name, value in inputs.items():
            state.set(self._inputs[name], value)
        state.run()
        return {name: state.results[i].copy() for name, i in self._outputs.items()}

    def get_input_details(self) -> dict[str, dict[str, Any]]:
        """Details by input name."""
        details = self._state.details(False)
        return {name: details[i] for name, i in self._inputs.items()}

    def get_output_details(self) -> dict[str, dict[str, Any]]:
        """Details by output name."""
        details = self._state.details(True)
        return {name: details[i] for name, i in self._outputs.items()}


class Interpreter:
    """A model and the tensors that it runs on.

    model_path or model_content: the model's file or bytes. num_threads: number of compute threads. custom_operators:
    operators in Python (smelt.CustomOperator). Other keyword arguments of LiteRT have no effect.
    """

    def __init__(
        self,
        model_path: str | os.PathLike[str] | None = None,
        model_content: bytes | None = None,
        num_threads: int | None = None,
        custom_operators: Sequence[CustomOperator] = (),
        **kwargs: Any,
    ) -> None:
        if num_threads is not None and not isinstance(num_threads, int):
            raise ValueError("type of num_threads should be int")
        if num_threads is not None and num_threads < 1:
            raise ValueError("num_threads should >= 1")
        if model_path and model_content:
            raise ValueError("Can't both provide `model_path` and `model_content`")
        if not model_path and not model_content:
            raise ValueError("`model_path` or `model_content` must be specified.")
        try:
            self._model = load(
                os.fspath(model_path) if model_path else model_content or b"", custom_operators=custom_operators
            )
            self._threads = min(num_threads or 1, 256)
            self._states: dict[str, _State] = {}
            self._main = self._state_of(self._model.methods[0])
        except errors.Error as e:
            raise ValueError(str(e)) from None

    def _state_of(self, method: str) -> _State:
        if method not in self._states:
            self._states[method] = _State(self._model, method, self._threads)
        return self._states[method]

    def allocate_tensors(self) -> None:
        """Plan for the inputs' shapes. RuntimeError if the model does not take them."""
        self._main.allocate()

    def get_input_details(self) -> list[dict[str, Any]]:
        """Name, index, shape, dtype and quantization of each input."""
        return self._main.details(False)

    def get_output_details(self) -> list[dict[str, Any]]:
        """Name, index, shape, dtype and quantization of each output."""
        return self._main.details(True)

    def get_tensor_details(self, subgraph_index: int = 0) -> list[dict[str, Any]]:
        """Details of the inputs and outputs."""
        return self.get_input_details() + self.get_output_details()

    def resize_tensor_input(self, input_index: int, tensor_size: Sequence[int], strict: bool = False) -> None:
        """Change an input's shape; allocate_tensors() has to follow. strict: only dimensions that are not fixed.

        RuntimeError for an index that is no input's.
        """
        if input_index not in self._main.input_at:
            raise RuntimeError(f"Invalid tensor index {input_index}, an input's expected: {list(self._main.input_at)}")
        position = self._main.input_at[input_index]
        shape = tuple(int(d) for d in tensor_size)
        declared = self._main.inputs[position].shape or ()
        if strict and (
            len(declared) != len(shape) or any(d not in (None, s) for d, s in zip(declared, shape, strict=True))
        ):
            raise ValueError(f"ResizeInputTensorStrict only allows mutating unknown dimensions: {declared} to {shape}")
        if self._main.shapes[position] != shape:
            self._main.shapes[position] = shape
            self._main.arrays = None

    @staticmethod
    def _position(index: int, positions: dict[int, int]) -> int:
        if index not in positions:
            raise ValueError(f"Invalid tensor index {index}, one of {list(positions)} expected")
        return positions[index]

    def set_tensor(self, tensor_index: int, value: Any) -> None:
        """Copy an array into an input. ValueError if type or shape differ."""
        self._main.set(self._position(tensor_index, self._main.input_at), value)

    def _contents(self, index: int) -> Any:
        main = self._main
        if index in main.input_at:
            contents = None if main.arrays is None else main.arrays[main.input_at[index]]
        else:
            contents = main.results[self._position(index, main.output_at)]
        if contents is None or main.arrays is None:
            raise ValueError("Tensor data is null. Run allocate_tensors() first")
        return contents

    def get_tensor(self, tensor_index: int, subgraph_index: int = 0) -> Any:
        """A copy of an input or output."""
        return self._contents(tensor_index).copy()

    def tensor(self, tensor_index: int) -> Callable[[], Any]:
        """A function that gives the array of an input, to be written to, or of an output of the latest run."""
        return lambda: self._contents(tensor_index)

    def invoke(self) -> None:
        """Run once. RuntimeError before allocate_tensors(), and where the run fails."""
        self._main.run()

    def reset_all_variables(self) -> None:
        """Set the variables back to their initial values."""
        self._main.session.reset_state()

    def num_subgraphs(self) -> int:
        """Number of graphs."""
        return len(self._model.inspect()["graphs"])

    def get_signature_list(self) -> dict[str, dict[str, list[str]]]:
        """Names of inputs and outputs by signature; empty without signatures."""
        return {
            method: {
                "inputs": list(signature_names(self._model, method, self._state_of(method).inputs)),
                "outputs": list(signature_names(self._model, method, self._state_of(method).outputs)),
            }
            for method in self._model.methods
            if f"signature {method}" in self._model.metadata
        }

    def get_signature_runner(self, signature_key: str | None = None) -> SignatureRunner:
        """A runner of a signature; None: of the only one."""
        if signature_key is None:
            if len(self._model.methods) != 1:
                raise ValueError("SignatureDef signature_key is None and model has several Signatures")
            signature_key = self._model.methods[0]
        if signature_key not in self._model.methods:
            raise ValueError(f'Invalid signature_key provided: "{signature_key}".')
        return SignatureRunner(self, signature_key)
