"""Names that differ between the versions of TensorFlow."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tensorflow.python.util import tf_export

IS_TF1 = tf.__version__.startswith("1.")

# TensorFlow 1.15 warns of the names in tensorflow itself that are deprecated.
tf1 = tf.compat.v1

# The module that TF1 scripts call tf. On TensorFlow 1.15 it is tensorflow itself, because compat.v1
# lacks tf.contrib.
tf_of_scripts = tf if IS_TF1 else tf1

# TensorFlow 1.15 warns of its own tf.where.
where = tf.compat.v2.where

# TF1's loss scaling moved here in 2.4.
_MIXED_PRECISION = getattr(tf1, "mixed_precision", None) or tf1.train.experimental

LossScale: Any = _MIXED_PRECISION.LossScale

MixedPrecisionLossScaleOptimizer: Any = _MIXED_PRECISION.MixedPrecisionLossScaleOptimizer

# Grappler merges several sums into one AddN, without their attributes. It leaves sums with this
# attribute alone, because it takes them for merged ones.
IS_MERGED_SUM = "_grappler_ArithmeticOptimizer_AddOpsRewriteStage"

SUMS = ("Add", "AddV2", "AddN")

# tf.einsum of TensorFlow 1.15 builds matrix products instead of an Einsum.
OPS_OF_EINSUM = () if IS_TF1 else ("Einsum",)

# Strategies whose replicas hold copies of all variables, and make each step together.
MIRRORED_STRATEGIES: tuple[type, ...] = tuple(
    getattr(module, name)
    for module, name in (
        (tf.distribute, "MirroredStrategy"),
        (tf.distribute, "MultiWorkerMirroredStrategy"),
        (tf.distribute.experimental, "MultiWorkerMirroredStrategy"),
    )
    if hasattr(module, name)
)

# Strategies whose workers make steps of their own, on variables that they share.
PARAMETER_SERVER_STRATEGIES: tuple[type, ...] = (
    (tf.distribute.ParameterServerStrategy,)
    if hasattr(tf.distribute, "ParameterServerStrategy")
    else ()
)

_NO_ESTIMATOR = (
    f"TensorFlow {tf.__version__} has no tf.estimator (2.15 is the last that does): use "
    "npu_precision.enable() with Keras or tf.function, or npu_config_proto() with a session"
)


class NoEstimator:
    """Replaces a base class of tf.estimator in TensorFlow versions without it."""

    def __new__(cls, *args: Any, **kwargs: Any) -> NoEstimator:
        raise RuntimeError(_NO_ESTIMATOR)


def estimator_class(name: str) -> Any:
    """A class of tf.compat.v1.estimator, or one that raises an error when it is instantiated."""
    try:
        return getattr(tf.compat.v1.estimator, name)
    except (AttributeError, ImportError):
        return NoEstimator


def api_name(function: Any) -> str | None:
    """The name of a function in TensorFlow's API without "tf."; None for other functions."""
    try:
        return tf_export.get_canonical_name_for_symbol(function, add_prefix_to_v1_names=False)
    except AttributeError:  # Objects that cannot have such a name.
        return None
