"""The rank and the number of ranks: TF_CONFIG, RANK_ID and RANK_SIZE, and Ascend's rank table."""

from __future__ import annotations

import json

import pytest
import tensorflow as tf

from npu_precision import _tf_compat
from npu_precision.hccl import eager_cluster, ranks
from npu_precision.hccl.manage import api

VARIABLES = (
    "TF_CONFIG",
    "RANK_ID",
    "RANK_SIZE",
    "RANK_TABLE_FILE",
    "HCCL_IF_BASE_PORT",
    "HCCL_EXEC_TIMEOUT",
)


@pytest.fixture
def environment(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return lambda **variables: [monkeypatch.setenv(*each) for each in variables.items()]


def rank_table(tmp_path, *servers):
    """Writes a rank table; each server is a list of the ranks on it."""
    table = {
        "server_list": [
            {
                "server_id": f"10.0.0.{number}",
                "device": [{"device_id": str(k), "rank_id": str(r)} for k, r in enumerate(those)],
            }
            for number, those in enumerate(servers)
        ],
        "status": "completed",
        "version": "1.0",
    }
    path = tmp_path / "ranks.json"
    path.write_text(json.dumps(table))
    return str(path)


def test_one_process_alone_is_rank_0_of_1(environment):
    assert (api.get_rank_id(), api.get_rank_size()) == (0, 1)
    assert (api.get_local_rank_id(), api.get_local_rank_size()) == (0, 1)


def test_rank_size_is_about_this_machine(environment):
    environment(RANK_ID="2", RANK_SIZE="4", HCCL_IF_BASE_PORT="7000")
    assert (api.get_rank_id(), api.get_rank_size(), api.get_local_rank_id()) == (2, 4, 2)
    assert ranks.current().addresses[2] == "127.0.0.1:7002"


def test_a_rank_table_names_servers(environment, tmp_path):
    environment(RANK_TABLE_FILE=rank_table(tmp_path, [0, 1], [2, 3]), RANK_ID="3")
    assert (api.get_rank_id(), api.get_rank_size()) == (3, 4)
    assert (api.get_local_rank_id(), api.get_local_rank_size()) == (1, 2)
    assert ranks.current().addresses == tuple(f"10.0.0.{n // 2}:{60000 + n}" for n in range(4))


def test_tf_config_counts_the_chief_first(environment):
    cluster = {"worker": ["b:1", "a:2"], "chief": ["a:1"], "ps": ["c:1"]}
    task = {"type": "worker", "index": 1}
    environment(TF_CONFIG=json.dumps({"cluster": cluster, "task": task}))
    assert ranks.current().addresses == ("a:1", "b:1", "a:2")
    assert (api.get_rank_id(), api.get_local_rank_id(), api.get_local_rank_size()) == (2, 1, 2)


@pytest.mark.parametrize("task", [{"type": "ps", "index": 0}, {"type": "evaluator"}])
def test_who_takes_no_part_is_alone(environment, task):
    cluster = {"worker": ["b:1", "a:2"], "ps": ["c:1"]}
    environment(TF_CONFIG=json.dumps({"cluster": cluster, "task": task}))
    assert (api.get_rank_id(), api.get_rank_size()) == (0, 1)


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"RANK_SIZE": "two"}, "RANK_SIZE: got 'two', expected a whole number"),
        ({"RANK_SIZE": "0"}, "RANK_SIZE: got 0, expected 1 or more"),
        ({"RANK_SIZE": "2"}, "RANK_ID: not set, expected the number of this process"),
        ({"RANK_SIZE": "2", "RANK_ID": "2"}, "RANK_ID: got 2, expected 0 to 1"),
        ({"RANK_TABLE_FILE": "/no/such"}, "RANK_TABLE_FILE /no/such: No such file"),
        ({"TF_CONFIG": "{"}, "TF_CONFIG: not JSON"),
        ({"TF_CONFIG": "[1]"}, "TF_CONFIG: expected a JSON object"),
    ],
)
def test_what_contradicts_itself_is_an_error(environment, variables, message):
    environment(**variables)
    with pytest.raises(ValueError) as error:
        ranks.current()
    assert message in str(error.value)


@pytest.mark.parametrize(("given", "seconds"), [({}, 1836), ({"HCCL_EXEC_TIMEOUT": "60"}, 60)])
def test_a_run_may_take_as_long_as_hccl_says(environment, given, seconds):
    environment(**given)
    assert ranks.exec_timeout() == seconds


@pytest.mark.parametrize("given", ["-1", "soon"])
def test_a_wrong_time_is_an_error(environment, given):
    environment(HCCL_EXEC_TIMEOUT=given)
    with pytest.raises(ValueError, match="HCCL_EXEC_TIMEOUT: got"):
        ranks.exec_timeout()


def test_a_table_with_a_gap_is_an_error(environment, tmp_path):
    environment(RANK_TABLE_FILE=rank_table(tmp_path, [0, 2]), RANK_ID="0")
    with pytest.raises(ValueError, match=r"got the ranks \[0, 2\], expected each of 0 to 1"):
        ranks.current()


def test_one_process_has_nothing_to_connect(environment):
    environment()
    eager_cluster.connect()


def test_an_old_tensorflow_does_not_connect_ranks_that_execute_eagerly(environment, monkeypatch):
    environment(RANK_SIZE="2", RANK_ID="0")
    monkeypatch.delattr(tf.distribute, "MultiWorkerMirroredStrategy", raising=False)
    message = (
        f"hccl: TensorFlow {tf.__version__} connects processes in the graphs of sessions alone"
    )
    with pytest.raises(RuntimeError, match=message):
        eager_cluster.connect()


def test_a_strategy_of_other_workers_is_no_connection_of_the_ranks(environment, monkeypatch):
    environment(RANK_SIZE="2", RANK_ID="0")
    three = tuple(f"/job:worker/task:{task}" for task in range(3))
    cluster = _tf_compat.Cluster(three[0], three, False)
    monkeypatch.setattr(_tf_compat, "cluster_of_process", lambda: cluster)
    with pytest.raises(RuntimeError, match="has connected 3 processes, and there are 2 ranks"):
        eager_cluster.connect()
