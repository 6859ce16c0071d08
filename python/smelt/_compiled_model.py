"""LiteRT's CompiledModel on smelt; part of `smelt.litert`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from enum import Flag
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from . import errors
from ._info import TensorInfo
from ._model import Model, load

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

Array = npt.NDArray[Any]


class HardwareAccelerator(Flag):
    """Where a CompiledModel runs. GPU: on the first Vulkan device; GPU | CPU: on the CPU if there is none."""

    CPU = 1
    GPU = 2
    NPU = 4


class TensorBuffer:
    """Elements of an input or output in the host's memory."""

    def __init__(self, array: Array) -> None:
        self._array: Array | None = array

    @property
    def _contents(self) -> Array:
        if self._array is None:
            raise RuntimeError("TensorBuffer has been destroyed")
        return self._array

    @classmethod
    def create_from_host_memory(cls, data_array: Array) -> TensorBuffer:
        """A buffer over an array's memory, which it keeps alive. ValueError unless the array is C-contiguous."""
        if not isinstance(data_array, np.ndarray):
            raise ValueError("data_array must be a NumPy array")
        if not data_array.flags.c_contiguous:
            raise ValueError("data_array must be C-contiguous for zero-copy host-memory binding")
        return cls(data_array)

    def write(self, data_array: Array) -> None:
        """Copy an array's elements, in C order, to the beginning of the buffer; both are of one type."""
        if not isinstance(data_array, np.ndarray):
            raise ValueError("data_array must be a NumPy array")
        flat = self._contents.reshape(-1)
        if data_array.dtype != flat.dtype:
            raise RuntimeError(f"the source has elements of {data_array.dtype}, the tensor buffer of {flat.dtype}")
        if data_array.size > flat.size:
            raise RuntimeError(
                f"the source buffer is larger than the tensor buffer: {data_array.size} elements, at most {flat.size}"
            )
        flat[: data_array.size] = data_array.reshape(-1)

    def read(self, num_elements: int, output_dtype: npt.DTypeLike) -> Array:
        """A copy of the first elements, one-dimensional."""
        flat = self._contents.reshape(-1)
        if np.dtype(output_dtype) != flat.dtype:
            raise RuntimeError(f"the tensor buffer has elements of {flat.dtype}, not of {np.dtype(output_dtype)}")
        if num_elements > flat.size:
            raise RuntimeError(
                f"the destination buffer is larger than the tensor buffer: {num_elements} elements, at most {flat.size}"
            )
        return flat[:num_elements].copy()

    def get_tensor_details(self) -> dict[str, Any]:
        """`dtype`, a name, and `shape`."""
        return {"dtype": self._contents.dtype.name, "shape": list(self._contents.shape)}

    def destroy(self) -> None:
        """Give up the memory; the buffer can't be used afterwards."""
        self._array = None


def signature_names(model: Model, method: str, infos: Sequence[TensorInfo]) -> dict[str, int]:
    """Position of each input or output by the name that the method's signature has for it, sorted by that name."""
    tensors = {info.name: i for i, info in enumerate(infos)}
    lines = model.metadata.get(f"signature {method}", "").split("\n")
    names = {
        name: tensors[tensor] for name, _, tensor in (line.partition(" = ") for line in lines) if tensor in tensors
    }
    return dict(sorted((names or tensors).items()))


class _Signature:
    """A signature's session, and the shapes and names of its tensors in the signature's order."""

    def __init__(self, model: Model, key: str, threads: int, backend: str) -> None:
        self.session = model.session(method=key, threads=threads, backend=backend)  # type: ignore[arg-type]
        loaded = model._loaded
        self.inputs = signature_names(model, key, self.session.inputs)
        self.outputs = signature_names(model, key, self.session.outputs)
        self.input_ids = loaded.value_ids(key, False)
        self.output_ids = loaded.value_ids(key, True)
        self.shapes = [tuple(1 if d is None else d for d in info.shape or ()) for info in self.session.inputs]

    def output_shapes(self) -> list[tuple[int, ...]]:
        zeros = [np.zeros(s, i.numpy_dtype) for s, i in zip(self.shapes, self.session.inputs, strict=True)]
        planned = self.session.prepare(*zeros)
        shapes = [tuple(shape or ()) for _, shape in planned]
        return [tuple(1 if d is None else d for d in shape) for shape in shapes]

    def run(self, inputs: Sequence[TensorBuffer], outputs: Sequence[TensorBuffer]) -> None:
        arrays: list[Any] = [None] * len(inputs)
        for buffer, position in zip(inputs, self.inputs.values(), strict=True):
            arrays[position] = buffer._contents.reshape(self.shapes[position])
        results = self.session.run(*arrays)
        for buffer, position in zip(outputs, self.outputs.values(), strict=True):
            buffer.write(results[position])


