"""The example of docs/distributed.md prints the same alone and on two workers."""

from __future__ import annotations

import re

import pytest
from support import ROOT
from support.tf_versions import needs_cluster_store

pytestmark = [needs_cluster_store, pytest.mark.slow]

SCRIPT = (ROOT / "examples" / "many_workers.py").read_text()


def documented():
    page = (ROOT / "docs" / "distributed.md").read_text()
    return re.search(r"```text\n(step 0: .*?)```", page, re.DOTALL)[1]


def test_many_workers_alone(run_python):
    assert run_python(SCRIPT).stdout == documented()


def test_many_workers_on_two(run_workers):
    assert run_workers(SCRIPT) == [documented()] * 2
