"""Random operands of quantized operators. A type is a name of numpy."""

import dataclasses
import typing

import numpy as np


@dataclasses.dataclass
class Case:
    """A row of the table. make(random): bytes of a model of one operator, and its inputs."""

    name: str
    make: typing.Callable


def integers(random, dtype, shape, low=None):
    """Values over the whole range of the type, or from `low` on."""
    info = np.iinfo(dtype)
    return random.integers(info.min if low is None else low, info.max, shape, endpoint=True).astype(dtype)


def scale(random, low=0.005, high=0.1, count=None):
    return np.exp(random.uniform(np.log(low), np.log(high), count)).astype(np.float32)


def zero_point(random, dtype):
    """0 for int16, which has none."""
    info = np.iinfo(dtype)
    return 0 if info.bits > 8 else int(random.integers(info.min, info.max, endpoint=True))


def scale_of_type(random, dtype):
    return scale(random) / np.float32(256 if np.iinfo(dtype).bits == 16 else 1)


def scale_of_products(random, x_scale, w_scales, depth, dtype):
    """A scale that sums of `depth` products of 8-bit weights with values of the type nearly fill."""
    bits = np.iinfo(dtype).bits
    deviation = np.sqrt(depth) * 74 * 74 * float(x_scale) * float(np.mean(w_scales)) * 2.0 ** (bits - 8)
    return np.float32(deviation * random.uniform(1.8, 4) * 2.0 ** (1 - bits))
