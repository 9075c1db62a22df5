"""ParameterServerStrategy: workers lower the coordinator's functions, or the coordinator warns."""

from __future__ import annotations

import pytest
from support.replicas import shown
from support.tf_versions import needs_coordinator

pytestmark = [needs_coordinator, pytest.mark.slow]

JOBS = {"chief": 1, "worker": 2, "ps": 1}

# A server imports the library unless argv[1] names it. The rest is the coordinator.
CLUSTER = """
import json
import os
import sys

import tensorflow as tf

TASK = json.loads(os.environ["TF_CONFIG"])["task"]
if TASK["type"] == "chief" or f"{TASK['type']}{TASK['index']}" not in sys.argv[1:]:
    import npu_precision

RESOLVER = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if TASK["type"] != "chief":
    # Its ledgers are in a folder of its own, if it writes any.
    os.mkdir(f"{TASK['type']}{TASK['index']}")
    os.chdir(f"{TASK['type']}{TASK['index']}")
    tf.distribute.Server(
        RESOLVER.cluster_spec(), job_name=TASK["type"], task_index=TASK["index"]
    ).join()


def show(*values):
    print("SHOWN " + json.dumps(values), flush=True)


MIXED = {"precision_mode": "allow_mix_precision_bf16", "report_dir": "reports"}
"""

# bfloat16 rounds the weights to 1, where float32 keeps them.
COORDINATOR = f"""{CLUSTER}
make_strategy = getattr(tf.distribute, "ParameterServerStrategy", None)
make_strategy = make_strategy or tf.distribute.experimental.ParameterServerStrategy
strategy = make_strategy(RESOLVER)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    weights = tf.Variable(tf.fill([64, 32], 1 + 2.0**-12))


@tf.function
def train(x):
    def replica(x):
        with tf.GradientTape() as tape:
            y = tf.matmul(x, weights)
            loss = tf.reduce_sum(y)
        weights.assign_sub(2.0**-12 * tape.gradient(loss, weights))
        return y[0, 0]

    return strategy.run(replica, args=(x,))


def step():
    result = coordinator.schedule(train, args=(tf.ones([8, 64]),))
    coordinator.join()
    return float(result.fetch())


def weight():
    return float(weights[0, 0])
"""

IN_FLOAT32, IN_BFLOAT16 = 64 * (1 + 2.0**-12), 64.0

STEPS = f"""{COORDINATOR}
npu_precision.enable(**MIXED)
show(weights.dtype.name, weights.device, weight())
# More than there are workers, so that each has one.
results = [coordinator.schedule(train, args=(tf.ones([8, 64]),)) for _ in range(40)]
coordinator.join()
show([float(result.fetch()) for result in results])
show(weights.dtype.name, weights.device, weight())
"""


def folders_of_ledgers(tmp_path):
    return {file.parent.parent.name for file in tmp_path.rglob("reports/*.json")}


def test_workers_lower_what_the_coordinator_sends(run_workers, tmp_path, ledgers):
    chief, *_ = run_workers(STEPS, jobs=JOBS)
    before, (results,), after = shown(chief)
    assert before == ["float32", "/job:ps/replica:0/task:0/device:CPU:0", 1 + 2.0**-12]
    # Each step subtracts exactly 8 / 4096 from each weight: the variable stays float32.
    assert after == [*before[:2], 1 + 2.0**-12 - 40 * 8 * 2.0**-12]
    assert IN_BFLOAT16 in results
    # All weights are alike. The products are 64 times a weight rounded to bfloat16.
    assert all(result / 64 * 2**8 == round(result / 64 * 2**8) for result in results)
    # Neither the parameter server nor the coordinator lowers anything.
    assert folders_of_ledgers(tmp_path) == {"worker0", "worker1"}
    for folder in tmp_path.rglob("reports"):
        # The name is that of the worker, although its first node may be on the parameter server.
        assert all(f"-{folder.parent.name}-" in report.name for report in folder.glob("*.json"))
        assert "lowered" in {node.decision for ledger in ledgers(folder) for node in ledger.nodes}


TOLD = f"""{COORDINATOR}
npu_precision.enable(**MIXED)
outcomes = []
for task in range(2):
    with tf.device(f"/job:worker/task:{{task}}"):
        try:
            show(float(tf.function(lambda x: tf.matmul(x, x))(tf.ones([8, 8]))[0, 0]))
        except RuntimeError as error:
            show(str(error))
try:
    for _ in range(40):
        coordinator.schedule(train, args=(tf.ones([8, 64]),))
    coordinator.join()
except RuntimeError as error:
    show(str(error))
"""


def test_a_worker_that_has_not_loaded_the_library_is_named(run_workers):
    chief, *_ = run_workers(TOLD, "worker1", jobs=JOBS)
    first, *others = shown(chief)
    assert first == [8.0]
    assert len(others) == 2
    for (message,) in others:
        assert message.startswith("/job:worker/task:1 has not loaded npu_precision")
        assert "`import npu_precision` into the script of each server" in message


def test_a_parameter_server_needs_no_library(run_workers):
    chief, *_ = run_workers(STEPS, "ps0", jobs=JOBS)
    assert IN_BFLOAT16 in shown(chief)[1][0]


OPTIONS = f"""{COORDINATOR}
from npu_precision import _tf_compat

show(step())
weights.assign(tf.fill([64, 32], 1 + 2.0**-12))
with npu_precision.autocast(**MIXED):
    scheduled = coordinator.schedule(train, args=(tf.ones([8, 64]),))
coordinator.join()
show(float(scheduled.fetch()))

weights.assign(tf.fill([64, 32], 1 + 2.0**-12))
npu_precision.enable(lower_collectives=True, **MIXED)
show(step())
show(_tf_compat.cluster_of_process())
"""


def test_functions_run_with_the_options_of_where_they_are_scheduled(run_workers, tmp_path):
    chief, *_ = run_workers(OPTIONS, jobs=JOBS)
    (without,), (in_scope,), (lowers_collectives,), (cluster,) = shown(chief)
    assert without == IN_FLOAT32
    assert in_scope == lowers_collectives == IN_BFLOAT16
    # The coordinator is no worker, so it agrees with none.
    assert cluster is None
    printed = (tmp_path / "workers0" / "stderr0").read_text()
    assert printed.count("lower_collectives has no effect on functions that a coordinator") == 1
    assert "all in it ran eagerly" not in printed


SCALED = f"""{COORDINATOR}
with strategy.scope():
    scaler, optimizer = npu_precision.GradScaler(8.0), tf.keras.optimizers.SGD(0.5)


def replica():
    scaler.step(optimizer, [(tf.ones([64, 32]), weights)])


try:
    coordinator.schedule(tf.function(lambda: strategy.run(replica)))
    coordinator.join()
except RuntimeError as error:
    show(str(error))
"""


def test_loss_scaling_refuses_workers_that_make_steps_of_their_own(run_workers):
    chief, *_ = run_workers(SCALED, jobs=JOBS)
    ((message,),) = shown(chief)
    assert "GradScaler.step(): got a ParameterServerStrategy, whose workers" in message
    assert "use a mode in bfloat16" in message
