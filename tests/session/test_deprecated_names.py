"""On TensorFlow 1.15, no code of the package uses a name that TensorFlow warns of."""

from __future__ import annotations

import pytest

from npu_precision import _tf_compat

pytestmark = pytest.mark.skipif(not _tf_compat.IS_TF1, reason="TensorFlow 2 has no such names")

# TensorFlow stops after a few warnings a module.
SCRIPT = """
import logging
from tensorflow.python.util import module_wrapper
module_wrapper._PER_MODULE_WARNING_LIMIT = 10**6
import contextlib, importlib, pkgutil
import npu_precision
for module in pkgutil.walk_packages(npu_precision.__path__, "npu_precision.", lambda name: None):
    if not module.name.endswith("__main__"):
        with contextlib.suppress(ImportError, RuntimeError):  # Some need TensorFlow 2.
            importlib.import_module(module.name)
import numpy as np
import tensorflow.compat.v1 as tf
from npu_precision import npu_ops
manager = npu_precision.ExponentialUpdateLossScaleManager(8.0, 10)
x = tf.placeholder(tf.float32, [4, 8])
w = tf.get_variable("w", [8, 4], use_resource=True)
loss = tf.reduce_mean(npu_ops.dropout(tf.matmul(x, w), 0.5))
optimizer = npu_precision.NPUOptimizer(
    tf.train.AdamOptimizer(), manager, is_distributed=True, is_loss_scale=True
)
with npu_precision.keep_dtype_scope():
    step = optimizer.minimize(loss, tf.train.get_or_create_global_step())
tf.losses.add_loss(loss)
guard = npu_precision.PrecisionGuard("healed.json")
config = npu_precision.npu_config_proto(
    precision_mode="allow_mix_precision", modify_mixlist="healed.json"
)
hooks = [guard, *npu_precision.npu_hooks_append()]
with tf.train.SingularMonitoredSession(hooks, config=config) as session:
    session.run([step, manager.get_loss_scale()], {x: np.ones([4, 8])})
def model_fn(features, labels, mode):
    loss = tf.reduce_mean(tf.layers.dense(features, 1))
    step = tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=step)
run_config = npu_precision.NPURunConfig(precision_mode="allow_mix_precision", model_dir="model")
data = lambda: tf.data.Dataset.from_tensors(np.ones([4, 8], "float32")).repeat(2)
npu_precision.NPUEstimator(model_fn, config=run_config).train(data, steps=2)
print("end")
"""


def test_no_module_warns_when_it_is_imported_or_used(run_cold_python):
    process = run_cold_python(SCRIPT)
    assert process.stdout.splitlines()[-1] == "end"
    warned = [line for line in process.stderr.splitlines() if "is deprecated" in line]
    assert [line for line in warned if "npu_precision" in line] == []
