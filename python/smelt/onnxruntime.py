"""The Python interface of ONNX Runtime on smelt: `import smelt.onnxruntime as ort`.

Models of every format of smelt load, not only ONNX. The CPU runs them; `VulkanExecutionProvider` names the Vulkan
back-end. Options that only steer ONNX Runtime's own optimizer and allocator are taken and have no effect.
docs/python.md lists the differences.
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from . import errors
from ._arrays import dtype_name, numpy_dtype
from ._model import Backend, Session, load

if TYPE_CHECKING:
    from ._info import TensorInfo

_PROVIDERS: dict[str, Backend] = {"VulkanExecutionProvider": "vulkan", "CPUExecutionProvider": "cpu"}
_ONNX_NAMES = {"float32": "float", "float64": "double"}
# By number of onnx.TensorProto.DataType.
# fmt: off
_ONNX_TYPES = [
    "", "float32", "uint8", "int8", "uint16", "int16", "int32", "int64", "string", "bool", "float16", "float64",
    "uint32", "uint64", "complex64", "complex128", "bfloat16", "float8e4m3fn", "float8e4m3fnuz", "float8e5m2",
    "float8e5m2fnuz", "uint4", "int4", "float4e2m1",
]
# fmt: on


class OrtException(errors.Error):
    """Base class of the exceptions of this module that ONNX Runtime has classes for."""


class Fail(OrtException):
    """A run or load failed."""


class InvalidArgument(OrtException):
    """An input, output name or option does not fit the model."""


class NoSuchFile(OrtException):
    """A model's file could not be opened."""


class InvalidGraph(OrtException):
    """A model's bytes violate its format; ONNX Runtime has InvalidProtobuf besides, which is this."""


class NotImplemented(OrtException):
    """A model needs what this build lacks."""


InvalidProtobuf = InvalidGraph

_EXCEPTIONS: dict[type[errors.Error], type[OrtException]] = {
    errors.InvalidInputError: InvalidArgument,
    errors.InvalidModelError: InvalidGraph,
    errors.UnsupportedError: NotImplemented,
    errors.FileError: NoSuchFile,
}


def _translated(error: errors.Error) -> OrtException:
    return _EXCEPTIONS.get(type(error), Fail)(str(error))


class GraphOptimizationLevel(IntEnum):
    """Taken and without effect: smelt always optimises."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(Enum):
    """Taken and without effect."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class SessionOptions:
    """Options of a session. Threads, profiling and deterministic compute have an effect, the others are kept."""

    def __init__(self) -> None:
        self.intra_op_num_threads = 0
        self.inter_op_num_threads = 0
        self.enable_profiling = False
        self.profile_file_prefix = "onnxruntime_profile_"
        self.graph_optimization_level = GraphOptimizationLevel.ORT_ENABLE_ALL
        self.execution_mode = ExecutionMode.ORT_SEQUENTIAL
        self.enable_cpu_mem_arena = self.enable_mem_pattern = self.enable_mem_reuse = True
        self.log_severity_level = 2
        self.log_verbosity_level = 0
        self.logid = ""
        self.optimized_model_filepath = ""
        self.use_deterministic_compute = False
        self._config: dict[str, str] = {}

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Keep an entry; none has an effect."""
        self._config[key] = value

    def get_session_config_entry(self, key: str) -> str:
        """The value that was kept; RuntimeError for an unknown key."""
        if key not in self._config:
            raise RuntimeError(f"SessionOptions does not have configuration with key: {key}")
        return self._config[key]


class RunOptions:
    """Options of a run; setting `terminate` in another thread stops it."""

    def __init__(self) -> None:
        self.log_severity_level = 2
        self.log_verbosity_level = 0
        self.logid = ""
        self.only_execute_path_to_fetches = False
        self._config: dict[str, str] = {}
        self._terminate = False
        self._running: Session | None = None

    @property
    def terminate(self) -> bool:
        """True once the run is to stop; later runs with these options fail until it is False again."""
        return self._terminate

    @terminate.setter
    def terminate(self, value: bool) -> None:
        self._terminate = value
        if value and self._running is not None:
            self._running.cancel()

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Keep an entry; none has an effect."""
        self._config[key] = value

    def get_run_config_entry(self, key: str) -> str:
        """The value that was kept; RuntimeError for an unknown key."""
        if key not in self._config:
            raise RuntimeError(f"RunOptions does not have configuration with key: {key}")
        return self._config[key]


