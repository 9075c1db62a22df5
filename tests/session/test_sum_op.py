"""The ops that low_sums writes: dtypes, sizes, shapes, and errors for what does not fit."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import graph_pb2

import npu_precision

pytestmark = pytest.mark.cpu("sums are fused on CPUs alone")
tf1 = tf.compat.v1
LOW = [tf.bfloat16, tf.float16]
DTYPES = [tf.float32, *LOW]


def added(op, inputs, **attributes):
    """Adds one of the ops to the default graph; returns its result."""
    npu_precision.npu_config_proto(precision_mode="allow_mix_precision")  # loads the library
    graph = graph_pb2.GraphDef()
    names = [f"input{number}" for number in range(len(inputs))]
    for name, tensor in zip(names, inputs):
        graph.node.add(name=name, op="Placeholder").attr[
            "dtype"
        ].type = tensor.dtype.as_datatype_enum
    node = graph.node.add(name="sum", op=op)
    node.input.extend(names)
    if op == "NpuPrecisionSum":
        node.attr["T"].list.type.extend(each.dtype.as_datatype_enum for each in inputs)
        node.attr["broadcasts"].b = attributes.get("broadcasts", True)
    else:
        node.attr["T"].type = inputs[0].dtype.as_datatype_enum
        node.attr["kept"].i = attributes["kept"]
    return tf.import_graph_def(graph, dict(zip(names, inputs)), return_elements=["sum:0"], name="")[
        0
    ]


def terms(shapes, dtypes):
    random = np.random.default_rng(0)
    return [
        tf.cast(tf.constant(random.normal(size=shape).astype(np.float32)), dtype)
        for shape, dtype in zip(shapes, dtypes)
    ]


def run(build):
    with tf.Graph().as_default():
        tensors = build()
        # TensorFlow would add terms in another order, and share terms that may be overwritten.
        config = tf1.ConfigProto()
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        config.graph_options.optimizer_options.opt_level = tf1.OptimizerOptions.L0
        with tf1.Session(config=config) as session:
            return session.run(tensors)


def summed(inputs):
    """What TensorFlow's own ops make of it, in the same order."""
    wide = [tf.cast(each, tf.float32) for each in inputs]
    result = wide[0]
    for each in wide[1:]:
        result = tf.add(result, each)
    return result


def assert_sums(shapes, dtypes):
    def build():
        inputs = terms(shapes, dtypes)
        return [added("NpuPrecisionSum", inputs), summed(inputs)]

    ours, stock = run(build)
    assert ours.dtype == np.float32
    np.testing.assert_array_equal(ours, stock)


# Around the size of a block, and large enough for several threads.
@pytest.mark.parametrize("size", [0, 1, 511, 512, 513, 2_000_003])
def test_terms_of_all_dtypes_are_added_in_their_order(size):
    assert_sums([[size]] * 4, [tf.bfloat16, tf.float32, tf.float16, tf.bfloat16])


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda each: each.name)
def test_one_term_is_cast(dtype):
    assert_sums([[7, 100]], [dtype])


SHAPES = {
    "a long vector": [[5, 6, 200], [200]],
    "a matrix": [[5, 6, 200], [6, 200]],
    "a short vector": [[50, 3], [3]],
    "a short matrix": [[500, 7, 3], [7, 3]],
    "a scalar": [[50, 3], []],
    "one element": [[50, 3], [1]],
    "a column": [[50, 3], [50, 1]],
    "both broadcast": [[50, 1, 4], [3, 1]],
    "the smaller one first": [[3], [50, 3], [1, 3]],
    "a row of one": [[5, 6, 200], [1, 200]],
    "a column of rows": [[5, 6, 200], [5, 1, 200]],
    "nothing by something": [[0, 3], [3]],
    "a dimension of size 0": [[5, 0], [5, 1]],
}


@pytest.mark.parametrize("second", DTYPES, ids=lambda each: each.name)
@pytest.mark.parametrize("shapes", SHAPES)
def test_shapes_broadcast(shapes, second):
    dtypes = [tf.bfloat16, second, tf.float16]
    assert_sums(SHAPES[shapes], dtypes)


@pytest.mark.parametrize(("shape", "broadcasts"), [([4], True), ([1, 3], False)])
def test_shapes_that_do_not_fit_are_an_error(shape, broadcasts):
    def build():
        first, second = terms([[4, 3], shape], LOW)
        # TensorFlow learns of the second shape when the op runs.
        second = tf1.placeholder_with_default(second, None)
        return added("NpuPrecisionSum", [first, second], broadcasts=broadcasts)

    shown = ",".join(map(str, shape))
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=rf"Incompatible shapes: \[4,3\] vs. \[{shown}\]"
    ):
        run(build)


