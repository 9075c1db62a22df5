"""Finds the op types that a function of TensorFlow's API computes with."""

from __future__ import annotations

import inspect
import re
from typing import Any

import tensorflow as tf

from npu_precision import _errors, _tf_compat

# Functions whose op types have other names; () for a function that is made of several ops.
_IRREGULAR: dict[str, tuple[str, ...]] = {
    "add": ("Add", "AddV2"),
    "avg_pool1d": ("AvgPool",),
    "avg_pool2d": ("AvgPool",),
    "clip_by_value": ("Minimum", "Maximum"),
    "concat": ("ConcatV2",),
    "conv1d": ("Conv2D",),
    "conv2d_transpose": ("Conv2DBackpropInput",),
    "conv3d_transpose": ("Conv3DBackpropInput",),
    "convolution": ("Conv2D", "Conv3D"),
    "depthwise_conv2d": ("DepthwiseConv2dNative",),
    "diag": ("MatrixDiag",),
    "diag_part": ("MatrixDiagPart",),
    "divide": ("RealDiv",),
    "einsum": _tf_compat.OPS_OF_EINSUM,
    "gather": ("GatherV2",),
    "inv": ("MatrixInverse",),
    "local_response_normalization": ("LRN",),
    "matmul": ("MatMul", "BatchMatMul"),
    "max_pool1d": ("MaxPool",),
    "max_pool2d": ("MaxPool",),
    "multiply": ("Mul",),
    "negative": ("Neg",),
    "reduce_logsumexp": ("Exp", "Sum", "Log"),
    "reduce_max": ("Max",),
    "reduce_mean": ("Mean",),
    "reduce_min": ("Min",),
    "reduce_prod": ("Prod",),
    "reduce_sum": ("Sum",),
    "separable_conv2d": ("Conv2D", "DepthwiseConv2dNative"),
    "stack": ("Pack",),
    "subtract": ("Sub",),
    "tensor_diag": ("Diag",),
    "tensor_diag_part": ("DiagPart",),
    "truediv": ("RealDiv",),
    "unstack": ("Unpack",),
    "where": ("Select",),
}
# The suffix of later versions of an op type, and of ops that only compute its gradient.
_KIN = r"(Grad(Grad)?|Backprop(Input|Filter))?(V\d+)?"
_RAW_OPS = [name for name in dir(tf.raw_ops) if not name.startswith("_")]


def computes_with_own_ops(function: Any) -> bool:
    """Whether op_types() knows the ops of a function."""
    try:
        return bool(op_types(function))
    except ValueError:
        return False


def op_types(function: Any) -> list[str]:
    """The op types of a function, its versions and its gradient, as ["Relu", "ReluGrad"].

    Args:
        function: a function of TensorFlow's API, such as tf.nn.relu or tf.raw_ops.Relu.

    Raises:
        ValueError: it is not such a function, or has no op type of its own.
    """
    name = _tf_compat.api_name(function)
    if name is None or inspect.isclass(function):
        raise ValueError(
            f"function: got {_errors.got(function)}, expected a function of TensorFlow's API such "
            'as tf.nn.softmax, or the name of an op type such as "Softmax"; a function of your own '
            "takes its module and its name, or a decorator such as amp.half_function"
        )
    last = name.rpartition(".")[2]
    named = [op for op in _RAW_OPS if op.lower() == last.replace("_", "").lower()]
    bases = _IRREGULAR.get(last, named)
    found = {op for base in bases for op in _RAW_OPS if re.fullmatch(base + _KIN, op)}
    if not found:
        raise ValueError(
            f"function: tf.{name} is made of several ops, or of none of its own: give its module "
            'and its name, as (tf.nn, "moments"), or op types by name ("Softmax")'
        )
    return sorted(found)