class NodeArg:
    """Name, type and shape of an input or output."""

    def __init__(self, info: TensorInfo) -> None:
        self.name = info.name
        self.type = _onnx_type(info.dtype) if info.dtype else info.type.replace("sequence", "seq")
        names = info.dim_names or ("",) * len(info.shape or ())
        self.shape = [d if d is not None else n or None for d, n in zip(info.shape or (), names, strict=False)]

    def __repr__(self) -> str:
        return f"NodeArg(name='{self.name}', type='{self.type}', shape={self.shape})"


class ModelMetadata:
    """What a model's file says of itself."""

    def __init__(self, session: InferenceSession) -> None:
        model = session._model
        self.producer_name = model.producer.strip()
        self.graph_name = str(model.inspect()["graphs"][0]["name"])
        self.domain = self.description = self.graph_description = ""
        self.version = 0
        self.custom_metadata_map = {
            k: v for k, v in model.metadata.items() if k != "ir_version" and not k.startswith("opset ")
        }


def _onnx_type(dtype: str) -> str:
    return f"tensor({_ONNX_NAMES.get(dtype, dtype)})"


class OrtValue:
    """An array on the CPU."""

    def __init__(self, value: Any) -> None:
        self._value = value

    @classmethod
    def ortvalue_from_numpy(
        cls, numpy_obj: np.ndarray[Any, Any], device_type: str = "cpu", device_id: int = 0
    ) -> OrtValue:
        """A value that views the array."""
        _check_cpu(device_type)
        if not isinstance(numpy_obj, np.ndarray):
            raise TypeError(f"numpy_obj is a {type(numpy_obj).__name__}, numpy.ndarray expected")
        return cls(numpy_obj)

    @classmethod
    def ortvalue_from_shape_and_type(
        cls, shape: Sequence[int], element_type: Any, device_type: str = "cpu", device_id: int = 0
    ) -> OrtValue:
        """A value of a numpy type or a number of onnx.TensorProto's, filled with zeros."""
        _check_cpu(device_type)
        dtype = numpy_dtype(_ONNX_TYPES[element_type]) if isinstance(element_type, int) else np.dtype(element_type)
        return cls(np.zeros(shape, dtype))

    def numpy(self) -> np.ndarray[Any, Any]:
        """The array."""
        array: np.ndarray[Any, Any] = self._value
        return array

    def is_tensor(self) -> bool:
        """True unless the value is a sequence or absent."""
        return isinstance(self._value, np.ndarray)

    def is_tensor_sequence(self) -> bool:
        """True for a list of arrays."""
        return isinstance(self._value, list)

    def is_sparse_tensor(self) -> bool:
        """False."""
        return False

    def has_value(self) -> bool:
        """False for an absent optional."""
        return self._value is not None

    def shape(self) -> list[int]:
        """The dimensions."""
        return list(self._value.shape)

    def data_type(self) -> str:
        """ "tensor(float)", ..."""
        return _onnx_type(dtype_name(self._value.dtype) or "string")

    def element_type(self) -> int:
        """The number of onnx.TensorProto.DataType."""
        return _ONNX_TYPES.index(dtype_name(self._value.dtype) or "string")

    def device_name(self) -> str:
        """ "cpu"."""
        return "cpu"

    def data_ptr(self) -> int:
        """The address of the array's memory."""
        return int(self._value.ctypes.data)

    def tensor_size_in_bytes(self) -> int:
        """Bytes of the array."""
        return int(self._value.nbytes)

    def update_inplace(self, np_arr: np.ndarray[Any, Any]) -> None:
        """Copy an array of equal type and shape into this one."""
        if np_arr.shape != self._value.shape or np_arr.dtype != self._value.dtype:
            raise RuntimeError("the array's type or shape is not the value's")
        self._value[...] = np_arr


