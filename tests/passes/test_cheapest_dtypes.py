"""Gray nodes keep float32 if that is faster, Casts included, by the sizes of their tensors."""

from __future__ import annotations

import json

import numpy as np
import pytest
from support.check_rewrite import run as run_graph
from support.live_rewrite import rewrite_and_run
from support.text_graph import random_values, read_graph
from support.tf_versions import needs_onednn_in_bfloat16

import npu_precision

pytestmark = needs_onednn_in_bfloat16

SLOW, COSTLY = ("kept", "slow_kernel"), ("kept", "casts_cost_more")
FOLLOWS, WHITE = ("lowered", "gray_follows_lowered"), ("lowered", "white_list")


def between_products(body, size="256x256"):
    """A text graph whose `body` reads the product "a" and yields "b" for another product."""
    return f"""
        x = Placeholder(shape={size})
        w = Const(shape=256x256)
        c = Const(shape=256)
        order = Const[int32](value=[1, 0])
        a = MatMul(x, w)
        {body}
        end = MatMul(b, w)
        """


def decided(text, folder, mode="allow_mix_precision_bf16", **options):
    """By node: its decision and the reason. The values are those of float32, nearly."""
    graph = read_graph(text)
    width = 16 if "?x16" in text else 256
    feeds = {"x": random_values("x", [256, width])} if "?" in text else None
    run = rewrite_and_run(
        graph, ["end"], folder, feeds=feeds, precision_mode=mode, rewrites="none", **options
    )
    if feeds is None:
        (exact,) = run_graph(graph, ["end"])
        far = 0.03 * np.abs(exact).max()
        np.testing.assert_allclose(run.values[0], exact, rtol=0, atol=far)
    (file,) = folder.glob("*.json")
    nodes = npu_precision.Ledger.from_json(file.read_text()).nodes
    return {node.name: (node.decision, node.reason) for node in nodes}


SIGMOID = between_products("b = Sigmoid(a)")


def test_a_slow_kernel_keeps_float32(tmp_path):
    nodes = decided(SIGMOID, tmp_path)
    assert (nodes["a"], nodes["b"], nodes["end"]) == (WHITE, SLOW, WHITE)


@pytest.mark.parametrize("body", ["b = Relu6(a)", "b = Mul(a, c)", "b = Transpose(a, order)"])
def test_a_kernel_that_costs_less_than_two_casts_is_lowered(body, tmp_path):
    assert decided(between_products(body), tmp_path)["b"] == FOLLOWS


def test_several_such_kernels_share_their_casts(tmp_path):
    body = """
        scaled = Mul(a, c)
        shifted = AddV2(scaled, c)
        b = Relu6(shifted)
        """
    nodes = decided(between_products(body), tmp_path)
    assert [nodes[name] for name in ("scaled", "shifted", "b")] == 3 * [SLOW]


def test_what_only_moves_values_between_them_goes_along(tmp_path):
    body = """
        gate = Sigmoid(a)
        moved = Transpose(gate, order)
        b = Tanh(moved)
        """
    nodes = decided(between_products(body), tmp_path)
    assert [nodes[name] for name in ("gate", "moved", "b")] == [SLOW, COSTLY, SLOW]


def test_a_cast_is_counted_once_for_all_its_readers(tmp_path):
    """With a Cast for each reader, they would be lowered."""
    body = """
        r0 = Relu(a)
        r1 = LeakyRelu(a)
        r2 = Tanh(a)
        b = AddN(r0, r1, r2)
        """
    nodes = decided(between_products(body), tmp_path)
    assert [nodes[name] for name in ("r0", "r1", "r2", "b")] == 4 * [SLOW]


def test_before_an_op_that_keeps_float32_no_more_casts_are_needed(tmp_path):
    nodes = decided(
        """
        x = Placeholder(shape=256x256)
        w = Const(shape=256x256)
        a = MatMul(x, w)
        b = Relu(a)
        end = LogSoftmax(b)
        """,
        tmp_path,
    )
    assert nodes["b"] == SLOW


def test_what_tensorflow_fuses_into_a_product_is_lowered(tmp_path):
    body = """
        biased = BiasAdd(a, c)
        b = Sigmoid(biased)
        """
    nodes = decided(between_products(body), tmp_path)
    assert (nodes["biased"], nodes["b"]) == (FOLLOWS, FOLLOWS)


def test_what_another_node_reads_is_not_fused(tmp_path):
    body = """
        biased = BiasAdd(a, c)
        gate = Sigmoid(biased)
        other = MatMul(biased, w)
        b = AddV2(gate, other)
        """
    assert decided(between_products(body), tmp_path)["gate"] == SLOW


def test_the_nodes_of_a_gelu_behind_a_bias_are_lowered(tmp_path):
    body = """
        biased = BiasAdd(a, c)
        root = Const(value=0.70710678)
        half = Const(value=0.5)
        one = Const(value=1.0)
        scaled = Mul(biased, root)
        erf = Erf(scaled)
        sum = AddV2(erf, one)
        halved = Mul(biased, half)
        b = Mul(halved, sum)
        """
    nodes = decided(between_products(body), tmp_path)
    assert {nodes[name] for name in ("scaled", "erf", "halved", "b")} == {FOLLOWS}


def test_a_swish_is_one_kernel_wherever_it_is(tmp_path):
    body = """
        moved = AddV2(a, c)
        gate = Sigmoid(moved)
        b = Mul(moved, gate)
        """
    nodes = decided(between_products(body), tmp_path)
    assert {nodes[name] for name in ("moved", "gate", "b")} == {FOLLOWS}


def test_small_tensors_are_lowered(tmp_path):
    """The time to start a Cast is more than the kernels differ by."""
    assert decided(between_products("b = Sigmoid(a)", "1x256"), tmp_path)["b"] == FOLLOWS


@pytest.mark.parametrize(("width", "reason"), [(256, FOLLOWS), (65536, SLOW)])
def test_a_batch_of_unknown_size_counts_as_one(width, reason, tmp_path):
    text = f"""
        x = Placeholder(shape=?x16)
        w = Const(shape=16x{width})
        v = Const(shape={width}x16)
        a = MatMul(x, w)
        b = Sigmoid(a)
        end = MatMul(b, v)
        """
    assert decided(text, tmp_path)["b"] == reason


def test_tensors_of_unknown_size_are_not_judged(tmp_path):
    text = SIGMOID.replace("x = Placeholder(shape=256x256)", "x = Placeholder(shape=?x?)")
    assert decided(text, tmp_path)["b"] == FOLLOWS


def test_a_mixlist_entry_beats_it(tmp_path):
    edits = json.dumps({"gray-list": {"to-add": ["Sigmoid"]}})
    assert decided(SIGMOID, tmp_path, mixlist_edits=edits)["b"] == FOLLOWS


@pytest.mark.parametrize(
    "options",
    [
        {"emulate": True},
        {"all_white": True},
        {"target": "ascend910b"},
        {"mode": "allow_mix_precision"},
    ],
    ids=str,
)
def test_other_devices_and_dtypes_have_other_kernels(options, tmp_path):
    assert decided(SIGMOID, tmp_path, **options)["b"][0] == "lowered"


def test_a_conversion_does_not_know_the_machine():
    _, ledger = npu_precision.rewrite_graph_def(
        read_graph(SIGMOID), ["end"], precision_mode="allow_mix_precision_bf16"
    )
    (gate,) = (node for node in ledger.nodes if node.name == "b")
    assert (gate.decision, gate.reason) == FOLLOWS
