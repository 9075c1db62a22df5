"""npu_device.train, which has the loss-scale optimizer."""

from npu_precision.npu_device.train import optimizer

__all__ = ["optimizer"]
