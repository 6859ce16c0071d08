"""smelt runs on-device neural-network models of every common format: TFLite, ONNX, ExecuTorch, XNNPACK, Vulkan.

    import smelt

    model = smelt.load("model.onnx")        # recognised by content
    model.inputs                            # names, element types, shapes, quantization
    (scores,) = model(image)                # arrays by position: a tuple
    scores = model(input=image)["scores"]   # by name: a dict

Inputs are anything with DLPack, the buffer protocol or `__array__`; a C-contiguous array of the model's element type is
read where it lies. Outputs are new numpy arrays. For threads, other back-ends, limits and variables of its own make a
session: `model.session(threads=4)`. Every exception is a `smelt.Error` that says what is wrong and where.

smelt.onnxruntime, smelt.litert and smelt.executorch have the interfaces of those packages; smelt.onnx_backend is an
`onnx.backend`.
"""

from . import errors
from ._engine import __version__
from ._info import Description, Profile, Quantization, SetResult, TensorInfo
from ._model import CustomOperator, Method, Model, OperandType, Session, load, verify_bundle
from .errors import (
    CancelledError,
    DeviceError,
    Error,
    FileError,
    InternalError,
    InvalidInputError,
    InvalidModelError,
    LimitError,
    UnsupportedError,
)

__all__ = [
    "CancelledError",
    "CustomOperator",
    "Description",
    "DeviceError",
    "Error",
    "FileError",
    "InternalError",
    "InvalidInputError",
    "InvalidModelError",
    "LimitError",
    "Method",
    "Model",
    "OperandType",
    "Profile",
    "Quantization",
    "Session",
    "SetResult",
    "TensorInfo",
    "UnsupportedError",
    "__version__",
    "errors",
    "load",
    "verify_bundle",
]
