"""fold_batch_norms: inference batch norms become part of the convolutions before them."""

from __future__ import annotations

import functools
import json

import numpy as np
import pytest
import tensorflow as tf
from support.check_rewrite import check_rewrite
from support.text_graph import read_graph
from support.tf_versions import needs_3d_batch_norm, needs_kernels

import npu_precision

check = functools.partial(check_rewrite, fold_batch_norms=True)
tf1 = tf.compat.v1
each_mode = pytest.mark.parametrize(
    ("mode", "low"),
    [
        ("allow_mix_precision", "float16"),
        pytest.param(
            "allow_mix_precision_bf16", "bfloat16", marks=needs_kernels("bfloat16", "Conv2D")
        ),
    ],
)
STATISTICS = """
    scale = Const(value=[1.0, 0.5, 2.0, 0.25])
    offset = Const(value=[0.5, -1.0, 0.25, 2.0])
    mean = Const(value=[0.1, -0.2, 0.3, 1.0])
    variance = Const(value=[0.5, 1.0, 1.5, 2.0])
    """
CONVOLUTION = f"""
    x = Placeholder(shape=2x8x8x3)
    w = Const(shape=3x3x3x4)
    {STATISTICS}
    conv = Conv2D(x, w, strides=[1, 1, 1, 1], padding=SAME)
    """
NORM = "norm = FusedBatchNormV3(conv, scale, offset, mean, variance, is_training=False)"


def folded(result):
    """The old and the new op of each batch norm, by its name."""
    assert {rewrite.by for rewrite in result.ledger.rewrites} <= {"fold_batch_norms"}
    return {rewrite.node: (rewrite.before, rewrite.after) for rewrite in result.ledger.rewrites}


def value_of(graph, name):
    (node,) = (node for node in graph.node if node.name == name)
    return tf.make_ndarray(node.attr["value"].tensor)


@each_mode
def test_a_batch_norm_becomes_the_bias_of_its_convolution(mode, low):
    result = check(
        f"""
        {CONVOLUTION}
        {NORM}
        relu = Relu(norm)
        end = LogSoftmax(relu)
        """,
        f"""
        norm/npu_folded_weights = Const[float32]()
        conv = Conv2D[{low}](x/npu_cast_0_{low}, norm/npu_folded_weights/npu_cast_0_{low})
        norm/npu_folded_bias = Const[float32]()
        norm = BiasAdd[{low}](conv, norm/npu_folded_bias/npu_cast_0_{low})
        relu = Relu[{low}](norm)
        end = LogSoftmax[float32](relu/npu_cast_0_float32)
        """,
        mode=mode,
    )
    assert folded(result) == {"norm": ("FusedBatchNormV3", "BiasAdd of conv")}
    scale = np.array([1.0, 0.5, 2.0, 0.25]) / np.sqrt(np.array([0.5, 1.0, 1.5, 2.0]) + 1e-4)
    offset = [0.5, -1.0, 0.25, 2.0] - np.array([0.1, -0.2, 0.3, 1.0]) * scale
    given = value_of(read_graph(CONVOLUTION), "w")
    weights = value_of(result.graph, "norm/npu_folded_weights")
    np.testing.assert_allclose(weights, given * scale, rtol=1e-6)
    np.testing.assert_allclose(value_of(result.graph, "norm/npu_folded_bias"), offset, rtol=1e-6)


def test_a_bias_before_the_batch_norm_is_folded_too():
    result = check(
        f"""
        {CONVOLUTION}
        b = Const(value=[1.0, 2.0, 3.0, 4.0])
        biased = BiasAdd(conv, b)
        norm = FusedBatchNormV3(biased, scale, offset, mean, variance, is_training=False)
        end = LogSoftmax(norm)
        """,
        """
        norm/npu_folded_weights = Const[float32]()
        conv = Conv2D[float16](x/npu_cast_0_float16, norm/npu_folded_weights/npu_cast_0_float16)
        norm/npu_folded_bias = Const[float32]()
        norm = BiasAdd[float16](conv, norm/npu_folded_bias/npu_cast_0_float16)
        end = LogSoftmax[float32](norm/npu_cast_0_float32)
        """,
    )
    assert folded(result) == {"norm": ("FusedBatchNormV3", "BiasAdd of conv")}


