"""What a launcher needs that is not in the environment of the other tests."""

from __future__ import annotations

import importlib.util

import pytest


@pytest.fixture(scope="session", autouse=True)
def _needs_the_launchers():
    lacking = [name for name in ("ray", "kubeflow") if not importlib.util.find_spec(name)]
    if lacking:
        pytest.skip(f"{' and '.join(lacking)} not installed: `.venv/bin/nox -s launchers` has them")
