"""smelt as a backend of the package onnx: `smelt.onnx_backend.prepare(model).run(inputs)`.

The module has the functions of `onnx.backend.base.Backend`, so ONNX's own runner takes it:

    onnx.backend.test.BackendTest(smelt.onnx_backend, __name__)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep, Device, DeviceType

from ._model import Model, Session, load
from .errors import InvalidInputError

__all__ = ["SmeltBackend", "SmeltRep", "is_compatible", "prepare", "run_model", "run_node", "supports_device"]


class SmeltRep(BackendRep):
    """A model made ready to run."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Outputs for inputs in the model's order: arrays, lists for sequences, None for absent optionals."""
        if kwargs:
            raise InvalidInputError(f"no option '{next(iter(kwargs))}'")
        if isinstance(inputs, np.ndarray):
            inputs = (inputs,)
        outputs: tuple[Any, ...] = self._session.run(*inputs)
        return outputs


class SmeltBackend(Backend):
    """The functions of onnx.backend.base.Backend on smelt. Keyword arguments are options of `smelt.Model.session`."""

    @classmethod
    def _load(cls, model: onnx.ModelProto | str | bytes) -> Model:
        return load(model.SerializeToString() if isinstance(model, onnx.ModelProto) else model)

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """True if the model loads."""
        try:
            cls._load(model)
        except NotImplementedError:
            return False
        return cls.supports_device(device)

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> SmeltRep:
        """Load a model (a ModelProto, its bytes or a path); raises smelt.Error if it can't be."""
        if not cls.supports_device(device):
            raise InvalidInputError(f"no device '{device}', CPU expected")
        return SmeltRep(cls._load(model).session(**kwargs))

    @classmethod
    def run_model(cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        """`prepare` and one run."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype[Any], tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Run one node. `opset_version` chooses the operator set, the newest that smelt and onnx know by default."""
        opset = int(kwargs.pop("opset_version", min(onnx.defs.onnx_opset_version(), 28)))
        arrays = [np.asarray(x) for x in inputs]
        names = [name for name in node.input if name]
        helper = onnx.helper
        graph = helper.make_graph(
            [node],
            "node",
            [
                helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
                for name, a in zip(names, arrays, strict=True)
            ],
            [helper.make_empty_tensor_value_info(name) for name in node.output if name],
        )
        domain = helper.make_opsetid(node.domain, opset if not node.domain else 1)
        opsets = [domain] if not node.domain else [helper.make_opsetid("", opset), domain]
        return cls.run_model(helper.make_model(graph, opset_imports=opsets), arrays, device, **kwargs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """True for "CPU"."""
        try:
            return bool(Device(device).type == DeviceType.CPU)
        except (AttributeError, ValueError):
            return False


is_compatible = SmeltBackend.is_compatible
prepare = SmeltBackend.prepare
run_model = SmeltBackend.run_model
run_node = SmeltBackend.run_node
supports_device = SmeltBackend.supports_device