def _check_cpu(device: str) -> None:
    if device != "cpu":
        raise RuntimeError(f"Unsupported device: {device}")


class IOBinding:
    """Inputs and outputs that belong to runs of a session."""

    def __init__(self, session: InferenceSession) -> None:
        self._session = session
        self._inputs: dict[str, Any] = {}
        self._outputs: dict[str, Any] = {}  # by name: an array to write into, or None for a new one
        self._results: list[OrtValue] = []

    def bind_cpu_input(self, name: str, arr_on_cpu: Any) -> None:
        """Give an array for an input."""
        self._session._check_name("input", name, self._session._input_names)
        self._inputs[name] = arr_on_cpu

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Give a value for an input."""
        self.bind_cpu_input(name, ortvalue.numpy())

    def bind_output(self, name: str, device_type: str = "cpu", *_: Any, **__: Any) -> None:
        """Ask for an output as a new array."""
        _check_cpu(device_type)
        self._session._check_name("output", name, self._session._output_names)
        self._outputs[name] = None

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Ask for an output in the memory of a value."""
        self.bind_output(name)
        self._outputs[name] = ortvalue.numpy()

    def synchronize_inputs(self) -> None:
        """Do nothing: inputs are in memory."""

    def synchronize_outputs(self) -> None:
        """Do nothing: outputs are in memory."""

    def clear_binding_inputs(self) -> None:
        """Forget the inputs."""
        self._inputs = {}

    def clear_binding_outputs(self) -> None:
        """Forget the outputs."""
        self._outputs, self._results = {}, []

    def get_outputs(self) -> list[OrtValue]:
        """Outputs of the last run in the order of their binding."""
        return self._results

    def copy_outputs_to_cpu(self) -> list[Any]:
        """Outputs of the last run as arrays."""
        return [value.numpy() for value in self._results]