class CompiledModel:
    """A model and its signatures; made by `from_file` and `from_buffer`. RuntimeError for what can't be done."""

    def __init__(self, model: Model, threads: int, backend: str) -> None:
        self._model: Model | None = model
        self._threads, self._backend = threads, backend
        self._signatures: dict[str, _Signature] = {}

    @classmethod
    def from_file(
        cls,
        model_path: str | os.PathLike[str],
        hardware_accel: HardwareAccelerator = HardwareAccelerator.CPU,
        *,
        num_threads: int = 1,
    ) -> CompiledModel:
        """A model of a file."""
        return cls._of(os.fspath(model_path), hardware_accel, num_threads)

    @classmethod
    def from_buffer(
        cls,
        model_data: bytes,
        hardware_accel: HardwareAccelerator = HardwareAccelerator.CPU,
        *,
        num_threads: int = 1,
    ) -> CompiledModel:
        """A model of a file's bytes."""
        return cls._of(model_data, hardware_accel, num_threads)

    @classmethod
    def _of(cls, source: str | bytes, hardware_accel: HardwareAccelerator, threads: int) -> CompiledModel:
        try:
            model = load(source)
            if HardwareAccelerator.GPU not in hardware_accel:
                return cls(model, threads, "cpu")
            try:
                model.session(backend="vulkan").close()
            except errors.DeviceError:
                if HardwareAccelerator.CPU not in hardware_accel:
                    raise
                return cls(model, threads, "cpu")
            return cls(model, threads, "vulkan")
        except errors.Error as e:
            raise RuntimeError(str(e)) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Give up the model; it can't be used afterwards."""
        self._model = None
        self._signatures.clear()

    @property
    def _open(self) -> Model:
        if self._model is None:
            raise RuntimeError("the CompiledModel is closed")
        return self._model

    def _signature(self, key: str) -> _Signature:
        model = self._open
        if key not in model.methods:
            raise RuntimeError(f"Signature not found: {key}, one of {', '.join(model.methods)} expected")
        if key not in self._signatures:
            try:
                self._signatures[key] = _Signature(model, key, self._threads, self._backend)
            except errors.Error as e:
                raise RuntimeError(str(e)) from None
        return self._signatures[key]

    def _key(self, index: int) -> str:
        methods = self._open.methods
        if not 0 <= index < len(methods):
            raise RuntimeError(f"no signature {index}: the model has {len(methods)}")
        return methods[index]

    def get_signature_list(self) -> dict[str, dict[str, list[str]]]:
        """Names of inputs and outputs by signature."""
        signatures = {key: self._signature(key) for key in self._open.methods}
        return {key: {"inputs": list(s.inputs), "outputs": list(s.outputs)} for key, s in signatures.items()}

    def get_signature_by_index(self, index: int) -> dict[str, Any]:
        """`key`, `inputs` and `outputs` of a signature."""
        signature = self._signature(self._key(index))
        return {"key": self._key(index), "inputs": list(signature.inputs), "outputs": list(signature.outputs)}

    def get_num_signatures(self) -> int:
        """Number of signatures."""
        return len(self._open.methods)

    def get_signature_index(self, key: str) -> int:
        """The index of a signature; -1 if there is none of this name."""
        methods = list(self._open.methods)
        return methods.index(key) if key in methods else -1

    def get_input_tensor_details(self, signature_key: str) -> dict[str, dict[str, Any]]:
        """`name`, `index`, `dtype` and `shape` of the inputs by their names in the signature."""
        s = self._signature(signature_key)
        return _details(s.inputs, s.session.inputs, s.input_ids, s.shapes)

    def get_output_tensor_details(self, signature_key: str) -> dict[str, dict[str, Any]]:
        """`name`, `index`, `dtype` and `shape` of the outputs by their names in the signature."""
        s = self._signature(signature_key)
        return _details(s.outputs, s.session.outputs, s.output_ids, s.output_shapes())

    def get_input_buffer_requirements(self, input_index: int, signature_index: int = 0) -> dict[str, Any]:
        """`buffer_size` in bytes, and `supported_types`: [1], host memory."""
        return _requirements(_at(self.create_input_buffers(signature_index), input_index, "input"))

    def get_output_buffer_requirements(self, output_index: int, signature_index: int = 0) -> dict[str, Any]:
        """`buffer_size` in bytes, and `supported_types`: [1], host memory."""
        return _requirements(_at(self.create_output_buffers(signature_index), output_index, "output"))

    def is_fully_accelerated(self) -> bool:
        """True if every node runs on a GPU."""
        if self._backend == "cpu":
            return False
        graphs = self._open.inspect(backend="vulkan", optimised=True)["graphs"]
        return all("device" in g and g["device"]["nodes"] == len(g["nodes"]) for g in graphs)

    def create_input_buffers(self, signature_index: int) -> list[TensorBuffer]:
        """Zeroed buffers for all inputs, in the signature's order."""
        s = self._signature(self._key(signature_index))
        return [TensorBuffer(np.zeros(s.shapes[i], s.session.inputs[i].numpy_dtype)) for i in s.inputs.values()]

    def create_output_buffers(self, signature_index: int) -> list[TensorBuffer]:
        """Zeroed buffers for all outputs, in the signature's order."""
        s = self._signature(self._key(signature_index))
        shapes = s.output_shapes()
        return [TensorBuffer(np.zeros(shapes[i], s.session.outputs[i].numpy_dtype)) for i in s.outputs.values()]

    def create_input_buffer_by_name(self, signature_key: str, input_name: str) -> TensorBuffer:
        """A zeroed buffer for an input."""
        at = _named(self._signature(signature_key).inputs, input_name, "input")
        return self.create_input_buffers(self.get_signature_index(signature_key))[at]

    def create_output_buffer_by_name(self, signature_key: str, output_name: str) -> TensorBuffer:
        """A zeroed buffer for an output."""
        at = _named(self._signature(signature_key).outputs, output_name, "output")
        return self.create_output_buffers(self.get_signature_index(signature_key))[at]

    def resize_input_tensor(
        self, input_index: int, dims: Sequence[int], signature_index: int = 0, strict: bool = True
    ) -> None:
        """Change an input's shape. strict: only dimensions that the model leaves open. Buffers are to be made anew."""
        s = self._signature(self._key(signature_index))
        position = _at(list(s.inputs.values()), input_index, "input")
        declared, shape = s.session.inputs[position].shape or (), tuple(int(d) for d in dims)
        same_rank = len(declared) == len(shape)
        if not same_rank or (strict and any(d not in (None, n) for d, n in zip(declared, shape, strict=True))):
            raise RuntimeError(f"input {input_index} can't change from {list(declared)} to {list(shape)}")
        s.shapes[position] = shape

    def resize_input_tensor_by_name(
        self, signature_key: str, input_name: str, dims: Sequence[int], strict: bool = True
    ) -> None:
        """Change the shape of an input of this name."""
        at = _named(self._signature(signature_key).inputs, input_name, "input")
        self.resize_input_tensor(at, dims, self.get_signature_index(signature_key), strict)

    def run_by_name(
        self, signature_key: str, input_map: Mapping[str, TensorBuffer], output_map: Mapping[str, TensorBuffer]
    ) -> None:
        """Run a signature once on buffers by name."""
        s = self._signature(signature_key)
        for kind, names, given in (("input", s.inputs, input_map), ("output", s.outputs, output_map)):
            if set(names) != set(given):
                raise RuntimeError(f"buffers of {kind}s {sorted(given)}, expected {sorted(names)}")
        self._run(s, [input_map[n] for n in s.inputs], [output_map[n] for n in s.outputs])

    def run_by_index(
        self, signature_index: int, input_buffers: Sequence[TensorBuffer], output_buffers: Sequence[TensorBuffer]
    ) -> None:
        """Run a signature once on buffers in its order."""
        s = self._signature(self._key(signature_index))
        for kind, names, given in (("input", s.inputs, input_buffers), ("output", s.outputs, output_buffers)):
            if len(names) != len(given):
                raise RuntimeError(f"{len(given)} {kind} buffers, {len(names)} expected")
        self._run(s, input_buffers, output_buffers)

    @staticmethod
    def _run(s: _Signature, inputs: Sequence[TensorBuffer], outputs: Sequence[TensorBuffer]) -> None:
        try:
            s.run(inputs, outputs)
        except (errors.Error, ValueError) as e:
            raise RuntimeError(str(e)) from None


def _details(
    names: Mapping[str, int], infos: Sequence[TensorInfo], ids: Sequence[int], shapes: Sequence[tuple[int, ...]]
) -> dict[str, dict[str, Any]]:
    return {
        name: {"name": infos[i].name, "index": ids[i], "dtype": infos[i].dtype, "shape": list(shapes[i])}
        for name, i in names.items()
    }


def _requirements(buffer: TensorBuffer) -> dict[str, Any]:
    return {"buffer_size": buffer._contents.nbytes, "supported_types": [1]}


def _at(list_: list[Any], index: int, kind: str) -> Any:
    if not 0 <= index < len(list_):
        raise RuntimeError(f"no {kind} {index}: the signature has {len(list_)}")
    return list_[index]


def _named(names: Mapping[str, int], name: str, kind: str) -> int:
    if name not in names:
        raise RuntimeError(f"no {kind} {name!r}, one of {', '.join(names)} expected")
    return list(names).index(name)
