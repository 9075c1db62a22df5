"""Skips tests whose packages are only installed in a separate environment."""

from __future__ import annotations

import importlib.util

import pytest


def skip_without(packages, session):
    """Skips a test where one of the packages is missing; names the nox session that has them."""
    lacking = [name for name in packages if not importlib.util.find_spec(name)]
    if lacking:
        pytest.skip(f"{', '.join(lacking)} not installed: `.venv/bin/nox -s {session}` has them")
