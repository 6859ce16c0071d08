"""Fixtures of the package's tests."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

DIGITS = Path(__file__).parents[2] / "examples" / "digits"


@pytest.fixture(scope="session")
def digits() -> Path:
    """The folder of one trained network in every format."""
    return DIGITS


@pytest.fixture
def x() -> np.ndarray:
    """float32[1, 64] with both signs."""
    return np.linspace(-1, 1, 64, dtype=np.float32).reshape(1, 64)
