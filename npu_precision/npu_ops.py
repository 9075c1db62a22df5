"""Public path of npu_bridge's npu_ops; the code is in npu_bridge/npu_ops.py."""

from npu_precision.npu_bridge import npu_ops as _npu_ops
from npu_precision.npu_bridge.npu_ops import (
    LARS,
    LARSV2,
    dropout,
    initialize_system,
    shutdown_system,
)

__all__ = ["LARS", "LARSV2", "dropout", "initialize_system", "shutdown_system"]
# Explains, for every other op, why it is not here.
__getattr__ = _npu_ops.__getattr__
