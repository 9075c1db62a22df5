"""A recipe needs packages that only the environment of `nox -s handoffs` has."""

from __future__ import annotations

import pytest
from support.packages import skip_without


@pytest.fixture(scope="session")
def handoffs():
    """Skips a test where the other runtimes are missing."""
    skip_without(("tf2onnx", "onnxruntime", "openvino"), "handoffs")
