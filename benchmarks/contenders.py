"""The contenders: float32, TensorFlow's own mixed precision, and our modes."""

from __future__ import annotations

import importlib.util

import tensorflow as tf
from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig

tf1 = tf.compat.v1
BASELINE = "float32"
TENSORFLOW = "tf amp"
OURS = "npu"
OPENVINO = "openvino"


def _float32() -> tf1.ConfigProto:
    return tf1.ConfigProto()


def _tensorflow() -> tf1.ConfigProto:
    config = tf1.ConfigProto()
    rewrite = config.graph_options.rewrite_options
    rewrite.auto_mixed_precision_onednn_bfloat16 = RewriterConfig.ON
    return config


def dtypes_only() -> dict[str, bool]:
    """The options that switch off passes that change more than dtypes."""
    from npu_precision import _library

    return dict.fromkeys(_library.passes_beyond_dtypes(), False)


def _ours(precision_mode: str = "allow_mix_precision_bf16", **options: object) -> tf1.ConfigProto:
    import npu_precision  # not installed in the environments of other contenders

    return npu_precision.npu_config_proto(precision_mode=precision_mode, quiet=True, **options)


_CONFIGS = {
    BASELINE: _float32,
    TENSORFLOW: _tensorflow,
    OURS: _ours,
    # Only dtypes change: the difference is the gain by folding and padding.
    "npu, dtypes": lambda: _ours(**dtypes_only()),
}
NAMES = tuple(_CONFIGS)
_MODE = "npu, "


def of_mode(name: str) -> str:
    """The contender that runs one of our modes: "MODE", or "MODE/native" for a float16_compute.

    Raises:
        ValueError: there is no such mode, or nothing like that to compute in.
    """
    _of_mode(name)
    return _MODE + name


def _of_mode(name: str) -> tf1.ConfigProto:
    precision_mode, _, float16_compute = name.partition("/")
    return _ours(precision_mode, float16_compute=float16_compute or None)


def config(contender: str) -> tf1.ConfigProto:
    """The ConfigProto of the contender's sessions."""
    if contender in _CONFIGS:
        return _CONFIGS[contender]()
    return _of_mode(contender[len(_MODE) :])


def grappler_name(contender: str) -> str | None:
    """Grappler's name of the contender's pass, if it has one."""
    if contender.startswith(OURS):
        return "NpuOptimizer"
    return {TENSORFLOW: "auto_mixed_precision_onednn_bfloat16"}.get(contender)


def has_openvino() -> bool:
    """Whether OpenVINO's wheel is installed; it runs the frozen graphs, and shows the limit."""
    return importlib.util.find_spec("openvino") is not None
