"""inline_convolutions: a convolution that XLA compiles by itself runs as TensorFlow's kernel."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest
import tensorflow as tf
from support.compiled_rewrite import MUST_COMPILE, rewritten_compiled
from support.live_rewrite import rewrite_and_run
from support.text_functions import read_graph_with_functions
from support.text_graph import random_values
from support.tf_versions import needs_compiled_functions, needs_onednn_in_bfloat16

import npu_precision

pytestmark = [needs_compiled_functions, needs_onednn_in_bfloat16]
BF16 = "allow_mix_precision_bf16"


def graph(body, call="y = PartitionedCall(x, w, f=step)"):
    return textwrap.dedent(f"""
        x = Placeholder(shape=2x8x8x4)
        w = Placeholder(shape=3x3x1x4)
        {call}
        def step(x, w) -> (result):
            {textwrap.indent(textwrap.dedent(body), " " * 12).strip()}
    """)


CONVOLUTION = "result = Conv2D(x, w, strides=[1, 1, 1, 1], padding=SAME)"


@pytest.fixture
def run(tmp_path):
    """Runs a graph whose function XLA compiles: the ops that ran, and the ledger's rewrites."""

    def run(text, **options):
        given = read_graph_with_functions(text)
        for each in (*given.library.function, given.node[-1]):
            each.attr[MUST_COMPILE].b = True
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        ran = rewrite_and_run(given, ["y"], folder, precision_mode=BF16, **options)
        return set(ran.ops().values()), ran.rewrites

    return run


def test_it_becomes_a_convolution(run):
    ops, rewrites = run(graph(CONVOLUTION))
    assert "Conv2D" in ops
    assert "PartitionedCall" not in ops
    assert [(each.by, each.node, each.after) for each in rewrites] == [
        ("inline_convolutions", "y", "Conv2D")
    ]


def test_an_identity_behind_it_does_not_matter(run):
    ops, _ = run(
        graph(
            """
            product = Conv2D(x, w, strides=[1, 1, 1, 1], padding=SAME)
            result = Identity(product)
            """
        )
    )
    assert "Conv2D" in ops


REFUSED = {
    "another op": graph(
        "product = Conv2D(x, w, strides=[1, 1, 1, 1], padding=SAME)\nresult = Relu(product)"
    ),
    "a constant filter inside": graph(
        "v = Const(shape=3x3x1x4)\nresult = Conv2D(x, v, strides=[1, 1, 1, 1], padding=SAME)"
    ),
}


@pytest.mark.parametrize("why", REFUSED)
def test_it_stays_a_call_with(why, run):
    ops, rewrites = run(REFUSED[why])
    assert "PartitionedCall" in ops
    assert not rewrites


@pytest.mark.parametrize(
    "options",
    [
        {"rewrites": "-inline_convolutions"},
        {"modify_mixlist": {"black-list": {"to-add": ["node:y"]}}},
        {"emulate": True},
    ],
    ids=["switched off", "named by the user", "emulated"],
)
def test_it_stays_a_call_if_it_is(options, run):
    ops, _ = run(graph(CONVOLUTION), **options)
    assert "PartitionedCall" in ops


def test_a_conversion_for_an_unknown_machine_leaves_it():
    text, ledger = rewritten_compiled(graph(CONVOLUTION), ["step"], precision_mode=BF16)
    assert "y = PartitionedCall[" in text
    assert not ledger.rewrites


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_values_are_those_of_the_compiled_convolution(groups):
    """Keras compiles convolutions of groups."""
    x = random_values("x", [2, 8, 8, 4])
    w = tf.Variable(random_values("w", [3, 3, 4 // groups, 8]))

    @tf.function(jit_compile=True)
    def convolution(x, w):
        return tf.nn.conv2d(x, w, [1, 2, 2, 1], "SAME")

    step = tf.function(lambda x: tf.nn.relu(convolution(x, w)))
    exact = step(tf.constant(x))
    with npu_precision.autocast(precision_mode=BF16):
        lowered = step(tf.constant(x))
    error = np.abs(lowered - exact).max() / np.abs(exact).max()
    assert 1e-4 < error < 2e-2
    assert MUST_COMPILE in str(step.get_concrete_function(tf.constant(x)).graph.as_graph_def())