class InferenceSession:
    """A model ready to run.

    path_or_bytes: a path or the file's bytes. providers: "CPUExecutionProvider" or "VulkanExecutionProvider", the first
    that is known counts; names that are not known are left out with a warning. Other keyword arguments have no effect.
    """

    def __init__(
        self,
        path_or_bytes: str | bytes | os.PathLike[str],
        sess_options: SessionOptions | None = None,
        providers: Sequence[str | tuple[str, dict[Any, Any]]] | None = None,
        provider_options: Sequence[dict[Any, Any]] | None = None,
        **kwargs: Any,
    ) -> None:
        if not isinstance(path_or_bytes, (str, bytes, os.PathLike)):
            raise TypeError(f"Unable to load from type '{type(path_or_bytes)}'")
        self._options = sess_options or SessionOptions()
        names = [p if isinstance(p, str) else p[0] for p in providers or ["CPUExecutionProvider"]]
        if unknown := [n for n in names if n not in _PROVIDERS]:
            warnings.warn(f"smelt has no provider {', '.join(unknown)}; it has: {', '.join(_PROVIDERS)}", stacklevel=2)
        self._providers = [n for n in names if n in _PROVIDERS]
        if "CPUExecutionProvider" not in self._providers:
            self._providers.append("CPUExecutionProvider")
        try:
            self._model = load(path_or_bytes)
            self._session = self._model.session(
                threads=min(self._options.intra_op_num_threads or len(os.sched_getaffinity(0)), 256),
                backend=_PROVIDERS[self._providers[0]],
                profile=self._options.enable_profiling,
                deterministic=bool(self._options.use_deterministic_compute),
            )
        except errors.Error as e:
            raise _translated(e) from None
        self._inputs, self._outputs = self._session.inputs, self._session.outputs
        self._input_names = [p.name for p in self._inputs]
        self._output_names = [p.name for p in self._outputs]
        self._required = {p.name for p in self._inputs if not p.optional}
        self._started = time.time_ns()

    def get_inputs(self) -> list[NodeArg]:
        """Inputs that have no default."""
        return [NodeArg(p) for p in self._inputs if p.name in self._required or not p.dtype]

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Inputs that have a default."""
        return [NodeArg(p) for p in self._inputs if p.optional and p.dtype]

    def get_outputs(self) -> list[NodeArg]:
        """Outputs in the model's order."""
        return [NodeArg(p) for p in self._outputs]

    def get_modelmeta(self) -> ModelMetadata:
        """What the model's file says of itself."""
        return ModelMetadata(self)

    def get_providers(self) -> list[str]:
        """Providers of this session, the one that runs first."""
        return list(self._providers)

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """Empty options by provider."""
        return {name: {} for name in self._providers}

    def get_session_options(self) -> SessionOptions:
        """The options that the session was made with."""
        return self._options

    @staticmethod
    def _check_name(kind: str, name: str, known: list[str]) -> None:
        if name not in known:
            raise InvalidArgument(f"Invalid {kind} name: {name}; the model has: {', '.join(known)}")

    def run(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], run_options: RunOptions | None = None
    ) -> list[Any]:
        """Run once; the outputs named, all of them for None or an empty list.

        Raises ValueError where inputs are missing, InvalidArgument where they don't fit the model.
        """
        if not self._required <= input_feed.keys():
            raise ValueError(
                f"Required inputs ({sorted(self._required - input_feed.keys())}) are missing from input feed "
                f"({list(input_feed)})."
            )
        for name in output_names or ():
            self._check_name("output", name, self._output_names)
        if run_options is not None:
            if run_options.terminate:
                raise Fail("Exiting due to terminate flag being set to true.")
            run_options._running = self._session
        feed = {n: v._value if isinstance(v, OrtValue) else v for n, v in input_feed.items()}
        try:
            outputs = self._session.run(**feed) if feed else self._session.run()
        except errors.Error as e:
            raise _translated(e) from None
        finally:
            if run_options is not None:
                run_options._running = None
        if not feed:
            outputs = dict(zip(self._output_names, outputs, strict=True))
        return [outputs[n] for n in output_names] if output_names else list(outputs.values())

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        callback: Callable[[list[Any], Any, str], None],
        user_data: Any,
        run_options: RunOptions | None = None,
    ) -> None:
        """Run on another thread, which calls `callback(outputs, user_data, error)`; error is "" if all went well."""

        def work() -> None:
            try:
                results, error = self.run(output_names, input_feed, run_options), ""
            except Exception as e:
                results, error = [], str(e)
            callback(results, user_data, error)

        threading.Thread(target=work, daemon=True).start()

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict_ort_values: Mapping[str, OrtValue],
        run_options: RunOptions | None = None,
    ) -> list[OrtValue]:
        """Like `run`, on values."""
        return [OrtValue(v) for v in self.run(output_names, input_dict_ort_values, run_options)]

    def io_binding(self) -> IOBinding:
        """A binding of this session."""
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: RunOptions | None = None) -> None:
        """Run with the inputs and outputs of a binding."""
        names = list(iobinding._outputs)
        results = self.run(names, iobinding._inputs, run_options)
        for i, (name, target) in enumerate(iobinding._outputs.items()):
            if target is None:
                continue
            if target.shape != results[i].shape or target.dtype != results[i].dtype:
                raise InvalidArgument(
                    f"output '{name}' is {results[i].dtype}{list(results[i].shape)}, the value bound is not"
                )
            target[...] = results[i]
            results[i] = target
        iobinding._results = [OrtValue(v) for v in results]

    def end_profiling(self) -> str:
        """Write the time of each operator as JSON and return the file's path; "" without profiling."""
        if not self._options.enable_profiling:
            return ""
        stamp = time.strftime("%Y-%m-%d_%H-%M-%S")
        with tempfile.NamedTemporaryFile(
            "w", dir=".", prefix=f"{self._options.profile_file_prefix}{stamp}_", suffix=".json", delete=False
        ) as file:
            json.dump([dict(e, cat="Node", name=e["node"], dur=e["micros"]) for e in self._session.profile], file)
        return file.name

    def get_profiling_start_time_ns(self) -> int:
        """Time of the session's making in nanoseconds."""
        return self._started


def get_available_providers() -> list[str]:
    """Names of the providers; that the Vulkan one is named does not say that there is a device."""
    return list(_PROVIDERS)


get_all_providers = get_available_providers


def get_device() -> str:
    """ "CPU"."""
    return "CPU"
