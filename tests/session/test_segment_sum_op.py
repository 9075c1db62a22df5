"""The op that adds rows of a low type by segment: as UnsortedSegmentSum of float32, to the bit."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import graph_pb2

import npu_precision

pytestmark = pytest.mark.cpu("sums are fused on CPUs alone")
tf1 = tf.compat.v1
LOW = [tf.bfloat16, tf.float16]


def segment_sum(data, ids, segments):
    npu_precision.npu_config_proto(precision_mode="allow_mix_precision")  # loads the library
    graph = graph_pb2.GraphDef()
    inputs = dict(zip(["data", "ids", "segments"], [data, ids, segments]))
    for name, tensor in inputs.items():
        node = graph.node.add(name=name, op="Placeholder")
        node.attr["dtype"].type = tensor.dtype.as_datatype_enum
    node = graph.node.add(name="sum", op="NpuPrecisionSumSegments", input=list(inputs))
    for attribute, tensor in zip(["T", "Tindices", "Tnumsegments"], inputs.values()):
        node.attr[attribute].type = tensor.dtype.as_datatype_enum
    (total,) = tf.import_graph_def(graph, inputs, return_elements=["sum:0"], name="")
    return total


def run(rows, ids, segments, low=tf.bfloat16, ids_type=tf.int32, count_type=tf.int32, threads=2):
    """The sums of our op, and those of TensorFlow's op in float32."""
    with tf.Graph().as_default():
        data = tf.cast(tf.constant(np.asarray(rows, np.float32)), low)
        ids = tf.constant(np.asarray(ids), ids_type)
        count = tf.constant(segments, count_type)
        ours = segment_sum(data, ids, count)
        config = tf1.ConfigProto(intra_op_parallelism_threads=threads)
        with tf1.Session(config=config) as session:
            plain = tf1.unsorted_segment_sum(tf.cast(data, tf.float32), ids, count)
            assert ours.shape.as_list() == plain.shape.as_list()
            return session.run([ours, plain])


SHAPES = {
    "one row": ([1], [1], 1),
    "rows of one element": ([1000], [], 7),
    "few segments": ([3000], [33], 2),
    "many segments": ([3000], [16], 900),
    "most segments are empty": ([20], [8], 5000),
    "rows of several dimensions": ([64], [3, 5], 10),
    "numbers of several dimensions": ([16, 26], [8], 50),
    "long rows": ([40], [1300], 6),
}


@pytest.mark.parametrize("low", LOW, ids=lambda each: each.name)
@pytest.mark.parametrize("case", SHAPES)
def test_sums_are_those_of_float32_to_the_bit(case, low):
    rows, row, segments = SHAPES[case]
    random = np.random.default_rng(0)
    data = random.normal(size=[*rows, *row])
    ours, plain = run(data, random.integers(0, segments, rows), segments, low)
    assert ours.dtype == np.float32
    np.testing.assert_array_equal(ours, plain)


@pytest.mark.parametrize("types", [(tf.int32, tf.int64), (tf.int64, tf.int32)], ids=str)
def test_numbers_may_be_of_either_type(types):
    ours, plain = run(
        np.ones([6, 4]), [3, 0, 3, 1, 0, 3], 4, ids_type=types[0], count_type=types[1]
    )
    np.testing.assert_array_equal(ours, plain)


def test_rows_with_a_negative_number_are_left_out():
    ours, _ = run([[1.0], [2.0], [4.0], [8.0]], [-1, 1, -7, 1], 2)
    np.testing.assert_array_equal(ours, [[0], [10]])


def test_a_sum_does_not_depend_on_threads():
    random = np.random.default_rng(0)
    rows, ids = random.normal(size=[5000, 40]), random.integers(0, 100, 5000)
    one, seven = (run(rows, ids, 100, threads=threads)[0] for threads in (1, 7))
    np.testing.assert_array_equal(one, seven)


@pytest.mark.parametrize(
    ("rows", "ids", "segments"), [([0, 4], [0], 3), ([4, 0], [4], 3), ([0, 4], [0], 0)], ids=str
)
def test_no_elements_are_zeros(rows, ids, segments):
    ours, plain = run(np.ones(rows), np.zeros(ids, np.int32), segments)
    np.testing.assert_array_equal(ours, plain)


ERRORS = {
    "are too many": (np.ones([1, 8]), [0], 2**62),
    "is out of range": ([[1.0], [2.0]], [0, 2], 2),
    "must not be negative": ([[1.0]], [0], -1),
    "does not start with": ([[1.0], [2.0]], [0, 1, 0], 2),
    "must be a scalar": ([[1.0]], [0], [1, 1]),
}


@pytest.mark.parametrize("message", ERRORS)
def test_what_does_not_fit_is_an_error(message):
    rows, ids, segments = ERRORS[message]
    with tf.Graph().as_default():
        # Shapes are unknown until the op runs.
        inputs = [
            (tf1.placeholder(tf.float32), np.asarray(rows, np.float32)),
            (tf1.placeholder(tf.int32), np.asarray(ids, np.int32)),
            (tf1.placeholder(tf.int64), np.asarray(segments, np.int64)),
        ]
        data, numbers, count = (placeholder for placeholder, _ in inputs)
        total = segment_sum(tf.cast(data, tf.bfloat16), numbers, count)
        with tf1.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match=message):
            session.run(total, dict(inputs))
