"""npu_device by its original import lines, after install_as_npu_bridge()."""

from __future__ import annotations

import pytest
from support.tf_versions import needs_functions_by_default

BEGIN = """
import npu_precision

npu_precision.install_as_npu_bridge()
"""
IMPORTS = f"""{BEGIN}
import sys

import npu_device
import npu_device as npu
import npu_device.train.optimizer
from npu_device import distribute, global_options
from npu_device.compat.v1.estimator import npu_ops
from npu_device.compat.v1.hccl import hccl_ops
from npu_device.compat.v1.npu_init import *
from npu_device.npu_device import set_device_sat_mode
from npu_device.train.optimizer import NpuLossScaleOptimizer

import npu_bridge.estimator.npu_ops
import npu_precision.npu_device

assert npu_device is npu_precision.npu_device
assert npu_device.__spec__.name == "npu_precision.npu_device"
assert npu.distribute is distribute
assert npu.train.optimizer.NpuLossScaleOptimizer is NpuLossScaleOptimizer
assert npu.npu_device.set_device_sat_mode is npu.set_device_sat_mode is set_device_sat_mode
assert npu.keep_dtype_scope is npu_precision.keep_dtype_scope
assert npu.compat.v1.npu_init.NPURunConfig is NPURunConfig is npu_precision.NPURunConfig
assert npu_ops is npu_bridge.estimator.npu_ops
assert hccl_ops.__name__ == "npu_precision.hccl.hccl_ops"
assert npu.compat.enable_v1() is None
# Each module is there once.
assert not [name for name in sys.modules if sys.modules[name].__name__.startswith("npu_device")]
for name in npu.__all__:
    assert getattr(npu, name).__doc__, name
"""


@needs_functions_by_default
def test_the_names_come_by_npu_devices_own_import_lines(run_cold_python):
    run_cold_python(IMPORTS)


@needs_functions_by_default
@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("import npu_device.nothing", "No module named 'npu_precision.npu_device.nothing'"),
        ("import npu_device.compat.v1.nothing", "no counterpart of npu_bridge.nothing"),
    ],
)
def test_a_module_that_is_not_here_is_named(run_python, line, message):
    assert message in run_python(BEGIN + line, check=False).stderr


def test_a_real_npu_device_is_not_hidden(run_python, tmp_path):
    (tmp_path / "npu_device").mkdir()
    (tmp_path / "npu_device" / "__init__.py").touch()
    process = run_python(BEGIN, check=False)
    assert "RuntimeError: the real npu_device is installed here" in process.stderr


SESSION = f"""{BEGIN}
import npu_device
from npu_device.compat.v1.npu_init import *

tf.disable_eager_execution()
npu_device.compat.enable_v1()
config = npu_config_proto(tf.ConfigProto(), precision_mode="allow_mix_precision")
x = tf.placeholder(tf.float32, [1, 1])
with tf.Session(config=config) as session:
    session.run(npu_ops.initialize_system())
    print(session.run(tf.matmul(x, x), {{x: [[1 + 2**-12]]}}).item())
    session.run(npu_ops.shutdown_system())
"""


@needs_functions_by_default
def test_a_tf1_script_runs_in_sessions_on_tensorflow_2(run_python):
    assert run_python(SESSION).stdout == "1.0\n"


ON_1_15 = f"""{BEGIN}
import tensorflow as tf

try:
    import npu_device
    print("imported")
except ImportError as error:
    print(error)
"""


def test_tensorflow_1_has_no_npu_device(run_python):
    import tensorflow as tf

    expected = "imported"
    if tf.__version__.startswith("1."):
        expected = (
            "npu_device is for TensorFlow 2, and this is TensorFlow 1, whose scripts write "
            "`from npu_bridge.npu_init import *`"
        )
    assert run_python(ON_1_15).stdout.strip() == expected
