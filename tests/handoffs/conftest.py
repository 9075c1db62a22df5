"""A recipe needs packages that only the environment of `nox -s handoffs` has."""

from __future__ import annotations

import importlib.util

import pytest

PACKAGES = ("tf2onnx", "onnxruntime", "openvino")


@pytest.fixture(scope="session")
def handoffs():
    """Skips a test where the other runtimes are missing."""
    lacking = [name for name in PACKAGES if not importlib.util.find_spec(name)]
    if lacking:
        pytest.skip(f"{', '.join(lacking)} not installed: `.venv/bin/nox -s handoffs` has them")
