"""same_padding: a lowered 1x1 convolution gets SAME for VALID, so that TensorFlow can fuse."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import tensorflow as tf
from support.check_rewrite import check_rewrite
from support.text_graph import read_graph
from support.tf_versions import needs_kernels, needs_onednn

import npu_precision

check = functools.partial(check_rewrite, same_padding=True)
tf1 = tf.compat.v1


def graph(kernel="1x1x4x4", padding="VALID", strides="[1, 1, 1, 1]", source="Const"):
    return f"""
        x = Placeholder(shape=2x7x8x4)
        w = {source}(shape={kernel})
        conv = Conv2D(x, w, strides={strides}, padding={padding})
        end = Softmax(conv)
        """


def padding_of(result):
    (node,) = (node for node in result.graph.node if node.op == "Conv2D")
    return node.attr["padding"].s.decode()


@pytest.mark.parametrize("strides", ["[1, 1, 1, 1]", "[1, 2, 2, 1]", "[1, 3, 3, 1]"])
@pytest.mark.parametrize("fold_constants", [False, True])
def test_for_a_kernel_of_one_by_one_both_paddings_are_none(strides, fold_constants):
    result = check(graph(strides=strides), None, fold_constants=fold_constants)
    assert padding_of(result) == "SAME"
    (rewrite,) = result.ledger.rewrites
    assert rewrite == npu_precision.ledger.LedgerRewrite("same_padding", "conv", "VALID", "SAME")


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (graph(kernel="3x1x4x4"), {}),
        (graph(kernel="1x3x4x4"), {}),
        (graph(source="Placeholder"), {}),
        (
            graph(),
            {"mode": "must_keep_origin_dtype", "same_padding": None, "rewrites": "-fold_constants"},
        ),
        (
            graph(),
            {"mode": "cube_fp16in_fp32out", "same_padding": None, "rewrites": "-fold_constants"},
        ),
        (graph(), {"target": "ascend910", "same_padding": None, "rewrites": "-fold_constants"}),
        (graph(), {"same_padding": False}),
        (graph().replace("padding=VALID", "padding=VALID, _keep_dtype=1"), {}),
    ],
)
def test_padding_stays_where_it_matters_or_nothing_is_lowered(text, options):
    result = check(text, None, **options)
    assert padding_of(result) == "VALID"
    assert not result.ledger.rewrites


def test_padding_stays_where_the_low_type_is_emulated():
    """Emulation does not become faster by it."""
    options = {"precision_mode": "allow_mix_precision", "emulate": True, "same_padding": True}
    _, ledger = npu_precision.rewrite_graph_def(read_graph(graph()), "end", **options)
    assert not ledger.rewrites


def test_padding_that_is_written_out_stays():
    text = graph(padding="EXPLICIT").replace(
        "padding=EXPLICIT", "padding=EXPLICIT, explicit_paddings=[0, 0, 1, 1, 0, 0, 0, 0]"
    )
    assert padding_of(check(text, None)) == "EXPLICIT"


RESIDUAL = """
    x = Placeholder(shape=?x?x?x4)
    w = Const(shape=1x1x4x4)
    b = Const(shape=4)
    first = Conv2D(x, w, strides=[1, 1, 1, 1], padding=SAME)
    relu = Relu(first)
    conv = Conv2D(relu, w, strides=[1, 1, 1, 1], padding=VALID)
    biased = BiasAdd(conv, b)
    sum = AddV2(relu, biased)
    end = Relu(sum)
    """


@needs_onednn
@needs_kernels("bfloat16", "Conv2D")
@pytest.mark.parametrize(
    ("same_padding", "fused"), [(True, ["BiasAdd", "Add", "Relu"]), (False, ["BiasAdd"])]
)
def test_a_residual_sum_is_fused_into_its_convolution(same_padding, fused):
    graph_def = read_graph(RESIDUAL)
    with tf.Graph().as_default() as imported:
        tf.import_graph_def(graph_def, name="")
    config = npu_precision.npu_config_proto(
        precision_mode="allow_mix_precision_bf16", same_padding=same_padding
    )
    options, metadata = tf1.RunOptions(output_partition_graphs=True), tf1.RunMetadata()
    x = np.random.default_rng(0).normal(size=[2, 8, 8, 4]).astype("f")
    with tf1.Session(graph=imported, config=config) as session:
        session.run("end:0", {"x:0": x}, options, metadata)
    nodes = [node for partition in metadata.partition_graphs for node in partition.node]
    found = [
        [name.decode() for name in node.attr["fused_ops"].list.s]
        for node in nodes
        if "FusedConv2D" in node.op
    ]
    assert found == [fused]


def test_asking_for_it_in_a_mode_that_changes_only_dtypes_is_an_error():
    for name in ("same_padding", "fold_batch_norms"):
        with pytest.raises(
            ValueError, match=f"rewrites: got '{name}' with precision_mode 'force_fp32'"
        ):
            npu_precision.PrecisionOptions(precision_mode="force_fp32", **{name: True})
