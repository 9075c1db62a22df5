"""The ranges of values in the ledger are true in a run, and as narrow as possible.

Each op reads many values between -3 and 5, or pairs of such values. So a range that is too narrow
does not contain all values of a run, and a range that is too wide has ends far from all values.
"""

import functools
import itertools

import numpy as np
import pytest
import tensorflow as tf
from support.loop_text import counter
from support.text_graph import read_graph

import npu_precision

LOW, HIGH = -3.0, 5.0
tf1 = tf.compat.v1
raw = tf.raw_ops
LINE = np.linspace(LOW, HIGH, 161, dtype=np.float32)
FIRST, SECOND = (
    np.array(each, np.float32) for each in zip(*itertools.product(LINE[::4], LINE[::4]))
)
STRICTLY_ABOVE_ZERO = 0.25


def image(x):
    return tf.reshape(x, [1, 1, -1, 1])


# Ops with one input, by name.
OF_ONE = {
    "Abs": lambda x: raw.Abs(x=x),
    "AvgPool": lambda x: tf.nn.avg_pool2d(image(x), [1, 2], [1, 1], "VALID"),
    "BatchToSpaceND": lambda x: raw.BatchToSpaceND(
        input=tf.reshape(x[:160], [4, 1, 40, 1]), block_shape=[2, 2], crops=[[0, 0], [0, 0]]
    ),
    "BiasAdd": lambda x: raw.BiasAdd(value=tf.reshape(x, [-1, 1]), bias=[2.0]),
    "BroadcastTo": lambda x: tf.broadcast_to(x, [2, 161]),
    "Cast": lambda x: tf.cast(x > 0, tf.float32),
    "Ceil": lambda x: raw.Ceil(x=x),
    "ClipByValue": lambda x: raw.ClipByValue(t=x, clip_value_min=-1.0, clip_value_max=2.0),
    "ConcatV2": lambda x: tf.concat([x, [7.0]], 0),
    "Diag": lambda x: raw.Diag(diagonal=tf.nn.relu(x) + 1.0),
    "Elu": lambda x: raw.Elu(features=x),
    "Erf": lambda x: raw.Erf(x=x),
    "Exp": lambda x: raw.Exp(x=x),
    "Expm1": lambda x: raw.Expm1(x=x),
    "ExpandDims": lambda x: tf.expand_dims(x, 0),
    "Fill": lambda x: raw.Fill(dims=[2], value=2.0),
    "Floor": lambda x: raw.Floor(x=x),
    "GatherNd": lambda x: tf.gather_nd(x, [[0], [160], [80]]),
    "GatherV2": lambda x: tf.gather(x, [0, 160]),
    "Identity": tf.identity,
    "LeakyRelu": lambda x: raw.LeakyRelu(features=x, alpha=0.1),
    "Log": lambda x: raw.Log(x=tf.nn.relu(x) + STRICTLY_ABOVE_ZERO),
    "Log1p": lambda x: raw.Log1p(x=tf.nn.relu(x)),
    "MatrixBandPart": lambda x: tf.linalg.band_part(tf.reshape(x[:160], [4, 40]), 1, 1),
    "Max": lambda x: tf.reduce_max(tf.reshape(x, [-1, 1]), 1),
    "MaxPool": lambda x: tf.nn.max_pool2d(image(x), 1, 1, "VALID"),
    "Mean": lambda x: tf.reduce_mean(tf.reshape(x, [-1, 1]), 1),
    "MirrorPad": lambda x: tf.pad(x, [[1, 1]], "REFLECT"),
    "Min": lambda x: tf.reduce_min(tf.reshape(x, [-1, 1]), 1),
    "Neg": lambda x: raw.Neg(x=x),
    "OneHot": lambda x: tf.one_hot([0, 1], 3, on_value=2.0, off_value=-1.0),
    "OnesLike": tf.ones_like,
    "Pack": lambda x: tf.stack([x, -x]),
    "Pad": lambda x: tf.pad(tf.nn.relu(x) + 1.0, [[1, 1]]),
    "PadV2": lambda x: tf.pad(x, [[1, 1]], constant_values=9.0),
    "Reciprocal": lambda x: raw.Reciprocal(x=tf.nn.relu(x) + STRICTLY_ABOVE_ZERO),
    "Relu": lambda x: raw.Relu(features=x),
    "Relu6": lambda x: raw.Relu6(features=2.0 * x),
    "Reshape": lambda x: tf.reshape(x, [7, 23]),
    "ResizeNearestNeighbor": lambda x: raw.ResizeNearestNeighbor(images=image(x), size=[2, 322]),
    "ReverseV2": lambda x: tf.reverse(x, [0]),
    "Rint": lambda x: raw.Rint(x=x),
    "Roll": lambda x: tf.roll(x, 2, 0),
    "Round": lambda x: raw.Round(x=x),
    "Rsqrt": lambda x: raw.Rsqrt(x=tf.nn.relu(x) + STRICTLY_ABOVE_ZERO),
    "Select": lambda x: raw.Select(condition=x > 0, x=x, y=x),
    "SelectV2": lambda x: tf.where(x < 0.0, x, 8.0 + 0.0 * x),
    "Sigmoid": lambda x: raw.Sigmoid(x=x),
    "Sign": lambda x: raw.Sign(x=x),
    "Slice": lambda x: tf.slice(x, [0], [161]),
    "Softplus": lambda x: raw.Softplus(features=x),
    "Split": lambda x: tf.concat(tf.split(tf.concat([x, x], 0), 2), 0),
    "Sqrt": lambda x: raw.Sqrt(x=tf.nn.relu(x)),
    "Square": lambda x: raw.Square(x=x),
    "Squeeze": lambda x: tf.squeeze(tf.expand_dims(x, 0)),
    "StopGradient": tf.stop_gradient,
    "StridedSlice": lambda x: x[::-1],
    "Sub": lambda x: x - x,
    "Sum": lambda x: tf.reduce_sum(tf.stack([x, x, x]), 0),
    "Tanh": lambda x: raw.Tanh(x=x),
    "Tile": lambda x: tf.tile(x, [2]),
    "Transpose": lambda x: tf.transpose(tf.reshape(x, [7, 23])),
    "Unpack": lambda x: tf.unstack(tf.stack([x, x]))[0],
    "ZerosLike": tf.zeros_like,
}
# Ops with two inputs.
OF_TWO = {
    "Add": lambda x, y: raw.Add(x=x, y=y),
    "AddN": lambda x, y: tf.add_n([x, y, y]),
    "AddV2": lambda x, y: x + y,
    "Maximum": tf.maximum,
    "Minimum": tf.minimum,
    "Mul": lambda x, y: x * y,
    "RealDiv": lambda x, y: x / (tf.nn.relu(y) + STRICTLY_ABOVE_ZERO),
    "SquaredDifference": tf.math.squared_difference,
}
# Ops whose range cannot be as narrow as the values here.
LOOSE = {
    "Cos": lambda x: raw.Cos(x=x / 9.0),
    "Erfc": lambda x: raw.Erfc(x=x),
    "EuclideanNorm": lambda x: raw.EuclideanNorm(input=x, axis=[0]),
    "L2Loss": tf.nn.l2_loss,
    "LogSoftmax": tf.nn.log_softmax,
    "RandomUniform": lambda x: tf1.random_uniform([1000]),
    "ResizeBilinear": lambda x: raw.ResizeBilinear(images=image(x), size=[2, 50]),
    "Sin": lambda x: raw.Sin(x=x),
    "Softmax": tf.nn.softmax,
    "Softsign": lambda x: raw.Softsign(features=x),
    "TruncatedNormal": lambda x: tf1.truncated_normal([1000]),
}
KINDS = {**OF_ONE, **OF_TWO, **LOOSE}
EDGES = {
    tf.bool: (False, True),
    tf.uint8: (0, 255),
    tf.int8: (-128, 127),
    tf.uint16: (0, 65535),
    tf.int16: (-32768, 32767),
}
# Products of `x` and `y`, whose elements are all the largest, and the terms of each element.
PRODUCTS = {
    "MatMul": (lambda x, y: tf.matmul(x, y), [8, 16], [16, 4], 16),
    "turned": (lambda x, y: tf.matmul(x, y, transpose_a=True), [16, 8], [16, 4], 16),
    "BatchMatMulV2": (lambda x, y: tf.matmul(x, y), [2, 8, 16], [2, 16, 4], 16),
    "Conv2D": (lambda x, y: tf.nn.conv2d(x, y, 1, "SAME"), [1, 9, 9, 3], [3, 3, 3, 2], 27),
    "DepthwiseConv2dNative": (
        lambda x, y: tf.nn.depthwise_conv2d(x, y, [1, 1, 1, 1], "SAME"),
        [1, 9, 9, 3],
        [3, 3, 3, 1],
        9,
    ),
    "Conv3D": (
        lambda x, y: tf.nn.conv3d(x, y, [1] * 5, "SAME"),
        [1, 5, 5, 5, 2],
        [3, 3, 3, 2, 1],
        54,
    ),
}


