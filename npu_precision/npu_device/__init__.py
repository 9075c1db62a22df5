"""Stand-ins, under the same names, for the parts of npu_device that TensorFlow 2 scripts import.

    import npu_device as npu

    npu.global_options().precision_mode = "allow_mix_precision"
    npu.open().as_default()

Import it as `npu_device` after npu_precision.install_as_npu_bridge(), or in a script that runs by
`python -m npu_precision`; otherwise as `npu_precision.npu_device`. docs/npu-device.md lists which
parts have an effect.
"""

from npu_precision import _tf_compat

if _tf_compat.IS_TF1:
    raise ImportError(
        "npu_device is for TensorFlow 2, and this is TensorFlow 1, whose scripts write "
        "`from npu_bridge.npu_init import *`"
    )

from npu_precision.npu_device import compat, configs, distribute, npu_device, ops, train
from npu_precision.npu_device.npu_device import (
    global_options,
    npu_run_context,
    open,
    set_device_sat_mode,
    set_npu_loop_size,
)
from npu_precision.scope import keep_dtype_scope

__all__ = [
    "compat",
    "configs",
    "distribute",
    "global_options",
    "keep_dtype_scope",
    "npu_device",
    "npu_run_context",
    "open",
    "ops",
    "set_device_sat_mode",
    "set_npu_loop_size",
    "train",
]
