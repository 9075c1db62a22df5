"""Marks and functions that skip a test that a TensorFlow version cannot run.

No other module does this. The reason is shown in pytest's summary. The conditions test the ability,
not the version.
"""

from __future__ import annotations

import inspect
import os
import pathlib
import re

import pytest
import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.framework import kernels

try:
    from tensorflow.python.util import _pywrap_util_port
except ImportError:  # TensorFlow 1.15 has no kernels of oneDNN.
    _pywrap_util_port = None

from npu_precision import _tf_compat
from npu_precision.npu_bridge import estimator


def _needs(has, lacks):
    return pytest.mark.skipif(not has, reason=f"TensorFlow {tf.__version__} {lacks}")


def _registered(op, device_type, dtype=None):
    number = dtype and tf.as_dtype(dtype).as_datatype_enum
    return any(
        kernel.device_type == device_type
        # A kernel without a constraint takes every type.
        and (
            dtype is None
            or not kernel.constraint
            or any(number in each.allowed_values.list.type for each in kernel.constraint)
        )
        for kernel in kernels.get_registered_kernels_for_op(op).kernel
    )


def has_kernel(op, dtype):
    """Whether a CPU can run the op in the dtype, for generators that leave out other ops."""
    return _registered(op, "CPU", dtype)


def moves_handles(op):
    """Whether a CPU can run the op on a tensor of TensorLists, whatever the dtype of its shapes."""
    if op == "Tile" and _VERSION < (2, 0):
        return False  # It has one kernel for all types, which refuses some when it runs.
    return any(
        kernel.device_type == "CPU"
        and all(
            tf.variant.as_datatype_enum in each.allowed_values.list.type
            for each in kernel.constraint
            if each.name in ("T", "Tparams")
        )
        for kernel in kernels.get_registered_kernels_for_op(op).kernel
    )


def need_kernels(dtype, *ops):
    """Skips the calling test if an op has no CPU kernel for the dtype."""
    lacking = [op for op in ops if not has_kernel(op, dtype)]
    if lacking:
        pytest.skip(f"TensorFlow {tf.__version__} has no {dtype} kernel of {', '.join(lacking)}")


def needs_kernels(dtype, *ops):
    """A mark that applies need_kernels to a whole test."""
    return _needs(
        all(has_kernel(op, dtype) for op in ops),
        f"lacks a {dtype} kernel of {', '.join(ops)}",
    )


def needs_ops(*ops):
    """A mark that skips a test if TensorFlow does not know the ops."""
    return _needs(all(map(_tf_compat.op_definition, ops)), f"does not know {', '.join(ops)}")


needs_every_listed_op = _needs(
    _tf_compat.op_definition("BatchMatMulV3"),
    "is older than some ops of the lists, which newer versions check",
)
HAS_ESTIMATOR = not issubclass(estimator.NPUEstimator, _tf_compat.NoEstimator)
needs_estimator = _needs(HAS_ESTIMATOR, "has no tf.estimator")
needs_synchronized_batch_norm = _needs(
    "synchronized" in inspect.signature(tf.keras.layers.BatchNormalization.__init__).parameters,
    "has no batch norms of Keras that are synchronized over replicas",
)
_HAS_KERAS_2 = hasattr(tf.compat.v1.keras.backend, "set_session")
needs_fused_optimizers = _needs(
    hasattr(getattr(tf.keras.optimizers, "Optimizer", None), "build"),
    "has Keras' optimizers of before 2.11",
)
needs_keras_2 = _needs(
    _HAS_KERAS_2,
    "has Keras 3, without tf.layers, sessions and SavedModels of its own",
)
needs_keras_3 = _needs(not _HAS_KERAS_2, "has Keras 2")
HAS_NPU_DEVICE = not _tf_compat.IS_TF1
needs_functions_by_default = _needs(
    not _tf_compat.IS_TF1, "runs a tf.function only after tf.enable_v2_behavior()"
)
needs_fast_loops = _needs(not _tf_compat.IS_TF1, "takes minutes to train a recurrent network")
needs_exact_float32_kernels = _needs(
    not _tf_compat.IS_TF1, "has float32 kernels of Expm1, Sqrt and Rsqrt that float16's disown"
)
needs_frozen_loops = _needs(
    not _tf_compat.IS_TF1, "makes no constants of variables that a loop reads"
)
needs_shapes_of_arguments = _needs(
    not _tf_compat.IS_TF1, "does not infer shapes in functions from their arguments'"
)
IS_OF_THE_DOCS = tf.__version__.startswith("2.15.")
needs_outputs_of_the_docs = _needs(
    IS_OF_THE_DOCS,
    "is not that of the demo and of the outputs in docs",
)
needs_function_attributes = _needs(
    "experimental_attributes" in inspect.signature(tf.function).parameters,
    "has no way to say that a tf.function is not inlined",
)
needs_compiled_functions = _needs(
    "jit_compile" in inspect.signature(tf.function).parameters,
    "compiles no tf.function by itself",
)
needs_compiler_ir = _needs(
    hasattr(context.Context, "get_compiler_ir"),
    "does not show the code that XLA generates",
)
needs_logical_devices = _needs(
    hasattr(tf.config, "set_logical_device_configuration"),
    "does not make two devices of a CPU",
)
needs_workers = _needs(
    hasattr(tf.distribute, "MultiWorkerMirroredStrategy"), "has no MultiWorkerMirroredStrategy"
)
needs_cluster_store = _needs(
    _tf_compat.HAS_CLUSTER_STORE, "has no store of its cluster that is read without waiting"
)
needs_coordinator = _needs(
    hasattr(getattr(tf.distribute, "coordinator", None), "ClusterCoordinator"),
    "has no coordinator of parameter servers",
)
needs_fit_with_workers = _needs(
    _HAS_KERAS_2 and hasattr(tf.distribute, "MultiWorkerMirroredStrategy"),
    "has Keras 3, whose fit() cannot read what a dataset gives to several workers",
)
needs_collectives_that_end = _needs(
    not _tf_compat.IS_TF1, "waits for a rank that died between two runs, whatever the time-out"
)
needs_train_step = _needs(
    hasattr(tf.keras.Model, "train_step"), "has no train_step() of Keras models to override"
)
needs_saved_custom_gradients = _needs(
    not _tf_compat.IS_TF1, "loses custom gradients when it saves a model"
)
needs_gpu_kernels = _needs(
    _registered("MatMul", "GPU"), "comes without kernels for GPUs, whose lists this is about"
)
needs_onednn = _needs(
    _registered("_MklConv2D", "CPU") and _pywrap_util_port.IsMklEnabled(),
    "comes without oneDNN, or its processor lacks the instructions for which it is on by default",
)
needs_ops_without_python = _needs(
    not _tf_compat.IS_TF1, "registers its ops in Python's extension, not for other programs"
)
# Scripts of tests/ascend_scripts/ with this text need more than every TensorFlow has.
_NEEDS_OF_SCRIPTS = {
    r"\btf\.layers\.|\brnn_cell\.|\bset_keras_session_npu_config\b": needs_keras_2,
    r"\bNPUEstimator\b|\btf\.estimator\.": needs_estimator,
    r"\bnpu_device\b": needs_functions_by_default,
}


