"""The fixture that skips recipes unless the packages of `nox -s handoffs` are installed."""

from __future__ import annotations

import pytest
from support.packages import skip_without


@pytest.fixture(scope="session")
def handoffs():
    """Skips a test if the other runtimes are missing."""
    skip_without(("tf2onnx", "onnxruntime", "openvino"), "handoffs")
