"""What scripts of several replicas begin with: each is one logical CPU of its process."""

from __future__ import annotations

import json

# argv[1] is the number of replicas; show() prints a line that shown() finds.
MIRRORED = """
import json
import sys

import numpy as np
import tensorflow as tf

import npu_precision
from npu_precision import amp

COUNT = int(sys.argv[1])
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * COUNT)
strategy = tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(COUNT)])
KERAS_2 = hasattr(tf.compat.v1.keras.backend, "set_session")


def per_replica(values):
    values = [tf.constant(value, tf.float32) for value in values]
    return strategy.experimental_distribute_values_from_function(
        lambda context: values[context.replica_id_in_sync_group]
    )


def ones_but(replica, value):
    return [value if i == replica else 1.0 for i in range(COUNT)]


def show(*values):
    print("SHOWN " + json.dumps(values, default=lambda value: np.asarray(value).tolist()))
"""


def shown(printed):
    """What show() was given, call by call."""
    marked = [line for line in printed.splitlines() if line.startswith("SHOWN ")]
    return [json.loads(line[len("SHOWN ") :]) for line in marked]
