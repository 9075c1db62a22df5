"""npu_device.train."""

from npu_precision.npu_device.train import optimizer

__all__ = ["optimizer"]
