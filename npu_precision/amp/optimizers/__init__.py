"""Ascend Apex's fused optimizers, as optimizers of Keras."""

from npu_precision.amp.optimizers.adam import NpuFusedAdam, NpuFusedAdamW
from npu_precision.amp.optimizers.sgd import NpuFusedSGD

__all__ = [
    "NpuFusedAdam",
    "NpuFusedAdamW",
    "NpuFusedSGD",
]
