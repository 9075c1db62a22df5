"""hccl's collectives with eager execution: in eager code and in tf.functions."""

from __future__ import annotations

import numpy as np
import pytest
from support.replicas import NPU_DEVICE, shown
from support.tf_versions import needs_cluster_store, needs_workers

# TensorFlow 1.15 supports collectives between processes only in sessions.
pytestmark = [needs_workers, pytest.mark.slow]

OPS = f"""{NPU_DEVICE}
from npu_bridge.hccl import hccl_ops
from npu_bridge.npu_init import npu_allreduce

mine = tf.constant([[1.0, 2.0], [3.0, 4.0]]) * float(RANK + 1)


def results():
    return {{
        **{{name: hccl_ops.allreduce(mine, name) for name in ("sum", "prod", "max", "min")}},
        "gathered": hccl_ops.allgather(mine[:1], SIZE),
        "root 1": hccl_ops.broadcast([mine, mine[0] * 2], 1),
        "scattered": hccl_ops.reduce_scatter(mine, "sum", SIZE),
        "mean": npu_allreduce(mine, "mean"),
    }}


function = tf.function(results)
show(results(), function(), function())
"""


def test_collectives_of_two_ranks_in_eager_code_and_in_functions(run_workers):
    one = np.array([[1.0, 2.0], [3.0, 4.0]])
    for rank, printed in enumerate(run_workers(OPS)):
        (in_three_ways,) = shown(printed)
        expected = {
            "sum": 3 * one,
            "prod": 2 * one**2,
            "max": 2 * one,
            "min": one,
            "gathered": [one[0], 2 * one[0]],
            "scattered": 3 * one[rank : rank + 1],
            "mean": 1.5 * one,
        }
        assert len(in_three_ways) == 3
        for results in in_three_ways:
            first, second = results.pop("root 1")
            np.testing.assert_array_equal(first, 2 * one)
            np.testing.assert_array_equal(second, 4 * one[0])
            assert set(results) == set(expected)
            for name, value in expected.items():
                np.testing.assert_array_equal(results[name], value)


GROUPS = f"""{NPU_DEVICE}
from npu_bridge.hccl import hccl_ops

create_group("pair", 2, [0, 2])
value = tf.constant(float(RANK + 1))
sums = [hccl_ops.allreduce(value, "sum")]
if RANK != 1:
    sums.append(hccl_ops.allreduce(value, "sum", group="pair"))
sums.append(hccl_ops.allreduce(value, "sum"))
show(sums)
try:
    hccl_ops.allreduce(value, "sum", group="pair") if RANK == 1 else None
except ValueError as error:
    show(str(error))
"""


@pytest.mark.full
def test_a_group_of_some_ranks(run_workers):
    one, other, third = (shown(printed) for printed in run_workers(GROUPS, count=3))
    assert one == third == [[[6.0, 4.0, 6.0]]]
    assert other[0] == [[6.0, 6.0]]
    ((message,),) = other[1:]
    assert message == ("group 'pair': rank 1, which is this process, is not among its ranks [0, 2]")


AFTER_AN_OP = """
import npu_precision

npu_precision.install_as_npu_bridge()
import tensorflow as tf
from npu_bridge.hccl import hccl_ops

one = tf.constant(1.0)
try:
    hccl_ops.allreduce(one, "sum")
except RuntimeError as error:
    print(error)
"""


def test_an_op_before_the_connection_is_an_error_that_names_open(run_workers):
    for rank, printed in enumerate(run_workers(AFTER_AN_OP)):
        assert printed.startswith(
            f"hccl: rank {rank} of 2 cannot reach the others from eager code any more, because an "
            "op was executed before the first collective: call npu_device.open() at the beginning"
        )


CALLBACK = f"""{NPU_DEVICE}
from npu_bridge.npu_init import npu_callbacks_append

model = tf.keras.Sequential([tf.keras.Input([1]), tf.keras.layers.Dense(1, use_bias=False)])
model.set_weights([np.full([1, 1], RANK + 2.0)])
model.compile(tf.keras.optimizers.SGD(0.0), "mse")
model.fit(np.ones([2, 1]), np.ones([2, 1]), verbose=0, callbacks=npu_callbacks_append())
show(model.get_weights()[0].item())
"""


def test_keras_fit_begins_with_the_variables_of_the_first_rank(run_workers):
    for printed in run_workers(CALLBACK):
        assert shown(printed) == [[2.0]]


DEATH = f"""{NPU_DEVICE}
import os
import signal

while True:
    try:
        sum_ = npu.distribute.all_reduce(tf.constant(1.0), "sum")
    except tf.errors.UnavailableError as error:
        show(type(error).__name__)
        os._exit(0)
    if RANK == 1:
        os.kill(os.getpid(), signal.SIGKILL)
"""


@needs_cluster_store
@pytest.mark.full
def test_a_rank_that_dies_ends_the_others(run_workers):
    survivor, _ = run_workers(DEATH, killed=1, timeout=90)
    assert shown(survivor) == [["UnavailableError"]]
