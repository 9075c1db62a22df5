"""The contenders of `make numerics`: float32, our two modes, and TensorFlow's and Keras' own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import tensorflow as tf
from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig

import npu_precision

tf1 = tf.compat.v1

FLOAT32 = "float32"
MODES = {"bf16": "allow_mix_precision_bf16", "fp16": "allow_mix_precision_fp16"}
# Only rounds the inputs of matrix products, to see how much of a distance this explains.
ROUNDED = "rounded"
_PRECISION_MODES = {**MODES, ROUNDED: "cube_fp16in_fp32out"}
TENSORFLOW = "tf amp"
KERAS = "keras"
NAMES = (FLOAT32, *MODES, TENSORFLOW, KERAS)
ALL = (*NAMES, ROUNDED)
# The low dtype of each contender, which determines how far from float32 it may be.
LOW = {
    "bf16": "bfloat16",
    "fp16": "float16",
    ROUNDED: "float16",
    TENSORFLOW: "bfloat16",
    KERAS: "bfloat16",
}


def scales_losses(contender: str) -> bool:
    """Whether a user would scale the loss: float16 has too few exponents for gradients."""
    return contender == "fp16"


def _options(contender: str, **options: object) -> npu_precision.PrecisionOptions:
    # float16 kernels round after each op, as on a device. Computing in float32 would hide errors
    # that a rule misses.
    return npu_precision.PrecisionOptions(
        _PRECISION_MODES[contender], float16_compute="native", **options
    )


@contextlib.contextmanager
def functions(contender: str, **options: object) -> Iterator[None]:
    """Context in which tf.functions are traced and run in the contender's precision."""
    if contender in _PRECISION_MODES:
        with npu_precision.autocast(_options(contender, **options)):
            yield
    elif contender == TENSORFLOW:
        # The worker runs this contender alone, so nothing has to be set back.
        tf.config.optimizer.set_experimental_options({"auto_mixed_precision_onednn_bfloat16": True})
        yield
    elif contender == KERAS:
        tf.keras.mixed_precision.set_global_policy("mixed_bfloat16")
        yield
    else:
        yield


def session_config(contender: str, **options: object) -> tf1.ConfigProto:
    """The ConfigProto of the contender's sessions."""
    config = tf1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    if contender in _PRECISION_MODES:
        return npu_precision.npu_config_proto(config, options=_options(contender, **options))
    if contender == TENSORFLOW:
        rewrite = config.graph_options.rewrite_options
        rewrite.auto_mixed_precision_onednn_bfloat16 = RewriterConfig.ON
    return config
