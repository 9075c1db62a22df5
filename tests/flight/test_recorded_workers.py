"""FlightRecorder under several workers: each records its own replica."""

from __future__ import annotations

import json

import pytest
from support.replicas import MULTI_WORKER
from support.tf_versions import needs_cluster_store
from support.workers import run_workers

pytestmark = [needs_cluster_store, pytest.mark.slow]

SCRIPT = f"""{MULTI_WORKER}
x = tf.constant(np.eye(4, dtype=np.float32) * 2.0**WORKER)


@tf.function
def step(x):
    def replica(x):
        product = tf.matmul(x, x)
        return tf.distribute.get_replica_context().all_reduce("sum", tf.matmul(product, x))

    return strategy.run(replica, args=(x,))


npu_precision.enable(precision_mode="allow_mix_precision")
with npu_precision.FlightRecorder(sys.argv[1], every_n_steps=2):
    for _ in range(3):
        step(x)
"""


def test_each_rank_has_the_values_of_its_own_replica(tmp_path):
    folder = tmp_path / "flight"
    run_workers(tmp_path, SCRIPT, folder)
    for rank in range(2):
        lines = (folder / f"rank_{rank}" / "flight.jsonl").read_text().splitlines()
        events = [json.loads(line) for line in lines]
        (tensors,) = (event for event in events if event["event"] == "tensors")
        forward = [event for event in events if event["event"] == "forward"]
        assert [event["step"] for event in forward] == [0, 2]
        assert {event["rank"] for event in events} == {rank}
        place = tensors["tensors"].index("MatMul")
        assert forward[0]["largest"][place] == 4.0**rank
