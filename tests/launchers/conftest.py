"""What a launcher needs that is not in the environment of the other tests."""

from __future__ import annotations

import pytest
from support.packages import skip_without


@pytest.fixture(scope="session", autouse=True)
def _needs_the_launchers():
    skip_without(("ray", "kubeflow"), "launchers")
