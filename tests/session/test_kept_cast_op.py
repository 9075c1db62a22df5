"""The op that low_weights writes: sizes, dtypes, scales, and errors for what does not fit."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from support.tf_versions import needs_onednn_in_bfloat16
from tensorflow.core.framework import graph_pb2

import npu_precision

pytestmark = [pytest.mark.cpu("weights are kept on CPUs alone"), needs_onednn_in_bfloat16]
tf1 = tf.compat.v1
LOW = [tf.bfloat16, tf.float16]
# Around the size of a block, and large enough for several threads.
SIZES = [0, 1, 511, 512, 513, 300_001]


def kept_cast(x, dtype, *scales):
    """Adds the op to the default graph."""
    npu_precision.npu_config_proto(precision_mode="allow_mix_precision")  # loads the library
    graph = graph_pb2.GraphDef()
    for number in range(1 + len(scales)):
        node = graph.node.add(name=f"input{number}", op="Placeholder")
        node.attr["dtype"].type = tf.float32.as_datatype_enum
    node = graph.node.add(name="kept", op="NpuPrecisionKeptCast")
    node.input.extend(f"input{number}" for number in range(1 + len(scales)))
    node.attr["S"].i = len(scales)
    node.attr["dtype"].type = dtype.as_datatype_enum
    mapped = {f"input{number}": each for number, each in enumerate([x, *scales])}
    return tf.import_graph_def(graph, mapped, return_elements=["kept:0"], name="")[0]


def assert_same_bits(a, b):
    assert a.dtype == b.dtype
    np.testing.assert_array_equal(a.view(np.uint16), b.view(np.uint16))


def run(build):
    with tf.Graph().as_default():
        tensors = build()
        with tf1.Session() as session:
            return session.run(tensors)


@pytest.mark.parametrize("dtype", LOW, ids=lambda each: each.name)
@pytest.mark.parametrize("size", SIZES)
def test_it_rounds_as_a_cast_does(size, dtype):
    x = np.random.default_rng(size).normal(size=size).astype(np.float32)
    assert_same_bits(*run(lambda: [kept_cast(tf.constant(x), dtype), tf.cast(x, dtype)]))


@pytest.mark.parametrize("dtype", LOW, ids=lambda each: each.name)
def test_extremes_and_ties_are_rounded_as_by_a_cast(dtype):
    bits = np.random.default_rng(0).integers(0, 2**32, 200_000, np.uint64).astype(np.uint32)
    ties = (bits & np.uint32(0xFFFF0000)) | np.uint32(0x8000)
    x = np.concatenate([bits, ties]).view(np.float32)
    kept, cast = run(lambda: [kept_cast(tf.constant(x), dtype), tf.cast(x, dtype)])
    is_nan = np.isnan(kept.astype(np.float32))
    np.testing.assert_array_equal(is_nan, np.isnan(cast.astype(np.float32)))
    assert is_nan.any()
    assert_same_bits(kept[~is_nan], cast[~is_nan])


@pytest.mark.parametrize("dtype", LOW, ids=lambda each: each.name)
@pytest.mark.parametrize(
    ("shape", "of_scale"),
    [
        ([3, 3, 40, 96], [96]),
        ([3, 3, 40, 96], [40, 96]),
        ([3, 3, 700, 1], [700, 1]),
        ([2, 1500], [1500]),
        ([67, 4999], [4999]),
        ([5], [5]),
        ([2, 3], []),
    ],
)
def test_a_scale_multiplies_the_last_dimensions_in_float32(shape, of_scale, dtype):
    random = np.random.default_rng(0)
    x, scale = (random.normal(size=size).astype(np.float32) for size in (shape, of_scale))
    kept, cast = run(
        lambda: [kept_cast(tf.constant(x), dtype, tf.constant(scale)), tf.cast(x * scale, dtype)]
    )
    assert_same_bits(kept, cast)


@pytest.mark.parametrize(
    ("x", "scales", "message"),
    [
        ([4, 6], [[4]], r"a scale of the shape \[4\] is not of the last dimensions of \[4,6\]"),
        ([4, 6], [[1]], r"a scale of the shape \[1\] is not of the last dimensions of \[4,6\]"),
        ([6], [[4, 6]], r"a scale of the shape \[4,6\] is not of the last dimensions of \[6\]"),
        ([6], [[6], [6]], "takes at most one scale, got 2"),
    ],
)
def test_a_scale_that_does_not_fit_is_an_error(x, scales, message):
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        run(lambda: kept_cast(tf.ones(x), tf.bfloat16, *[tf.ones(each) for each in scales]))