def test_a_depthwise_convolution_scales_channel_by_multiplier():
    check(
        f"""
        x = Placeholder(shape=2x8x8x2)
        w = Const(shape=3x3x2x2)
        {STATISTICS}
        conv = DepthwiseConv2dNative(x, w, strides=[1, 1, 1, 1], padding=SAME)
        {NORM}
        end = LogSoftmax(norm)
        """,
        """
        norm/npu_folded_weights = Const[float32]()
        conv = DepthwiseConv2dNative[float16](x/npu_cast_0_float16,
            norm/npu_folded_weights/npu_cast_0_float16)
        norm/npu_folded_bias = Const[float32]()
        norm = BiasAdd[float16](conv, norm/npu_folded_bias/npu_cast_0_float16)
        end = LogSoftmax[float32](norm/npu_cast_0_float32)
        """,
    )


@needs_3d_batch_norm
@needs_kernels("bfloat16", "Conv3D")
def test_a_convolution_of_three_dimensions():
    check(
        f"""
        x = Placeholder(shape=2x4x4x4x3)
        w = Const(shape=3x3x3x3x4)
        {STATISTICS}
        conv = Conv3D(x, w, strides=[1, 1, 1, 1, 1], padding=SAME)
        norm = FusedBatchNormV3(conv, scale, offset, mean, variance, is_training=False,
            data_format=NDHWC)
        end = LogSoftmax(norm)
        """,
        """
        norm/npu_folded_weights = Const[float32]()
        conv = Conv3D[bfloat16](x/npu_cast_0_bfloat16, norm/npu_folded_weights/npu_cast_0_bfloat16)
        norm/npu_folded_bias = Const[float32]()
        norm = BiasAdd[bfloat16](conv, norm/npu_folded_bias/npu_cast_0_bfloat16)
        end = LogSoftmax[float32](norm/npu_cast_0_float32)
        """,
        mode="allow_mix_precision_bf16",
    )


def test_frozen_variables_are_constants_behind_identities():
    result = check(
        f"""
        {CONVOLUTION}
        read = Identity(mean)
        norm = FusedBatchNormV3(conv, scale, offset, read, variance, is_training=False)
        end = LogSoftmax(norm)
        """,
        None,
    )
    assert folded(result) == {"norm": ("FusedBatchNormV3", "BiasAdd of conv")}
    left = {node.name for node in result.graph.node}
    assert not left & {"w", "scale", "offset", "mean", "read", "variance"}


def test_statistics_that_another_batch_norm_reads_are_kept_for_it():
    result = check(
        f"""
        {CONVOLUTION}
        {NORM}
        other = FusedBatchNormV3(x_again, scale, offset, mean, variance, is_training=False)
        x_again = Placeholder(shape=2x8x8x4)
        end = AddN(norm, other)
        """,
        None,
    )
    assert folded(result) == {"norm": ("FusedBatchNormV3", "BiasAdd of conv")}
    left = {node.name for node in result.graph.node}
    assert left >= {"scale", "offset", "mean", "variance"}
    assert "w" not in left


def test_control_dependencies_of_and_on_a_batch_norm_stay():
    check(
        f"""
        {CONVOLUTION}
        first = NoOp()
        norm = FusedBatchNormV3(conv, scale, offset, mean, variance, ^first, is_training=False)
        after = NoOp(^norm)
        end = LogSoftmax(norm, ^after)
        """,
        """
        norm/npu_folded_weights = Const[float32]()
        conv = Conv2D[float16](x/npu_cast_0_float16, norm/npu_folded_weights/npu_cast_0_float16)
        norm/npu_folded_bias = Const[float32]()
        norm = BiasAdd[float16](conv, norm/npu_folded_bias/npu_cast_0_float16, ^first)
        end = LogSoftmax[float32](norm/npu_cast_0_float32, ^after)
        """,
    )


def test_nothing_has_a_control_dependency_on_the_constants_that_are_gone():
    result = check(
        f"""
        {CONVOLUTION}
        norm = FusedBatchNormV3(conv, scale, offset, mean, variance, ^mean, is_training=False)
        end = LogSoftmax(norm, ^w)
        """,
        """
        norm/npu_folded_weights = Const[float32]()
        conv = Conv2D[float16](x/npu_cast_0_float16, norm/npu_folded_weights/npu_cast_0_float16)
        norm/npu_folded_bias = Const[float32]()
        norm = BiasAdd[float16](conv, norm/npu_folded_bias/npu_cast_0_float16)
        end = LogSoftmax[float32](norm/npu_cast_0_float32)
        """,
    )
    assert not {"w", "mean"} & {node.name for node in result.graph.node}


