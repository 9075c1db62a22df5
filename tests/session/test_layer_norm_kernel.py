"""layer_norm in runs: TensorFlow computes each LayerNorm in one kernel, with the right epsilon."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow as tf
from support.tf_versions import needs_kernels, needs_onednn

import npu_precision
from npu_precision.npu_init import npu_config_proto

tf1 = tf.compat.v1
pytestmark = [
    needs_kernels("bfloat16", "_MklLayerNorm"),
    pytest.mark.cpu("_MklLayerNorm is a kernel of oneDNN"),
]

WIDTH = 64
RANDOM = np.random.default_rng(0)
GAMMA = RANDOM.normal(1, 0.5, WIDTH).astype(np.float32)
BETA = RANDOM.normal(0, 0.5, WIDTH).astype(np.float32)
# The largest error of a result whose values are up to about 8. bfloat16 rounds the input, the
# result, gamma and beta, each by at most 2^-9.
ERROR = {"float32": 4e-6, "bfloat16": 8e-2}
SHAPES = [(None, WIDTH), (4, WIDTH), (None, None, WIDTH), (None, 6, WIDTH), (4, 6, WIDTH)]
SHAPES += [(None, 3, 2, WIDTH), (4, 3, 2, WIDTH)]


def with_moments(x, epsilon, axis=-1):
    mean, variance = tf.nn.moments(x, [axis], keepdims=True)
    return tf.nn.batch_normalization(x, mean, variance, BETA, GAMMA, epsilon)


def by_hand(x, epsilon):
    mean = tf.reduce_mean(x, -1, keepdims=True)
    variance = tf.reduce_mean(tf.square(x - mean), -1, keepdims=True)
    return (x - mean) / tf.sqrt(variance + epsilon) * GAMMA + BETA


def of_squares(x, epsilon):
    mean = tf.reduce_mean(x, -1, keepdims=True)
    variance = tf.reduce_mean(x * x, -1, keepdims=True) - mean * mean
    return GAMMA * ((x - mean) * tf.math.rsqrt(variance + epsilon)) + BETA


def in_float64(x, epsilon, gamma=GAMMA, beta=BETA):
    x = np.asarray(x, np.float64)
    variance = x.var(-1, keepdims=True)
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(variance + epsilon) * gamma + beta


def values(shape, scale=1.0, shift=0.0):
    sizes = [size or 4 for size in shape]
    x = np.random.default_rng(1).normal(shift, 1, sizes) * scale
    return tf.cast(tf.cast(x, tf.bfloat16), tf.float32)


def traced(graph, fetch, x, config=None):
    """The value, and the nodes that ran."""
    metadata = tf1.RunMetadata()
    options = tf1.RunOptions(output_partition_graphs=True)
    with tf1.Session(graph=graph, config=config) as session:
        value = session.run(fetch, {"x:0": x}, options, metadata)
    return value, [node for part in metadata.partition_graphs for node in part.node]


def fused(nodes):
    """The epsilon and dtype of each fused LayerNorm; fails if a part of one is left."""
    left = {node.op for node in nodes} & {"Mean", "Rsqrt", "Sqrt", "FusedBatchNormV3", "Fill"}
    assert not left
    assert not [node.op for node in nodes if "FusedBatchNorm" in node.op]
    return [
        (node.attr["epsilon"].f, tf.as_dtype(node.attr["T"].type).name)
        for node in nodes
        if node.op == "_MklLayerNorm"
    ]


def build(norm, shape, dtype):
    """A LayerNorm of a tensor that has this dtype in a mode that lowers to bfloat16."""
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, shape, name="x")
        # Gray and neutral neighbors leave it in float32.
        same = tf.constant(np.eye(WIDTH, dtype=np.float32))
        if dtype == "float32":
            before = tf.nn.relu(x)
        elif len(shape) == 4:
            before = tf.nn.conv2d(x, same[None, None], 1, "SAME")
        else:
            before = tf.matmul(x, same)
        tf.identity(norm(before), name="y")
    return graph


def lowers(**options):
    return npu_config_proto(precision_mode="allow_mix_precision_bf16", **options)


@needs_onednn
@pytest.mark.parametrize("norm", [with_moments, by_hand, of_squares])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_session_runs_one_kernel(shape, norm):
    x = np.asarray(values(shape))
    graph = build(lambda x: norm(x, 1e-6), shape, "bfloat16")
    y, nodes = traced(graph, "y:0", x, lowers())
    assert fused(nodes) == [(np.float32(1e-6), "bfloat16")]
    np.testing.assert_allclose(y, in_float64(x, 1e-6), rtol=0, atol=ERROR["bfloat16"])


@needs_onednn
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_so_does_a_session_with_a_graph_that_was_rewritten_offline(shape):
    """TensorFlow folds constants and merges Reshapes before it fuses."""
    x = np.asarray(values(shape))
    graph_def, ledger = npu_precision.rewrite_graph_def(
        build(lambda x: with_moments(x, 1e-6), shape, "bfloat16").as_graph_def(),
        "y",
        precision_mode="allow_mix_precision_bf16",
    )
    assert [entry.by for entry in ledger.rewrites].count("layer_norm") == 1
    assert not [node for node in graph_def.node if node.op.startswith("_")]
    with tf.Graph().as_default() as graph:
        tf1.import_graph_def(graph_def, name="")
    y, nodes = traced(graph, "y:0", x)
    assert fused(nodes) == [(np.float32(1e-6), "bfloat16")]
    np.testing.assert_allclose(y, in_float64(x, 1e-6), rtol=0, atol=ERROR["bfloat16"])


@needs_onednn
@pytest.mark.parametrize("offline", [False, True], ids=["in the session", "offline"])
def test_behind_a_dense_layer_of_keras_which_ends_with_a_reshape(offline):
    shape = (4, 6, WIDTH)
    x = np.asarray(values(shape))
    with tf.Graph().as_default() as graph:
        given = tf1.placeholder(tf.float32, shape, name="x")
        dense = tf.tensordot(given, tf.constant(np.eye(WIDTH, dtype=np.float32)), 1)
        tf.identity(with_moments(dense, 1e-6), name="y")
    config = lowers()
    if offline:
        graph_def, _ = npu_precision.rewrite_graph_def(
            graph.as_graph_def(), "y", precision_mode="allow_mix_precision_bf16"
        )
        with tf.Graph().as_default() as graph:
            tf1.import_graph_def(graph_def, name="")
        config = None
    y, nodes = traced(graph, "y:0", x, config)
    assert fused(nodes) == [(np.float32(1e-6), "bfloat16")]
    np.testing.assert_allclose(y, in_float64(x, 1e-6), rtol=0, atol=ERROR["bfloat16"])


@needs_onednn
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("epsilon", [1e-12, 1e-6, 1e-5, 1e-3])
@pytest.mark.parametrize("scale", [1.0, 1e-4])
def test_values_of_small_variances_are_right(scale, epsilon, dtype):
    """If TensorFlow fuses a LayerNorm by itself, as over axis 2 of 3, the epsilon is 0.001."""
    shape = (None, 6, WIDTH)
    x = np.asarray(values(shape, scale))
    if dtype == "float32":
        x = np.maximum(x, 0)
    graph = build(lambda x: with_moments(x, epsilon, 2), shape, dtype)
    y, nodes = traced(graph, "y:0", x, lowers())
    assert fused(nodes) == [(np.float32(epsilon), dtype)]
    np.testing.assert_allclose(y, in_float64(x, epsilon), rtol=0, atol=ERROR[dtype])


@needs_onednn
def test_a_mean_far_from_zero_costs_no_more_than_before():
    x = np.asarray(values((4, 6, WIDTH), shift=100.0))
    graph = build(lambda x: with_moments(tf.nn.relu(x), 1e-6), (4, 6, WIDTH), "float32")
    before, _ = traced(graph, "y:0", x, lowers(layer_norm=False))
    after, nodes = traced(graph, "y:0", x, lowers())
    assert fused(nodes) == [(np.float32(1e-6), "float32")]
    exact = in_float64(x, 1e-6)
    error = np.abs(after - exact).max()
    assert error <= max(ERROR["float32"], 1.5 * np.abs(before - exact).max())


def test_in_float16_tensorflow_does_not_fuse_it_with_another_epsilon():
    shape = (None, 6, WIDTH)
    x = np.asarray(values(shape, 1e-2))
    graph = build(lambda x: with_moments(x, 1e-12, 2), shape, "bfloat16")
    config = npu_config_proto(precision_mode="allow_mix_precision")
    y, _ = traced(graph, "y:0", x, config)
    # The epsilon of 0.001 would be an error of 7. float16 rounds the input and the result.
    np.testing.assert_allclose(y, in_float64(x, 1e-12), rtol=0, atol=2e-2)


def test_an_empty_batch_is_empty():
    for shape in ((None, WIDTH), (None, 6, WIDTH), (None, 3, 2, WIDTH)):
        graph = build(lambda x: with_moments(x, 1e-6), shape, "bfloat16")
        x = np.zeros([0, *shape[1:]], np.float32)
        y, _ = traced(graph, "y:0", x, lowers())
        assert y.shape == x.shape


@needs_onednn
@pytest.mark.parametrize("rank", [2, 3, 4])
@pytest.mark.parametrize("parameters", [{}, {"scale": False}, {"center": False}], ids=str)
def test_a_layer_of_keras_with_variables(tmp_path, parameters, rank):
    """In a tf.function, gamma and beta are read from variables."""
    shape = (None, 6, 2, WIDTH)[:1] + (6, 2)[: rank - 2] + (WIDTH,)
    norm = tf.keras.layers.LayerNormalization(epsilon=1e-6, **parameters)
    dense = tf.keras.layers.Dense(WIDTH)
    norm.build(shape)
    dense.build(shape)
    dense.set_weights([np.eye(WIDTH, dtype=np.float32), np.zeros(WIDTH, np.float32)])
    given = [
        array for array, name in ((GAMMA, "scale"), (BETA, "center")) if name not in parameters
    ]
    norm.set_weights(given)
    x = values(shape)

    @tf.function(input_signature=[tf.TensorSpec(shape, tf.float32)])
    def call(x):
        return norm(dense(x))

    npu_precision.enable(precision_mode="allow_mix_precision_bf16", report_dir=str(tmp_path))
    try:
        y = call(x)
    finally:
        npu_precision.disable()
    told = [
        entry["by"]
        for path in tmp_path.glob("*.json")
        for entry in json.loads(path.read_text())["rewrites"]
        if entry["by"] == "layer_norm"
    ]
    assert told
    gamma = GAMMA if "scale" not in parameters else 1
    beta = BETA if "center" not in parameters else 0
    np.testing.assert_allclose(y, in_float64(x, 1e-6, gamma, beta), rtol=0, atol=ERROR["bfloat16"])


def test_training_is_left_alone_because_gradients_read_its_parts(tmp_path):
    shape = (4, 6, WIDTH)
    graph = build(lambda x: with_moments(x, 1e-6), shape, "bfloat16")
    with graph.as_default():
        y = graph.get_tensor_by_name("y:0")
        tf.identity(tf1.gradients(tf.nn.l2_loss(y), graph.get_tensor_by_name("x:0"))[0], name="g")
    x = np.asarray(values(shape))
    traced(graph, ["y:0", "g:0"], x, lowers(report_dir=str(tmp_path)))
    (path,) = tmp_path.glob("*.json")
    rewrites = json.loads(path.read_text())["rewrites"]
    assert "layer_norm" not in {rewrite["by"] for rewrite in rewrites}


def test_where_the_remapper_ran_before_a_warning_says_so(tmp_path):
    shape = (4, 6, WIDTH)
    graph = build(lambda x: with_moments(x, 1e-6, 2), shape, "float32")
    config = tf1.ConfigProto()
    rewrite = config.graph_options.rewrite_options
    rewrite.min_graph_nodes = -1
    entry = rewrite.custom_optimizers.add(name="NpuOptimizer")
    entry.parameter_map["precision_mode"].s = b"allow_mix_precision_bf16"
    entry.parameter_map["report_dir"].s = str(tmp_path).encode()
    _, nodes = traced(graph, "y:0", np.asarray(values(shape)), config)
    if "_MklLayerNorm" not in {node.op for node in nodes}:
        pytest.skip("this TensorFlow does not fuse that LayerNorm")
    (path,) = tmp_path.glob("*.json")
    (warning,) = json.loads(path.read_text())["warnings"]
    assert "the remapper fused LayerNorms before NpuOptimizer ran" in warning
    # The LayerNorm of Keras 2 is fused with its own epsilon, so there is no warning.
    result = npu_precision.rewrite_graph_def(
        build(lambda x: with_moments(x, 1e-6, 2), shape, "float32").as_graph_def(),
        "y",
        precision_mode="allow_mix_precision_bf16",
    )
    assert not result[1].warnings


def block(x, dtype):
    """A block of a transformer, with one head, in NumPy's float64 or TensorFlow's float32."""
    random = np.random.default_rng(2)
    weights = [random.normal(0, WIDTH**-0.5, (WIDTH, WIDTH)) for _ in range(6)]
    if dtype == "float64":
        product = np.matmul
        softmax = lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True)  # noqa: E731
        norm = lambda x: in_float64(x, 1e-12)  # noqa: E731
        relu = lambda x: np.maximum(x, 0)  # noqa: E731
        turned = lambda x: x.transpose(0, 2, 1)  # noqa: E731
    else:
        weights = [weight.astype(np.float32) for weight in weights]
        product, softmax, relu = tf.matmul, tf.nn.softmax, tf.nn.relu
        norm = lambda x: with_moments(x, 1e-12)  # noqa: E731
        turned = lambda x: tf.transpose(x, [0, 2, 1])  # noqa: E731
    query, key, value = (product(x, weight) for weight in weights[:3])
    attention = product(softmax(product(query, turned(key)) / 8), value)
    x = norm(x + product(attention, weights[3]))
    return norm(x + product(relu(product(x, weights[4])), weights[5]))


@needs_onednn
def test_a_block_of_a_transformer_is_as_exact_as_before():
    shape = (4, 6, WIDTH)
    with tf.Graph().as_default() as graph:
        tf.identity(block(tf1.placeholder(tf.float32, shape, name="x"), "float32"), name="y")
    x = np.asarray(values(shape))
    exact = block(x.astype(np.float64), "float64")
    float32, _ = traced(graph, "y:0", x)
    assert np.abs(float32 - exact).max() < 1e-4
    before, nodes = traced(graph, "y:0", x, lowers(layer_norm=False))
    casts_before = sum(node.op == "Cast" for node in nodes)
    after, nodes = traced(graph, "y:0", x, lowers())
    assert len(fused(nodes)) == 2
    assert sum(node.op == "Cast" for node in nodes) < casts_before
    error_before, error_after = (np.abs(y - exact).mean() for y in (before, after))
    # Between the norms, values are now in bfloat16, but statistics are not.
    assert error_after < 2.5 * error_before < 0.05
