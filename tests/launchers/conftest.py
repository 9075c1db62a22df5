"""The fixture that skips the tests of launchers if their packages are not installed."""

from __future__ import annotations

import pytest
from support.packages import skip_without


@pytest.fixture(scope="session", autouse=True)
def _needs_the_launchers():
    skip_without(("ray", "kubeflow"), "launchers")
