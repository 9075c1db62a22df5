"""The first lines of test scripts that run on several replicas, workers or ranks."""

from __future__ import annotations

import json

_SHOW = """
def show(*values):
    print("SHOWN " + json.dumps(values, default=lambda value: np.asarray(value).tolist()))
"""
_BEGIN = """
import json
import os
import sys

import numpy as np
import tensorflow as tf

import npu_precision
from npu_precision import amp
"""
_END = """
KERAS_2 = hasattr(tf.compat.v1.keras.backend, "set_session")


def per_replica(values):
    values = [tf.constant(value, tf.float32) for value in values]
    return strategy.experimental_distribute_values_from_function(
        lambda context: values[context.replica_id_in_sync_group]
    )


def ones_but(replica, value):
    return [value if i == replica else 1.0 for i in range(COUNT)]
"""
_LOGICAL = """
cpu = tf.config.list_physical_devices("CPU")[0]
devices = [tf.config.LogicalDeviceConfiguration()] * int(sys.argv[1])
tf.config.set_logical_device_configuration(cpu, devices)
"""

# For several replicas in one process: argv[1] is their number. show() prints a line for shown().
MIRRORED = f"""{_BEGIN}{_LOGICAL}
COUNT = int(sys.argv[1])
strategy = tf.distribute.MirroredStrategy([f"CPU:{{i}}" for i in range(COUNT)])
{_END}
{_SHOW}"""

# The same for run_workers(): each worker has one replica.
MULTI_WORKER = f"""{_BEGIN}
strategy = tf.distribute.MultiWorkerMirroredStrategy()
COUNT = strategy.num_replicas_in_sync
WORKER = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
{_END}
{_SHOW}"""

# The first lines of a script of npu_bridge, for sessions; TF_CONFIG has the rank.
HCCL = f"""
import json

import numpy as np

import npu_precision

npu_precision.install_as_npu_bridge()
from hccl.manage.api import *
from npu_bridge.hccl import hccl_ops
from npu_bridge.npu_init import *

tf.disable_eager_execution() if hasattr(tf, "disable_eager_execution") else None
RANK, SIZE = get_rank_id(), get_rank_size()

{_SHOW}"""

# The first lines of a script of npu_device; TF_CONFIG has the rank.
NPU_DEVICE = f"""
import json

import numpy as np
import tensorflow as tf

import npu_precision

npu_precision.install_as_npu_bridge()
import npu_device as npu
from hccl.manage.api import *

npu.open().as_default()
RANK, SIZE = get_rank_id(), get_rank_size()

{_SHOW}"""


def shown(printed):
    """The arguments of show(), call by call."""
    marked = [line for line in printed.splitlines() if line.startswith("SHOWN ")]
    return [json.loads(line[len("SHOWN ") :]) for line in marked]