def refused(convolution=CONVOLUTION, norm=NORM, more="", fetched="", run=True, **options):
    """A graph that would be folded except for one obstacle; a Relu behind the norm is fetched.

    Args:
        convolution: the nodes before the norm.
        norm: the norm.
        more: further nodes, which may keep the norm from being folded.
        fetched: names of nodes that are fetched as well.
        run: whether TensorFlow can run the graph, also in float16.
        **options: as for check.
    """
    graph = "\n".join([convolution, norm, more, "end = Relu(norm)"])
    return graph, ["end", *fetched.split()], {"run": run, **options}


BIASED = "b = Const(value=[1.0, 2.0, 3.0, 4.0])\nbiased = BiasAdd(conv, b)\n"
NORM_OF_BIASED = NORM.replace("conv", "biased")
# By the obstacle. All else is as in graphs whose norms are folded.
NOT_FOLDED = {
    "weights that are fed": refused(CONVOLUTION.replace("w = Const", "w = Placeholder")),
    "weights that are fetched": refused(fetched="w"),
    "weights of too few dimensions": refused(
        CONVOLUTION.replace("w = Const(shape=3x3x3x4)", "w = Const(shape=3x4)"), run=False
    ),
    "statistics that are fed": refused(
        CONVOLUTION.replace(
            "mean = Const(value=[0.1, -0.2, 0.3, 1.0])", "mean = Placeholder(shape=4)"
        )
    ),
    "statistics of other channels": refused(
        CONVOLUTION.replace("variance = Const(value=[", "variance = Const(value=[1.0, "), run=False
    ),
    # TensorFlow 1.15 reads no statistics in training.
    "training": refused(norm=NORM.replace("is_training=False", "is_training=True"), run=False),
    "no convolution": refused(
        CONVOLUTION.replace("conv = ", "given = ")
        + "grid = Const(shape=1x8x8x4)\nconv = AddV2(given, grid)"
    ),
    "another reader of the convolution": refused(more="more = Exp(conv)", fetched="more"),
    "another reader of the weights": refused(
        more="again = Conv2D(x, w, strides=[1, 1, 1, 1], padding=SAME)\nmore = Exp(again)",
        fetched="more",
    ),
    # TensorFlow does not initialize these statistics.
    "a reader of the statistics that it passes on": refused(
        more="more = Exp(norm:1)", fetched="more", run=False
    ),
    "a convolution that is fetched": refused(fetched="conv"),
    "a convolution that keeps its dtype": refused(
        CONVOLUTION.replace("padding=SAME", "padding=SAME, _keep_dtype=1")
    ),
    "a batch norm that keeps its dtype": refused(
        norm=NORM.replace("is_training", "_keep_dtype=1, is_training")
    ),
    "channels elsewhere in the convolution": refused(
        CONVOLUTION.replace("padding=SAME", "padding=SAME, data_format=NCHW"), run=False
    ),
    "another reader of the bias added": refused(
        CONVOLUTION + BIASED, NORM_OF_BIASED, "more = Exp(biased)", "more"
    ),
    "a bias of other channels": refused(
        CONVOLUTION + BIASED.replace("[", "[0.0, "), NORM_OF_BIASED, run=False
    ),
    "a bias that is fed": refused(
        CONVOLUTION
        + BIASED.replace("b = Const(value=[1.0, 2.0, 3.0, 4.0])", "b = Placeholder(shape=4)"),
        NORM_OF_BIASED,
    ),
    "a bias added that is fetched": refused(CONVOLUTION + BIASED, NORM_OF_BIASED, fetched="biased"),
    "a bias added after something else": refused(
        CONVOLUTION + "first = NoOp()\n" + BIASED.replace(", b)", ", b, ^first)"), NORM_OF_BIASED
    ),
    "a bias added before something else": refused(
        CONVOLUTION + BIASED, NORM_OF_BIASED, "more = Identity(x, ^biased)", "more"
    ),
    # Their values would be infinite in float16 in either case.
    "weights beyond the low type": refused(
        CONVOLUTION.replace("[1.0, 0.5, 2.0, 0.25]", "[1.0, 0.5, 1e6, 0.25]").replace(
            "mean = Const(value=[0.1, -0.2, 0.3, 1.0])", "mean = Const(value=[0.1, -0.2, 0.0, 1.0])"
        ),
        run=False,
    ),
    "an offset beyond the low type": refused(
        CONVOLUTION.replace("[0.5, -1.0, 0.25, 2.0]", "[0.5, -1.0, 1e6, 2.0]"), run=False
    ),
    # Its root is no number.
    "a variance that is no variance": refused(
        CONVOLUTION.replace("variance = Const(value=[0.5", "variance = Const(value=[-0.5"),
        run=False,
    ),
    "a name for the bias that is taken": refused(more="norm/npu_folded_bias = Identity(x)"),
    "a name for the weights that is taken": refused(more="norm/npu_folded_weights = Identity(x)"),
    "the option is off": refused(fold_batch_norms=False),
    "an emulated target": refused(
        fold_batch_norms=None, rewrites="-fold_constants", target="ascend910"
    ),
    "nothing is to change": refused(
        fold_batch_norms=None, rewrites="-fold_constants", mode="must_keep_origin_dtype"
    ),
    "inputs are to be rounded": refused(
        fold_batch_norms=None, rewrites="-fold_constants", mode="cube_fp16in_fp32out"
    ),
}