def needs_of_script(text):
    """The marks of a test that runs a script with this text."""
    return [mark for pattern, mark in _NEEDS_OF_SCRIPTS.items() if re.search(pattern, text)]


# The largest share of a random corpus, so that three versions do not take three times as long: see
# tiers.py.
LARGEST_SHARE = 1.0 if tf.__version__.startswith("2.15.") else 0.2
# TensorFlow 1.15 silently runs no optimizer if a session feeds an op that is no placeholder.
OPTIMIZES_WHATEVER_IS_FED = not _tf_compat.IS_TF1
needs_any_node_name = _needs(not _tf_compat.IS_TF1, "allows fewer characters in the names of nodes")
needs_3d_batch_norm = _needs(not _tf_compat.IS_TF1, "has no fused batch norm of five dimensions")

needs_gradients_of_means_by_shape = _needs(
    not _tf_compat.IS_TF1,
    "writes the gradient of a mean over any batch in another form, which stays",
)

# Which instructions oneDNN's kernels use is known by version alone.
_VERSION = tuple(int(part) for part in tf.__version__.split(".")[:2])
_FLAGS = re.search(r"^flags\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE)
_CPU = set(_FLAGS.group(1).split()) if _FLAGS else set()
# For some versions, Eigen's kernel of a product by a vector added in float16.
ADDS_PRODUCTS_IN_FLOAT16 = _VERSION == (2, 15)
EMULATES_FLOAT16 = _VERSION < (2, 21) or not _CPU & {"avx512_fp16", "amx_fp16"}
HAS_ONEDNN_IN_BFLOAT16 = (
    _VERSION >= (2, 15)
    and "avx512f" in _CPU
    and os.environ.get("TF_ENABLE_ONEDNN_OPTS", "1") != "0"
    and _registered("_MklConv2D", "CPU")
)
needs_onednn_in_bfloat16 = _needs(
    HAS_ONEDNN_IN_BFLOAT16,
    "or its processor runs no kernels of oneDNN in bfloat16",
)
HAS_FAST_BFLOAT16 = _VERSION >= (2, 15) and bool(_CPU & {"avx512_bf16", "amx_bf16"})


def _adds_bfloat16_means_in_float32():
    if not has_kernel("Mean", tf.bfloat16):
        return False
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        # A sum of ones in bfloat16 never exceeds 256.
        ones = tf.ones([1024, 2], tf.bfloat16)
        return bool((session.run(tf.cast(tf.reduce_mean(ones, 0), tf.float32)) == 1).all())


def _truncates_bfloat16_products():
    if not has_kernel("MatMul", tf.bfloat16):
        return False
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        # 1.162109375 is between 1.15625 and the nearer 1.1640625.
        a, b = (tf.compat.v1.placeholder(tf.float32, [1, 1]) for _ in range(2))
        product = tf.matmul(tf.cast(a, tf.bfloat16), tf.cast(b, tf.bfloat16))
        got = session.run(tf.cast(product, tf.float32), {a: [[1.0625]], b: [[1.09375]]})
        return bool(got.item() == 1.15625)


TRUNCATES_BFLOAT16_PRODUCTS = _truncates_bfloat16_products()
ADDS_BFLOAT16_MEANS_IN_FLOAT32 = _adds_bfloat16_means_in_float32()
needs_inexact_means = _needs(
    not ADDS_BFLOAT16_MEANS_IN_FLOAT32 and has_kernel("Mean", tf.bfloat16),
    "adds up a Mean in bfloat16 in float32, and lowers it",
)
