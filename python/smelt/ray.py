"""Batches of Ray Data on smelt.

dataset.map_batches(
    smelt.ray.Predictor,
    fn_constructor_kwargs={"model": "model.tflite", "columns": {"image": "input"}},
    compute=ray.data.ActorPoolStrategy(size=2), num_cpus=1, batch_format="numpy",
)
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from ._model import load
from .errors import CancelledError, Error

__all__ = ["Predictor"]


def _cpus() -> int:
    """The CPUs that Ray lent to this actor; 1 outside of one."""
    ray = sys.modules.get("ray")  # an actor has imported it
    if ray is None or not ray.is_initialized():
        return 1
    return max(1, int(ray.get_runtime_context().get_assigned_resources().get("CPU", 1)))


class Predictor:
    """Runs a model on each row of numpy batches; for `map_batches` with an ActorPoolStrategy.

    model: a path, which every node of the cluster can read: actors of a node share one mapped copy of the file.
    columns: inputs by column; the other columns are kept. Default: the first input from the column of its name.
    threads: number of compute threads; default: the actor's num_cpus.
    error_column: where the text of a bad row's error goes, "" for a good row's. Its outputs are zeros. None: a bad row
    raises.
    options: more of `smelt.Model.session`.

    A row runs by itself, so that results do not depend on how rows are batched; an input's first dimension, when it is
    1 and the column's rows lack it, is added. Outputs are columns of their names without a first dimension of 1.
    """

    def __init__(
        self,
        model: str | os.PathLike[str],
        columns: Mapping[str, str] | None = None,
        *,
        threads: int | None = None,
        error_column: str | None = "error",
        **options: Any,
    ) -> None:
        self._session = load(model).session(threads=threads or _cpus(), **options)
        self._inputs = {info.name: info for info in self._session.inputs}
        first = next(iter(self._inputs))
        self._columns = dict(columns or {first: first})
        self._error_column = error_column

    def _row(self, batch: Mapping[str, np.ndarray[Any, Any]], i: int) -> dict[str, Any]:
        named = {}
        for column, name in self._columns.items():
            value = batch[column][i]
            if isinstance(value, np.ndarray) and value.dtype == object:
                value = np.stack([np.asarray(v) for v in value])
            shape = self._inputs[name].shape if name in self._inputs else None
            if shape is not None and np.ndim(value) == len(shape) - 1 and shape[0] in (1, None):
                value = np.asarray(value)[None]
            named[name] = value
        outputs: dict[str, Any] = self._session.run(**named)
        return {n: v[0] if np.ndim(v) > 0 and len(v) == 1 else v for n, v in outputs.items()}

    def __call__(self, batch: dict[str, np.ndarray[Any, Any]]) -> dict[str, Any]:
        """The batch with a column for each output, and one for the errors."""
        count = len(next(iter(batch.values()))) if batch else 0
        rows: list[dict[str, Any] | None] = []
        errors = []
        for i in range(count):
            try:
                rows.append(self._row(batch, i))
                errors.append("")
            except CancelledError:
                raise
            except (Error, ValueError) as e:
                if self._error_column is None:
                    raise
                rows.append(None)
                errors.append(str(e))
        out: dict[str, Any] = dict(batch)
        for info in self._session.outputs:
            good = next((row[info.name] for row in rows if row is not None), self._zeros(info.shape, info.numpy_dtype))
            values = [np.zeros_like(good) if row is None else row[info.name] for row in rows]
            alike = all(v.shape == values[0].shape for v in values)
            if alike:
                out[info.name] = np.stack(values) if values else np.empty((0, *good.shape), good.dtype)
            else:
                out[info.name] = np.empty(count, object)
                out[info.name][:] = values
        if self._error_column is not None:
            out[self._error_column] = np.array(errors, dtype=object)
        return out

    @staticmethod
    def _zeros(shape: tuple[int | None, ...] | None, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        dims = [1 if d is None else d for d in shape or ()]
        return np.zeros(dims[1:] if dims and dims[0] == 1 else dims, dtype)
