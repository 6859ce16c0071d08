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
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from ._info import TensorInfo
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
        self._outputs = self._session.outputs
        first = next(iter(self._inputs))
        self._columns = dict(columns or {first: first})
        self._error_column = error_column

    def _rows_of(self, name: str, column: Any) -> tuple[Any, Callable[[Any], Any] | None]:
        """The column's rows, and what makes of one what input `name` takes, with the first dimension of 1 it may lack.

        None in its place: the rows are views that need no change.
        """
        shape = self._inputs[name].shape if name in self._inputs else None
        batched = shape is not None and shape[:1] in ((1,), (None,))
        rank = len(shape or ()) - 1  # of rows that lack it
        if isinstance(column, np.ndarray) and column.dtype != object:
            return column[:, None] if batched and column.ndim - 1 == rank else column, None

        def convert(value: Any) -> Any:
            if isinstance(value, np.ndarray) and value.dtype == object:
                value = np.stack([np.asarray(v) for v in value])
            return np.asarray(value)[None] if batched and np.ndim(value) == rank else value

        return column, convert

    def _call(self, batch: Mapping[str, Any]) -> tuple[Iterator[tuple[Any, ...]], Callable[..., tuple[Any, ...]]]:
        """The arguments of each row's run, and the run: by position where every input is a column of one type."""
        columns = {name: self._rows_of(name, batch[column]) for column, name in self._columns.items()}
        run = self._session.run
        if columns.keys() == self._inputs.keys() and not any(convert for _, convert in columns.values()):
            return zip(*(columns[name][0] for name in self._inputs), strict=True), run

        def run_named(*values: Any) -> tuple[Any, ...]:
            rows = zip(columns.items(), values, strict=True)
            return tuple(run(**{name: convert(v) if convert else v for (name, (_, convert)), v in rows}).values())

        return zip(*(rows for rows, _ in columns.values()), strict=True), run_named

    def __call__(self, batch: dict[str, np.ndarray[Any, Any]]) -> dict[str, Any]:
        """The batch with a column for each output, and one for the errors."""
        count = len(next(iter(batch.values()))) if batch else 0
        results: list[tuple[Any, ...] | None] = []
        errors = [""] * count
        if count:
            rows, run = self._call(batch)
            for arguments in rows:
                try:
                    results.append(run(*arguments))
                except CancelledError:
                    raise
                except (Error, ValueError) as e:
                    if self._error_column is None:
                        raise
                    errors[len(results)] = str(e)
                    results.append(None)
        out: dict[str, Any] = dict(batch)
        for k, info in enumerate(self._outputs):
            out[info.name] = self._joined(info, [None if r is None else r[k] for r in results])
        if self._error_column is not None:
            out[self._error_column] = np.array(errors, dtype=object)
        return out

    def _joined(self, info: TensorInfo, values: list[Any]) -> Any:
        """An output of all rows as a column; None: of a bad row, whose elements are zeros."""
        first: Any = next((v for v in values if v is not None), None)
        shape = np.shape(first)
        if first is not None and shape[:1] == (1,) and all(v is not None and v.shape == shape for v in values):
            return np.concatenate(values)
        rows = [v if v is None or np.ndim(v) == 0 or len(v) != 1 else v[0] for v in values]
        good = next((row for row in rows if row is not None), self._zeros(info.shape, info.numpy_dtype))
        rows = [np.zeros_like(good) if row is None else row for row in rows]
        if all(row.shape == rows[0].shape for row in rows):
            return np.stack(rows) if rows else np.empty((0, *good.shape), good.dtype)
        column = np.empty(len(rows), object)
        column[:] = rows
        return column

    @staticmethod
    def _zeros(shape: tuple[int | None, ...] | None, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        dims = [1 if d is None else d for d in shape or ()]
        return np.zeros(dims[1:] if dims and dims[0] == 1 else dims, dtype)
