"""Ascend Apex's fused optimizers, as optimizers of Keras."""

from npu_precision.amp.optimizers.adadelta import NpuFusedAdadelta
from npu_precision.amp.optimizers.adam import NpuFusedAdam, NpuFusedAdamW
from npu_precision.amp.optimizers.adam_p import NpuFusedAdamP
from npu_precision.amp.optimizers.bert_adam import NpuFusedBertAdam
from npu_precision.amp.optimizers.lamb import NpuFusedLamb
from npu_precision.amp.optimizers.rmsprop import NpuFusedRMSprop, NpuFusedRMSpropTF
from npu_precision.amp.optimizers.sgd import NpuFusedSGD

__all__ = [
    "NpuFusedAdadelta",
    "NpuFusedAdam",
    "NpuFusedAdamP",
    "NpuFusedAdamW",
    "NpuFusedBertAdam",
    "NpuFusedLamb",
    "NpuFusedRMSprop",
    "NpuFusedRMSpropTF",
    "NpuFusedSGD",
]
