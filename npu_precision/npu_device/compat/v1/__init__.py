"""npu_device.compat.v1: what TF1 scripts import from npu_bridge, as npu_device.compat.v1."""

from npu_precision.npu_bridge import npu_init

__all__ = ["npu_init"]
