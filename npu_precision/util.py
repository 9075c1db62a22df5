"""Public path of npu_bridge's util; the code is in npu_bridge/util.py."""

from npu_precision.npu_bridge.util import (
    IterationPerLoop,
    keep_tensors_dtypes,
    set_iteration_per_loop,
)

__all__ = ["IterationPerLoop", "keep_tensors_dtypes", "set_iteration_per_loop"]
