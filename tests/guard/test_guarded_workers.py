"""PrecisionGuard with several workers: if one overflows, all heal in the same way."""

from __future__ import annotations

import json

import numpy as np
import pytest
from support.replicas import MULTI_WORKER, shown
from support.tf_versions import needs_cluster_store, needs_keras_2
from support.workers import run_workers

pytestmark = [needs_cluster_store, needs_keras_2, pytest.mark.slow]

SCRIPT = f"""{MULTI_WORKER}
import logging

messages = []


class Noted(logging.Handler):
    def emit(self, record):
        if record.getMessage().startswith("PrecisionGuard"):
            messages.append(record.getMessage())


logging.getLogger("npu_precision").addHandler(Noted())
layers = tf.keras.layers
rank = int(json.loads(os.environ["TF_CONFIG"])["task"]["index"])
random = np.random.default_rng(rank)
images = random.normal(size=[8, 16, 8]).astype(np.float32)
labels = np.argmax(images[..., :4], -1)
factors = np.ones([8, 16, 1], np.float32)
if rank == 1:
    factors[5] = float(sys.argv[1])


def batches(context):
    data = tf.data.Dataset.from_tensor_slices(((images, factors), labels))
    return data.repeat()


with strategy.scope():
    tf.keras.utils.set_random_seed(5)
    x, factor = layers.Input([8]), layers.Input([1])
    hidden = layers.Dense(16, "relu", name="hidden")(x)
    # The identity, by way of values that float16 may not have.
    large = layers.Dense(
        16, use_bias=False, kernel_initializer="identity", trainable=False, name="large"
    )(hidden * factor)
    outputs = layers.Dense(4, name="digits")(large / factor)
    model = tf.keras.Model([x, factor], outputs)
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(tf.keras.optimizers.SGD(0.1), loss)
guard = npu_precision.PrecisionGuard("healed.json", snapshot_every=4)
npu_precision.enable(precision_mode="allow_mix_precision")
data = strategy.distribute_datasets_from_function(batches)
failure = None
try:
    history = model.fit(
        data, steps_per_epoch=8, epochs=2, verbose=0, callbacks=[guard], shuffle=False
    )
except RuntimeError as error:
    failure = str(error)
show(messages, failure, model.get_weights(), open("healed.json").read())
"""


def test_all_workers_heal_where_one_overflows(tmp_path):
    """The other worker gets a NaN in the sum over both, and keeps the same op."""
    results = [
        result for worker in run_workers(tmp_path, SCRIPT, "1e7") for result in shown(worker)
    ]
    for messages, failure, weights, _ in results:
        assert failure is None
        (message,) = messages
        assert message.startswith("PrecisionGuard: step 5: ")
        assert "overflow of float16 in" in message
        assert all(np.isfinite(np.asarray(weight)).all() for weight in weights)
    assert results[0][3] == results[1][3]
    assert json.dumps(results[0][2]) == json.dumps(results[1][2])


def test_all_workers_stop_where_the_data_of_one_has_a_nan(tmp_path):
    for worker in run_workers(tmp_path, SCRIPT, "nan"):
        ((_, failure, weights, _),) = shown(worker)
        assert "float32 fails on this batch too" in failure
        assert "begins as nan in" in failure
        assert all(np.isfinite(np.asarray(weight)).all() for weight in weights)


OF_TWO_GUARDS = f"""{MULTI_WORKER}
import time

from npu_precision.guard.agreement import Ranks

rank = int(json.loads(os.environ["TF_CONFIG"])["task"]["index"])
first = Ranks().least(10 + rank)
time.sleep(2 * rank)
show(first, Ranks().least(20 + rank))
"""


def test_a_second_guard_hears_nothing_that_was_said_to_the_first(tmp_path):
    for worker in run_workers(tmp_path, OF_TWO_GUARDS):
        assert shown(worker) == [[10, 20]]
