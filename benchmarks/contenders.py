"""The contenders: float32, the mixed precision of TensorFlow and of Keras, and our modes."""

from __future__ import annotations

import importlib.util

import tensorflow as tf
from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig

tf1 = tf.compat.v1
BASELINE = "float32"
# Not a contender: errors are measured against its results, because TensorFlow's remapper changes
# float32's: it gives a layer norm written with tf.nn.moments an epsilon of 0.001, whatever the
# graph says.
REFERENCE = "float32 without fusions"
TENSORFLOW = "tf amp"
OURS = "npu"
DTYPES = "npu, dtypes"
# In the row of a SavedModel: the frozen graph of the same model, in a session with our optimizer.
FROZEN = "npu, frozen"
# Of a SavedModel's row: converted for CPUs with oneDNN, which a conversion does not rely on.
FOR_ONEDNN = "npu, for oneDNN"
OPENVINO = "openvino"
# In the row of Keras' fit: the global policy mixed_bfloat16.
POLICY = "keras policy"


def dtypes_only() -> dict[str, str | bool]:
    """The options that switch off passes that change more than dtypes."""
    return {"rewrites": "none", "lower_collectives": False}


_TOGGLES = {
    BASELINE: {},
    REFERENCE: {"remapping": False},
    TENSORFLOW: {"auto_mixed_precision_onednn_bfloat16": True},
}
NAMES = (BASELINE, TENSORFLOW, OURS, DTYPES)
ITEX = "itex amp"
ZENTF = "zentf"
# Our modes should be as fast as each of these.
PEERS = (TENSORFLOW, POLICY, ITEX, ZENTF, FROZEN)
_MODE = "npu, "
# Sessions with an entry that is written by hand, not by npu_config_proto: without more, and as the
# documents of Ascend have it. By toggles that are off.
_BY_HAND = {
    f"{_MODE}bare": (),
    f"{_MODE}documented": ("remapping", "memory_optimization"),
}


def of_mode(name: str) -> str:
    """The contender that runs one of our modes: "MODE", or "MODE/native" for a float16_compute.

    Also "bare" and "documented", for an entry in custom_optimizers that is written by hand; and
    "-REWRITE", the usual mode without a rewrite.

    Raises:
        ValueError: there is no such mode or no such float16_compute.
    """
    if _MODE + name in _BY_HAND:
        return _MODE + name
    import npu_precision

    npu_precision.PrecisionOptions(**fields(_MODE + name))
    return _MODE + name


def is_ours(contender: str) -> bool:
    """Whether the contender is one of our modes."""
    return contender.startswith(OURS)


def fields(contender: str) -> dict[str, object]:
    """The fields of PrecisionOptions of one of our modes."""
    usual = {"precision_mode": "allow_mix_precision_bf16"}
    if contender in (OURS, FROZEN):
        return usual
    if contender == FOR_ONEDNN:
        return {**usual, "rewrites": "grouped_convolutions,means_as_pools"}
    if contender == DTYPES:
        # Only dtypes change: the difference is the gain by folding and fusing.
        return {**usual, **dtypes_only()}
    mode = contender[len(_MODE) :]
    if mode.startswith("-"):
        return {**usual, "rewrites": mode}
    precision_mode, _, float16_compute = mode.partition("/")
    return {
        **usual,
        "precision_mode": precision_mode,
        "float16_compute": float16_compute or None,
    }


def config(contender: str) -> tf1.ConfigProto:
    """The ConfigProto of the contender's sessions."""
    if is_ours(contender):
        import npu_precision

        if contender in _BY_HAND:
            return _by_hand(contender)
        return npu_precision.npu_config_proto(**fields(contender))
    result = tf1.ConfigProto()
    for name, is_on in toggles(contender).items():
        toggle = RewriterConfig.ON if is_on else RewriterConfig.OFF
        setattr(result.graph_options.rewrite_options, name, toggle)
    return result


def _by_hand(contender: str) -> tf1.ConfigProto:
    result = tf1.ConfigProto()
    rewrite = result.graph_options.rewrite_options
    entry = rewrite.custom_optimizers.add(name="NpuOptimizer")
    entry.parameter_map["precision_mode"].s = str(fields(OURS)["precision_mode"]).encode()
    for name in _BY_HAND[contender]:
        setattr(rewrite, name, RewriterConfig.OFF)
    return result


def toggles(contender: str) -> dict[str, bool]:
    """The options of TensorFlow's own passes, by name, for a contender that is not ours."""
    return _TOGGLES[contender]


def grappler_name(contender: str) -> str | None:
    """Grappler's name of the contender's pass, if it has one."""
    if is_ours(contender):
        return "NpuOptimizer"
    return {TENSORFLOW: "auto_mixed_precision_onednn_bfloat16"}.get(contender)


def has_openvino() -> bool:
    """Whether OpenVINO's wheel is installed; it runs the frozen graphs, and shows the limit."""
    return importlib.util.find_spec("openvino") is not None
