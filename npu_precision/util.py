"""Public path of npu_bridge's util; the code is in npu_bridge/util.py."""

from npu_precision.npu_bridge.util import keep_tensors_dtypes

__all__ = ["keep_tensors_dtypes"]
