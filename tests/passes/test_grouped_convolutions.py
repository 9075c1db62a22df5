"""grouped_convolutions: a depthwise convolution becomes a grouped one if that fuses more ops."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from support import ROOT
from support.check_rewrite import TOLERANCE, UNCHANGED, check_rewrite
from support.live_rewrite import rewrite_and_run
from support.text_graph import random_values, read_graph
from support.tf_versions import needs_onednn_in_bfloat16

import npu_precision

tf1 = tf.compat.v1
BF16 = "allow_mix_precision_bf16"


def depthwise(activation, multiplier=1, conv="", bias=""):
    return f"""
        x = Placeholder(shape=2x8x8x4)
        w = Const(shape=3x3x4x{multiplier})
        b = Const(shape={4 * multiplier})
        conv = DepthwiseConv2dNative(x, w, strides=[1, 1, 1, 1], padding=SAME{conv})
        biased = BiasAdd(conv, b{bias})
        {activation}
        end = Softmax(active)
        """


SWISH = """
        gate = Sigmoid(biased)
        active = Mul(biased, gate)
        """
ACTIVATIONS = {
    "swish": (SWISH, "_MklSwish"),
    "swish, turned": (SWISH.replace("biased, gate", "gate, biased"), "_MklSwish"),
    "leaky relu": ("active = LeakyRelu(biased, alpha=0.25)", "LeakyRelu"),
}

PADDED = """
        x = Placeholder(shape=2x8x8x4)
        amounts = Const[int32](value=[[0, 0], [1, 1], [1, 1], [0, 0]])
        w = Const(shape=3x3x4x1)
        pad = Pad(x, amounts)
        conv = DepthwiseConv2dNative(pad, w, strides=[1, 2, 2, 1], padding=VALID)
        end = Softmax(conv)
        """


@pytest.fixture
def live(tmp_path):
    """Rewrites and runs a text graph in bfloat16, with this pass and the one of Pads alone."""

    def run(text, fetches=("end",), **options):
        report_dir = tmp_path / str(len(list(tmp_path.iterdir())))
        only = {"rewrites": "none", "lower_collectives": False}
        only.update(grouped_convolutions=True, pad_into_convolutions=True)
        options = {"precision_mode": BF16, **only, **options}
        graph_def = read_graph(text) if isinstance(text, str) else text
        return rewrite_and_run(graph_def, list(fetches), report_dir, **options)

    return run


def grouped(run):
    return [entry.node for entry in run.rewrites if entry.by == "grouped_convolutions"]


@needs_onednn_in_bfloat16
@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
@pytest.mark.parametrize("multiplier", [1, 2])
def test_bias_and_activation_are_fused_into_a_grouped_convolution(name, multiplier, live):
    activation, fused = ACTIVATIONS[name]
    text = depthwise(activation, multiplier)
    after = live(text)
    assert f"FusedConv2D+BiasAdd+{fused}" in after.ops().values()
    (entry,) = (entry for entry in after.rewrites if entry.by == "grouped_convolutions")
    assert (entry.node, entry.before, entry.after) == ("conv", "DepthwiseConv2dNative", "Conv2D")
    before = live(text, grouped_convolutions=False)
    assert not {f"FusedConv2D+BiasAdd+{fused}"} & {*before.ops().values()}
    assert not grouped(before)


@needs_onednn_in_bfloat16
def test_the_graph_after_the_pass(live, tmp_path):
    live(depthwise(SWISH, 2), dump_passes_dir=str(tmp_path / "dumps"))
    (dump,) = (tmp_path / "dumps").rglob("*_grouped_convolutions.txt")
    lines = [line.partition(" T=")[0] for line in dump.read_text().splitlines()]
    assert "conv = Conv2D(x, conv/npu_grouped_filter)" in lines
    assert {"biased = BiasAdd(conv, b)", "gate = Sigmoid(biased)"} <= {*lines}
    assert not [line for line in lines if line.startswith("w = ")]
    (filter,) = (line for line in lines if line.startswith("conv/npu_grouped_filter = Const()"))
    assert "shape: [3,3,1,8]" in filter


@needs_onednn_in_bfloat16
def test_a_pad_that_only_a_grouped_convolution_can_take_the_place_of_goes(live):
    run = live(PADDED)
    assert grouped(run) == ["conv"]
    assert "Pad" not in run.ops().values()
    (conv,) = (node for node in run.nodes.values() if "Conv2D" in node.op)
    assert conv.attr["padding"].s == b"EXPLICIT"
    assert [*conv.attr["explicit_paddings"].list.i] == [0, 0, 1, 1, 1, 1, 0, 0]


@needs_onednn_in_bfloat16
def test_a_pad_that_is_padding_same_needs_no_grouped_convolution(live):
    run = live(PADDED.replace("[1, 1], [1, 1]", "[0, 1], [0, 1]"))
    assert not grouped(run)
    assert "DepthwiseConv2dNative" in run.ops().values()
    assert "Pad" not in run.ops().values()


@needs_onednn_in_bfloat16
def test_a_pad_that_another_op_reads_stays_before_a_depthwise_convolution(live):
    run = live(PADDED + "        other = Relu(pad)\n", ["end", "other"])
    assert not grouped(run)
    assert "Pad" in run.ops().values()


@needs_onednn_in_bfloat16
def test_no_convolution_behind_a_pad_is_grouped_if_one_cannot_be(live):
    text = PADDED.replace("end =", "v = Placeholder(shape=3x3x4x1)\n        end =")
    text += "        other = DepthwiseConv2dNative(pad, v, strides=[1, 2, 2, 1], padding=VALID)\n"
    assert not grouped(live(text, ["end", "other"]))


REFUSED = {
    "relu, which is fused into both": (depthwise("active = Relu(biased)"), None),
    "no activation": (depthwise("active = Identity(biased)"), None),
    "tanh alone": (depthwise("active = Tanh(biased)"), None),
    "a gate of something else": (
        depthwise("other = Sigmoid(x)\n        active = Mul(biased, other)"),
        None,
    ),
    "another reader of the sum": (depthwise(SWISH) + "    more = Exp(biased)", ["end", "more"]),
    "another reader of the gate": (depthwise(SWISH) + "    more = Exp(gate)", ["end", "more"]),
    "another reader of the convolution": (
        depthwise(SWISH) + "    more = Exp(conv)",
        ["end", "more"],
    ),
    "the sum is fetched": (depthwise(SWISH), ["end", "biased"]),
    "the gate is fetched": (depthwise(SWISH), ["end", "gate"]),
    "the convolution is fetched": (depthwise(SWISH), ["end", "conv"]),
    "the filter is not a constant": (
        depthwise(SWISH).replace("w = Const(", "w = Placeholder("),
        None,
    ),
    "the filter is fetched": (depthwise(SWISH), ["end", "w"]),
    "a control dependency on the sum": (
        depthwise(SWISH) + "    more = Exp(x, ^biased)",
        ["end", "more"],
    ),
    "the convolution has a control dependency": (
        depthwise(SWISH, conv=", ^more") + "    more = Exp(x)",
        ["end", "more"],
    ),
    "it keeps float32 by its scope": (depthwise(SWISH, conv=", _keep_dtype=1"), None),
    "all keep float32 by their scope": (
        depthwise(
            SWISH.replace("biased)", "biased, _keep_dtype=1)").replace(
                "gate)", "gate, _keep_dtype=1)"
            ),
            conv=", _keep_dtype=1",
            bias=", _keep_dtype=1",
        ),
        None,
    ),
    "the bias keeps float32 by its scope": (depthwise(SWISH, bias=", _keep_dtype=1"), None),
    "the activation keeps float32 by its scope": (
        depthwise(SWISH.replace("biased, gate", "biased, gate, _keep_dtype=1")),
        None,
    ),
    "another device": (
        depthwise(SWISH.replace("Mul(biased, gate)", "Mul(biased, gate) @ /device:CPU:1")),
        None,
    ),
}


@needs_onednn_in_bfloat16
@pytest.mark.parametrize("case", sorted(REFUSED))
def test_a_depthwise_convolution_stays_where_nothing_more_is_fused(case, live):
    text, fetches = REFUSED[case]
    run = live(text, fetches or ["end"])
    assert not grouped(run)
    assert any("DepthwiseConv2dNative" in op for op in run.ops().values())


@needs_onednn_in_bfloat16
@pytest.mark.parametrize(
    "named", ["DepthwiseConv2dNative", "node:conv", "BiasAdd", "node:gate", "Sigmoid"]
)
def test_a_node_that_the_mixlist_names_stays_as_it_is(named, live, tmp_path):
    mixlist = tmp_path / "mixlist.json"
    mixlist.write_text(f'{{"gray-list": {{"to-add": ["{named}"]}}}}')
    assert not grouped(live(depthwise(SWISH), modify_mixlist=str(mixlist)))


@needs_onednn_in_bfloat16
def test_a_node_that_is_fed_stays(live):
    feeds = {"biased": random_values("biased", [2, 8, 8, 4])}
    assert not grouped(live(depthwise(SWISH), feeds=feeds))


@needs_onednn_in_bfloat16
def test_the_order_of_the_nodes_does_not_matter(live):
    graph_def = read_graph(depthwise(SWISH))
    turned = type(graph_def)()
    turned.CopyFrom(graph_def)
    del turned.node[:]
    turned.node.extend(reversed(graph_def.node))
    assert live(turned).ops() == live(graph_def).ops()


@needs_onednn_in_bfloat16
def test_two_convolutions_may_share_a_filter(live):
    text = depthwise(SWISH)
    text += """
        positive = Relu(x)
        second = DepthwiseConv2dNative(positive, w, strides=[1, 1, 1, 1], padding=SAME)
        more = BiasAdd(second, b)
        open = Sigmoid(more)
        other = Mul(more, open)
        """
    run = live(text, ["end", "other"])
    assert sorted(grouped(run)) == ["conv", "second"]
    want = live(text, ["end", "other"], grouped_convolutions=False)
    for got, expected in zip(run.values, want.values):
        np.testing.assert_allclose(got, expected, 5e-2, 5e-2)


@needs_onednn_in_bfloat16
def test_large_filters_keep_their_values(live):
    """Large values are stored separately while passes run."""
    text = depthwise(SWISH).replace("2x8x8x4", "2x8x8x200").replace("3x3x4x1", "3x3x200x1")
    text = text.replace("b = Const(shape=4)", "b = Const(shape=200)")
    got, want = live(text), live(text, grouped_convolutions=False)
    assert grouped(got) == ["conv"]
    np.testing.assert_allclose(got.values[0], want.values[0], 5e-2, 1e-3)


@needs_onednn_in_bfloat16
def test_batch_norms_are_folded_before(live):
    text = """
        x = Placeholder(shape=2x8x8x4)
        w = Const(shape=3x3x4x1)
        scale = Const(value=[1.5, 0.5, 2.0, 1.25])
        offset = Const(shape=4)
        mean = Const(shape=4)
        variance = Const(value=[1.0, 2.0, 0.5, 1.5])
        conv = DepthwiseConv2dNative(x, w, strides=[1, 1, 1, 1], padding=SAME)
        norm = FusedBatchNormV3(conv, scale, offset, mean, variance, is_training=False)
        gate = Sigmoid(norm)
        end = Mul(norm, gate)
        """
    run = live(text, fold_batch_norms=True)
    assert grouped(run) == ["conv"]
    np.testing.assert_allclose(
        run.values[0], live(text, grouped_convolutions=False).values[0], 5e-2, 5e-2
    )


@pytest.mark.parametrize("mode", [BF16, "allow_mix_precision_fp16"])
def test_a_graph_that_is_converted_stays(mode):
    """TensorFlow without oneDNN has a fused kernel that refuses groups."""
    for rewrites in (None, "all"):
        _, ledger = npu_precision.rewrite_graph_def(
            read_graph(depthwise(SWISH)), "end", precision_mode=mode, rewrites=rewrites
        )
        assert not [entry for entry in ledger.rewrites if entry.by == "grouped_convolutions"]


@needs_onednn_in_bfloat16
def test_a_graph_that_is_converted_is_grouped_if_that_is_asked_for_by_name():
    result = check_rewrite(depthwise(SWISH), None, mode=BF16, rewrites="grouped_convolutions")
    assert [entry.after for entry in result.ledger.rewrites] == ["Conv2D"]


@needs_onednn_in_bfloat16
@pytest.mark.parametrize(("factor", "is_grouped"), [("1.0", True), ("2.0", False)])
def test_the_swish_of_keras_2_multiplies_by_one(factor, is_grouped):
    swish = f"""
        beta = Const(value={factor})
        scaled = Mul(biased, beta)
        gate = Sigmoid(scaled)
        active = Mul(biased, gate)
        """
    result = check_rewrite(depthwise(swish), None, mode=BF16, rewrites="none,grouped_convolutions")
    assert [entry.after for entry in result.ledger.rewrites] == ["Conv2D"] * is_grouped


def test_a_graph_without_depthwise_convolutions_stays():
    check_rewrite("x = Placeholder(shape=2)\nend = Exp(x)", UNCHANGED, grouped_convolutions=True)


@pytest.mark.parametrize(
    "options",
    [
        {"precision_mode": "allow_mix_precision_fp16"},
        {"grouped_convolutions": False},
        {"emulate": True},
        {
            "target": "ascend910",
            "grouped_convolutions": None,
            "pad_into_convolutions": None,
            "rewrites": "-fold_constants",
        },
    ],
)
def test_a_depthwise_convolution_stays_where_nothing_runs_in_bfloat16(options, live):
    assert not grouped(live(depthwise(SWISH), **options))


@pytest.mark.parametrize("mode", ["must_keep_origin_dtype", "cube_fp16in_fp32out", "force_fp32"])
def test_a_mode_that_changes_only_dtypes_leaves_it(mode, tmp_path):
    run = rewrite_and_run(read_graph(depthwise(SWISH)), ["end"], tmp_path, precision_mode=mode)
    assert not run.rewrites


SCRIPT = """
import pathlib
import sys