@pytest.mark.parametrize("name", NOT_FOLDED)
def test_a_batch_norm_stays_where_folding_would_not_do(name):
    graph, fetches, options = NOT_FOLDED[name]
    result = check(graph, None, fetches, **options)
    assert not folded(result)
    assert any(node.op == "FusedBatchNormV3" for node in result.graph.node)


@pytest.mark.parametrize(
    "graph", [refused(), refused(CONVOLUTION + BIASED, NORM_OF_BIASED)], ids=["plain", "biased"]
)
def test_what_those_graphs_begin_as_is_folded(graph):
    graph, fetches, options = graph
    assert folded(check(graph, None, fetches, **options))
    assert folded(
        check(
            graph,
            None,
            fetches,
            **{**options, "fold_batch_norms": None, "rewrites": "-fold_constants"},
        )
    )


def test_what_the_target_does_not_list_stays(tmp_path):
    graph, fetches, _ = refused()
    lists = {"Conv2D": {"precision_reduce": {"flag": "true"}}, "Relu": {}, "FusedBatchNormV3": {}}
    for left_out in (None, "Conv2D", "FusedBatchNormV3"):
        listed = {op: entry for op, entry in lists.items() if op != left_out}
        (tmp_path / "ops.json").write_text(json.dumps(listed))
        result = check(graph, None, fetches, ops_info_dir=str(tmp_path))
        assert bool(folded(result)) == (left_out is None), left_out


def test_a_batch_norm_on_the_black_list_stays(mixlist):
    for black in ("FusedBatchNormV3", "BatchNorm", "node:norm", "node:conv"):
        result = check(
            CONVOLUTION + NORM + "\nend = Relu(norm)", None, modify_mixlist=mixlist(black=[black])
        )
        assert not folded(result), black


def test_a_batch_norm_that_is_fetched_stays():
    """Its other outputs may be fetched as well: preserved nodes have no ports."""
    assert not folded(check(CONVOLUTION + NORM, None, ["norm"]))


def test_no_entry_of_a_mixlist_counts_as_unmatched_for_it(mixlist):
    graph = CONVOLUTION + NORM + "\nend = Relu(norm)"
    result = check(graph, None, modify_mixlist=mixlist(white=["FusedBatchNormV3", "node:norm"]))
    assert folded(result)
    assert not result.ledger.warnings


def test_a_session_folds_by_default_and_says_so(tmp_path):
    """The mode is force_fp16, which uses no list."""
    graph_def = read_graph(CONVOLUTION + NORM + "\nend = Relu(norm)")
    x = np.random.default_rng(0).normal(size=[2, 8, 8, 3]).astype(np.float32)

    def run(config):
        with tf.Graph().as_default() as graph:
            tf.import_graph_def(graph_def, name="")
        with tf1.Session(graph=graph, config=config) as session:
            return session.run("end:0", {"x:0": x})

    mixed = run(
        npu_precision.npu_config_proto(precision_mode="force_fp16", report_dir=str(tmp_path))
    )
    plain = run(tf1.ConfigProto())
    np.testing.assert_allclose(mixed, plain, rtol=0, atol=1e-2 * np.abs(plain).max())
    (file,) = tmp_path.glob("*.json")
    ledger = npu_precision.Ledger.from_json(file.read_text())
    assert [rewrite.node for rewrite in ledger.rewrites] == ["norm"]
    assert str(ledger).endswith(", 1 by fold_batch_norms")
