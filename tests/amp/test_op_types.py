"""Functions of TensorFlow's API and the op types that amp registers for them."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from npu_precision.amp import op_types

tf1 = tf.compat.v1


def ones(*shape):
    return np.ones(shape, np.float32)


VECTOR, MATRIX, CUBE = ones(4), ones(4, 4), ones(2, 4, 4)
IMAGE, FILTERS = ones(2, 8, 8, 4), ones(1, 1, 4, 4)
VOLUME, SERIES = ones(2, 4, 4, 4, 3), ones(2, 8, 4)
# A call for each name that is no op type.
CALLS = {
    "add": lambda f: f(MATRIX, MATRIX),
    "avg_pool1d": lambda f: f(SERIES, 2, 2, "SAME"),
    "avg_pool2d": lambda f: f(IMAGE, 2, 2, "SAME"),
    "clip_by_value": lambda f: f(MATRIX, 0.0, 1.0),
    "concat": lambda f: f([MATRIX, MATRIX], 0),
    "conv1d": lambda f: f(SERIES, ones(1, 4, 4), 1, "SAME"),
    "conv2d_transpose": lambda f: f(IMAGE, FILTERS, [2, 8, 8, 4], 1),
    "conv3d_transpose": lambda f: f(VOLUME, ones(1, 1, 1, 3, 3), [2, 4, 4, 4, 3], [1, 1, 1, 1, 1]),
    "convolution": lambda f: f(IMAGE, FILTERS, padding="SAME"),
    "depthwise_conv2d": lambda f: f(IMAGE, FILTERS, [1, 1, 1, 1], "SAME"),
    "diag": lambda f: f(VECTOR),
    "diag_part": lambda f: f(MATRIX),
    "tensor_diag": lambda f: f(VECTOR),
    "tensor_diag_part": lambda f: f(MATRIX),
    "divide": lambda f: f(MATRIX, MATRIX),
    "einsum": lambda f: f("ij,jk->ik", MATRIX, MATRIX),
    "gather": lambda f: f(MATRIX, [0]),
    "inv": lambda f: f(MATRIX),
    "local_response_normalization": lambda f: f(IMAGE),
    "matmul": lambda f: (f(MATRIX, MATRIX), f(CUBE, CUBE)),
    "max_pool1d": lambda f: f(SERIES, 2, 2, "SAME"),
    "max_pool2d": lambda f: f(IMAGE, 2, 2, "SAME"),
    "multiply": lambda f: f(MATRIX, MATRIX),
    "separable_conv2d": lambda f: f(IMAGE, FILTERS, ones(1, 1, 16, 4), [1, 1, 1, 1], "SAME"),
    "stack": lambda f: f([MATRIX, MATRIX]),
    "subtract": lambda f: f(MATRIX, MATRIX),
    "truediv": lambda f: f(MATRIX, MATRIX),
    "where": lambda f: f(MATRIX > 0.0, MATRIX, -MATRIX),
}
REGULAR = {
    tf.nn.relu: lambda f: f(MATRIX),
    tf.nn.softmax: lambda f: f(MATRIX),
    tf.nn.log_softmax: lambda f: f(MATRIX),
    tf.nn.l2_loss: lambda f: f(MATRIX),
    tf.nn.bias_add: lambda f: f(MATRIX, VECTOR),
    tf.nn.conv2d: lambda f: f(IMAGE, FILTERS, [1, 1, 1, 1], "SAME"),
    tf.nn.softmax_cross_entropy_with_logits: lambda f: f(labels=MATRIX, logits=MATRIX),
    tf.nn.max_pool3d: lambda f: f(VOLUME, [1, 2, 2, 2, 1], [1, 2, 2, 2, 1], "SAME"),
    tf.math.rsqrt: lambda f: f(MATRIX),
    tf.math.squared_difference: lambda f: f(MATRIX, MATRIX),
    tf.math.add_n: lambda f: f([MATRIX, MATRIX]),
    tf.pow: lambda f: f(MATRIX, 2.0),
    tf.exp: lambda f: f(MATRIX),
    tf.cumsum: lambda f: f(MATRIX),
    tf1.nn.fused_batch_norm: lambda f: f(IMAGE, VECTOR, VECTOR),
    tf.raw_ops.Tanh: lambda f: f(x=MATRIX),
}
ONE_MATRIX = sorted(set(op_types._IRREGULAR) - set(CALLS))


def found(name):
    """The function of this name, found anywhere in the API."""
    for module in (tf.linalg, tf.nn, tf, tf.math):
        if hasattr(module, name):
            return getattr(module, name)
    return pytest.skip(f"TensorFlow {tf.__version__} has no {name}")


def computes_with(function, call):
    """The op types of a call."""

    def of_tensors(*args, **kwargs):
        args, kwargs = tf.nest.map_structure(
            lambda value: tf.constant(value) if isinstance(value, np.ndarray) else value,
            (args, kwargs),
        )
        return function(*args, **kwargs)

    with tf.Graph().as_default() as graph:
        call(of_tensors)
    return {op.type for op in graph.get_operations()}


@pytest.mark.parametrize("name", [*CALLS, *ONE_MATRIX])
def test_a_function_by_another_name_computes_with_these_ops(name):
    function = found(name)
    if not op_types._IRREGULAR[name]:
        with pytest.raises(ValueError, match="made of several ops"):
            op_types.op_types(function)
        return
    call = CALLS.get(name, lambda f: f(MATRIX))
    assert computes_with(function, call) & set(op_types.op_types(function))


@pytest.mark.parametrize("function", REGULAR, ids=lambda function: function.__name__)
def test_a_function_by_an_ops_name_computes_with_it(function):
    assert computes_with(function, REGULAR[function]) & set(op_types.op_types(function))


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (tf.nn.relu, {"Relu", "ReluGrad"}),
        (tf.nn.tanh, {"Tanh", "TanhGrad"}),
        (tf.reduce_sum, {"Sum"}),
        (tf.nn.l2_loss, {"L2Loss"}),
    ],
)
def test_the_ops_of_its_gradient_alone_are_among_them(function, expected):
    assert set(op_types.op_types(function)) == expected


def test_all_versions_of_an_op_are_among_them():
    assert {"FusedBatchNorm", "FusedBatchNormV3", "FusedBatchNormGradV2"} <= set(
        op_types.op_types(tf1.nn.fused_batch_norm)
    )