STATIC = {
    "one shape": ([[2, 3], [2, 3]], [2, 3]),
    "rows and offsets": ([[None, 8], [8], [8]], [None, 8]),
    "an offset first": ([[8], [None, 8], [8]], [None, 8]),
    # Either may be 1.
    "two unknown sizes": ([[None, 8], [None, 8]], [None, 8]),
    "an unknown vector": ([[None], [1]], [None]),
    "an unknown rank": ([[2, 8], None, [8]], None),
}


@pytest.mark.parametrize("case", STATIC)
def test_a_shape_is_known_only_as_far_as_it_is_certain(case):
    shapes, expected = STATIC[case]
    with tf.Graph().as_default():
        inputs = [tf1.placeholder(tf.bfloat16, shape) for shape in shapes]
        total = added("NpuPrecisionSum", inputs)
        assert total.shape.as_list() == expected if expected else total.shape.rank is None


def test_two_unknown_sizes_are_not_taken_for_one():
    with tf.Graph().as_default():
        x, y = (tf1.placeholder(tf.float32, [None, 8]) for _ in range(2))
        total = added("NpuPrecisionSum", [x, y])
        # TensorFlow drops what broadcasts to the shape that a tensor has.
        wide = tf.broadcast_to(x, tf.shape(total))
        with tf1.Session() as session:
            values = session.run(wide, {x: np.ones([1, 8]), y: np.ones([6, 8])})
    assert values.shape == (6, 8)


def test_a_term_that_something_else_reads_is_not_written():
    def build():
        x, low = terms([[300, 300]] * 2, [tf.float32, tf.bfloat16])
        x = tf.exp(x)
        sums = [added("NpuPrecisionSum", [x, low]), added("NpuPrecisionSum", [low, x])]
        return [*sums, x, summed([x, low])]

    first, second, x, stock = run(build)
    np.testing.assert_array_equal(first, stock)
    np.testing.assert_array_equal(second, stock)
    assert np.all(x > 0)


@pytest.mark.parametrize("dtype", LOW, ids=lambda each: each.name)
def test_a_term_may_be_overwritten(dtype):
    def build():
        a, b, low = terms([[300, 300]] * 3, [tf.float32, tf.float32, dtype])
        ours = added("NpuPrecisionSum", [low, tf.exp(a), tf.exp(b)])
        return [ours, summed([low, tf.exp(a), tf.exp(b)])]

    np.testing.assert_array_equal(*run(build))


ROWS = [[1, 1], [3, 5], [1000, 1], [1000, 3], [257, 64], [513, 255], [255, 1000], [4, 40, 40, 64]]


@pytest.mark.parametrize("dtype", LOW, ids=lambda each: each.name)
@pytest.mark.parametrize("shape", ROWS, ids=str)
@pytest.mark.parametrize("kept", [0, 1, 2])
def test_rows_are_added_up(kept, shape, dtype):
    kept = min(kept, len(shape) - 1)

    def build():
        (x,) = terms([shape], [dtype])
        return [added("NpuPrecisionSumRows", [x], kept=kept), tf.cast(x, tf.float32)]

    ours, x = run(build)
    axes = tuple(range(len(shape) - kept))
    exact = x.astype(np.float64).sum(axes)
    assert (ours.dtype, ours.shape) == (np.float32, exact.shape)
    # Of n terms, at most 256 are added one after the other, and then their sums.
    sizes = np.abs(x.astype(np.float64)).sum(axes)
    assert np.all(np.abs(ours - exact) <= 1e-6 * sizes)


def test_a_sum_of_rows_does_not_depend_on_threads():
    def result(threads):
        with tf.Graph().as_default():
            (x,) = terms([[4096, 300]], [tf.bfloat16])
            total = added("NpuPrecisionSumRows", [x], kept=1)
            config = tf1.ConfigProto(intra_op_parallelism_threads=threads)
            with tf1.Session(config=config) as session:
                return session.run(total)

    np.testing.assert_array_equal(result(1), result(7))


@pytest.mark.parametrize(("shape", "expected"), [([0, 4], np.zeros(4)), ([4, 0], np.zeros(0))])
def test_no_rows_are_zeros(shape, expected):
    total = run(lambda: added("NpuPrecisionSumRows", terms([shape], [tf.bfloat16]), kept=1))
    np.testing.assert_array_equal(total, expected)


def test_more_dimensions_than_there_are_is_an_error():
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError)):
        run(lambda: added("NpuPrecisionSumRows", terms([[4]], [tf.bfloat16]), kept=2))
