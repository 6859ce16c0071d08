"""Descriptions of models and runs as plain data."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np


class Quantization(NamedTuple):
    """Affine quantization: real = scale * (q - zero_point)."""

    kind: str
    """"per_tensor", "per_axis" (a scale for each index of dimension `axis`), "per_block" (for each block of `block`
    elements along `axis`) or "per_token" (chosen at run time for the last `axis` dimensions)."""
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    """As many as scales."""
    axis: int
    block: int
    symmetric: bool


class TensorInfo(NamedTuple):
    """A named input or output of a method."""

    name: str
    """Unique among the method's inputs or outputs."""
    type: str
    """As text: "float32[1,?,3]", "sequence(float32)"."""
    dtype: str
    """Element type: "float32", "int8", "bfloat16", "string", ...; "" if the model leaves it open or for no tensor."""
    shape: tuple[int | None, ...] | None
    """None for a dimension that a run decides; None in place of the tuple if not even the rank is known."""
    dim_names: tuple[str, ...]
    """Symbolic names of the dimensions, "" where one has none; empty if none has."""
    bound: tuple[int, ...]
    """Largest dimensions that an input may have; empty: no bound."""
    optional: bool
    """True if an input may be left out."""
    quantization: Quantization | None

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """The dtype of this value's arrays; UnsupportedError if numpy (with ml_dtypes) has none."""
        from ._arrays import numpy_dtype

        return numpy_dtype(self.dtype)


class SetResult(NamedTuple):
    """The verdict on a test set of a bundled program."""

    verdict: str
    """"passed", "failed", "skipped" (nothing to compare with) or "broken" (could not be run)."""
    name: str
    """Method and set: "forward, set 0"."""
    text: str
    """What matched, or what did not and where."""


class Description(dict[str, Any]):
    """What `smelt inspect` knows of a model, as a dict; a notebook shows the graph's page."""

    def __init__(self, data: dict[str, Any], page: Callable[[], str]) -> None:
        super().__init__(data)
        self._page = page

    def html(self) -> str:
        """A self-contained page that shows the graph."""
        return self._page()

    def _repr_html_(self) -> str:
        from html import escape

        return f'<iframe srcdoc="{escape(self._page())}" width="100%" height="600" frameborder="0"></iframe>'


class Profile(list[dict[str, Any]]):
    """Time by operator: dicts of node, op, origin, kernel, output, calls and micros (microseconds over all calls)."""

    columns = ("node", "op", "origin", "kernel", "output", "calls", "micros")

    def __init__(self, entries: Iterable[dict[str, Any]]) -> None:
        super().__init__(entries)

    def to_pandas(self) -> Any:
        """A pandas.DataFrame with a row for each operator."""
        import pandas

        return pandas.DataFrame(list(self), columns=list(self.columns))

    def _repr_html_(self) -> str:
        from html import escape

        head = "".join(f"<th>{c}</th>" for c in self.columns)
        rows = "".join(
            "<tr>" + "".join(f"<td>{escape(str(e[c]))}</td>" for c in self.columns) + "</tr>"
            for e in sorted(self, key=lambda e: -float(e["micros"]))
        )
        return f"<table><tr>{head}</tr>{rows}</table>"