@functools.lru_cache(maxsize=None)
def ranges_and_values():
    """The range in the ledger and the values of a run, by name."""
    with tf.Graph().as_default() as graph:
        x, y, line = (
            raw.ClipByValue(
                t=tf1.placeholder(tf.float32, given.shape, name=name),
                clip_value_min=LOW,
                clip_value_max=HIGH,
            )
            for name, given in (("first", FIRST), ("second", SECOND), ("line", LINE))
        )
        results = {}
        for name, build in KINDS.items():
            computed = build(x, y) if name in OF_TWO else build(line)
            results[name] = tf.identity(computed, f"result_{name}")
        fetches = [each.op.name for each in results.values()]
        _, ledger = npu_precision.rewrite_graph_def(
            graph.as_graph_def(), fetches, precision_mode="allow_mix_precision_bf16"
        )
        with tf1.Session() as session:
            feeds = {"first:0": 9 * FIRST, "second:0": 9 * SECOND, "line:0": 9 * LINE}
            dense = {"first:0": FIRST, "second:0": SECOND, "line:0": LINE}
            runs = [session.run(results, feed) for feed in (feeds, dense)]
    return {
        name: (
            ledger.node(f"result_{name}").range,
            np.concatenate([run[name].ravel() for run in runs]),
        )
        for name in KINDS
    }