from support.live_rewrite import rewrite_and_run
from support.text_graph import read_graph

graph, folder, mode = sys.argv[1:]
run = rewrite_and_run(read_graph(graph), ["end"], pathlib.Path(folder), precision_mode=mode)
print("grouped:", [entry.node for entry in run.rewrites if entry.by == "grouped_convolutions"])
"""


@needs_onednn_in_bfloat16
@pytest.mark.parametrize(("switch", "told"), [("0", "[]"), ("1", "['conv']")])
def test_it_stays_where_onednn_is_switched_off(switch, told, run_python, tmp_path):
    process = run_python(
        SCRIPT,
        depthwise(SWISH),
        tmp_path / "ledgers",
        BF16,
        TF_ENABLE_ONEDNN_OPTS=switch,
        PYTHONPATH=f"{ROOT}:{ROOT / 'tests'}",
    )
    assert f"grouped: {told}" in process.stdout


@needs_onednn_in_bfloat16
def test_gradients_are_untouched(live):
    with tf.Graph().as_default() as built:
        x = tf1.placeholder(tf.float32, [2, 8, 8, 4], name="x")
        w = tf.constant(random_values("w", [3, 3, 4, 1]))
        sums = tf.nn.depthwise_conv2d(x, w, [1, 1, 1, 1], "SAME")
        biased = tf.nn.bias_add(sums, tf.constant(random_values("b", [4])))
        active = biased * tf.sigmoid(biased)
        gradients = tf.gradients(tf.reduce_sum(active), [x])
    run = live(built.as_graph_def(), [gradient.op.name for gradient in gradients])
    assert not grouped(run)


def swish_in_float64(multiplier=1):
    """The values of a depthwise convolution, a bias and a Swish, in float64."""
    x = np.pad(
        random_values("x", [2, 8, 8, 4]).astype(np.float64), [[0, 0], [1, 1], [1, 1], [0, 0]]
    )
    w = random_values("w", [3, 3, 4, multiplier]).astype(np.float64)
    out = np.zeros([2, 8, 8, 4, multiplier])
    for i in range(8):
        for j in range(8):
            out[:, i, j] = np.einsum("bhwc,hwcm->bcm", x[:, i : i + 3, j : j + 3], w)
    out = out.reshape([2, 8, 8, 4 * multiplier]) + random_values("b", [4 * multiplier])
    return out / (1 + np.exp(-out))


@needs_onednn_in_bfloat16
@pytest.mark.parametrize("multiplier", [1, 2])
def test_the_values_are_those_of_the_depthwise_convolution(multiplier, live):
    text = depthwise(SWISH, multiplier).replace("Softmax", "Identity")
    want = swish_in_float64(multiplier)
    got = live(text)
    assert grouped(got) == ["conv"]
    error = np.abs(got.values[0] - want).max() / np.abs(want).max()
    assert error <= TOLERANCE["bfloat16"]
