"""The example of docs/distributed.md prints the same alone and on two workers."""

from __future__ import annotations

import pytest
from support.many_workers import SCRIPT, documented, documented_log
from support.tf_versions import needs_cluster_store, needs_outputs_of_the_docs

pytestmark = [needs_cluster_store, pytest.mark.slow]


def test_many_workers_alone(run_python):
    assert run_python(SCRIPT.read_text()).stdout == documented()


def test_many_workers_on_two(run_workers):
    assert run_workers(SCRIPT.read_text()) == [documented()] * 2


@needs_outputs_of_the_docs
def test_the_log_of_each_worker_has_the_line_of_the_page(run_workers, tmp_path):
    run_workers(SCRIPT.read_text(), TF_CPP_MIN_LOG_LEVEL="0")
    logs = [file.read_text() for file in tmp_path.glob("workers*/stderr*")]
    assert len(logs) == 2
    assert all(documented_log() in log for log in logs)