@pytest.mark.parametrize("name", sorted(KINDS))
def test_values_of_a_run_are_in_the_range_that_the_ledger_has(name):
    (low, high), values = ranges_and_values()[name]
    # float32 rounds what the analysis computes in float64.
    slack = 1e-6 * max(abs(end) for end in (low, high, 1.0) if end is not None)
    assert low is not None or high is not None
    assert low is None or values.min() >= low - slack
    assert high is None or values.max() <= high + slack


@pytest.mark.parametrize("name", sorted({*OF_ONE, *OF_TWO}))
def test_the_ends_of_a_range_are_values_that_a_run_comes_to(name):
    (low, high), values = ranges_and_values()[name]
    np.testing.assert_allclose([low, high], [values.min(), values.max()], rtol=1e-5, atol=1e-6)


def range_of(build, shapes, dtype=tf.uint8, mode="allow_mix_precision_fp16"):
    """The ledger's entry of a node that computes from a Cast of each placeholder."""
    with tf.Graph().as_default() as graph:
        given = [tf.cast(tf1.placeholder(dtype, shape), tf.float32) for shape in shapes]
        tf.identity(build(*given), "end")
    _, ledger = npu_precision.rewrite_graph_def(
        graph.as_graph_def(), "end", precision_mode=mode, rewrites="none"
    )
    return ledger


