"""The example of docs/distributed.md prints the same alone and on two workers."""

from __future__ import annotations

import pytest
from support.many_workers import SCRIPT, documented
from support.tf_versions import needs_cluster_store

pytestmark = [needs_cluster_store, pytest.mark.slow]


def test_many_workers_alone(run_python):
    assert run_python(SCRIPT.read_text()).stdout == documented()


def test_many_workers_on_two(run_workers):
    assert run_workers(SCRIPT.read_text()) == [documented()] * 2
