"""The command as a function, for callers that have imported TensorFlow anyway."""

from npu_precision_command import FAILED, INTERRUPTED
from npu_precision_command import run as main

__all__ = ["FAILED", "INTERRUPTED", "main"]