@pytest.mark.parametrize("dtype", EDGES, ids=lambda dtype: dtype.name)
def test_a_cast_of_few_bits_has_the_range_of_its_dtype(dtype):
    ledger = range_of(tf.identity, [[4]], dtype)
    low, high = tf.cast(tf.constant(EDGES[dtype], dtype), tf.float32).numpy()
    assert ledger.node("end").range == [low, high]


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_product_of_known_size_has_the_range_of_its_terms(name):
    build, x, y, terms = PRODUCTS[name]
    assert range_of(build, [x, y]).node("end").range == [0, terms * 255**2]
    largest = build(tf.fill(x, 255.0), tf.fill(y, 255.0)).numpy().max()
    assert largest == terms * 255**2
    bounds = sorted([terms * -128 * 127, terms * 128**2])
    assert range_of(build, [x, y], tf.int8).node("end").range == bounds


def test_a_product_of_a_tensor_by_itself_is_no_square():
    square = range_of(lambda x: tf.matmul(x, x), [[4, 4]], tf.int8)
    assert square.node("end").range == [4 * -128 * 127, 4 * 128**2]


def test_a_product_of_unknown_size_or_factors_has_no_limit():
    assert range_of(tf.matmul, [[None, None], [None, 4]]).node("end").range == [0, None]
    assert range_of(lambda x: tf.matmul(x, x + np.nan), [[4, 4]]).node("end").range is None


def test_a_product_of_bytes_that_float16_does_not_hold_keeps_float32():
    for terms, reason in ((2, "leaves_range"), (1, "white_list")):
        ledger = range_of(tf.matmul, [[8, terms], [terms, 8]])
        (product,) = (node for node in ledger.nodes if node.op == "MatMul")
        assert product.reason == reason


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("turn = Tanh(switch:1)", [0, 5]),
        ("turn = Mul(switch:1, half_enter)", [0, 5]),
        ("turn = Minimum(switch:1, half_enter)", [0.5, 5]),
        ("turn = AddV2(switch:1, half_enter)", [5, None]),
        ("turn = Sub(switch:1, half_enter)", [None, 5]),
        ("turn = Neg(switch:1)", [-5, 5]),
        ("turn = MatMul(switch:1, switch:1)", [0, None]),
        ("turn = Digamma(switch:1)", None),
    ],
)
def test_a_loop_variable_has_the_range_of_all_its_iterations(body, expected):
    graph = read_graph(f"""
        {counter(3)}
        start = Const(value=[[5.0]])
        half = Const(value=0.5)
        enter = Enter(start, frame_name=loop)
        half_enter = Enter(half, frame_name=loop, is_constant=True)
        merge = Merge(enter, next)
        switch = Switch(merge, cond)
        {body}
        next = NextIteration(turn)
        exit = Exit(switch)
        """)
    _, ledger = npu_precision.rewrite_graph_def(
        graph, "exit", precision_mode="allow_mix_precision_bf16"
    )
    assert ledger.node("exit").range == expected


def test_nothing_is_known_of_what_is_fed_or_of_an_op_that_the_analysis_does_not_know():
    graph = read_graph("""
        x = Placeholder(shape=4)
        fed = Const(value=[1.0, 2.0])
        known = Tanh(fed)
        unknown = Digamma(x)
        end = AddN(x, unknown)
        """)
    _, ledger = npu_precision.rewrite_graph_def(
        graph, ["known", "end"], feeds=["fed"], precision_mode="allow_mix_precision_bf16"
    )
    ranges = {node.name: node.range for node in ledger.nodes}
    assert ranges == {"x": None, "fed": None, "known": [-1, 1], "unknown": None, "end": None}
