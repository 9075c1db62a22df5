"""squeeze_masks: a mask that is the same for the whole batch and all heads is read as a matrix.

Otherwise, TensorFlow would fuse the mask into the product, with a kernel of oneDNN that is a
hundred times slower.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest
import tensorflow as tf
from support.check_rewrite import check_rewrite
from support.live_rewrite import rewrite_and_run
from support.text_graph import random_values, read_graph
from support.tf_versions import needs_kernels, needs_onednn

BF16 = "allow_mix_precision_bf16"
check = functools.partial(check_rewrite, mode=BF16, squeeze_masks=True)
tf1 = tf.compat.v1
pytestmark = needs_kernels("bfloat16", "BatchMatMulV2", "AddV2", "Squeeze")
ATTENTION = """
    q = Placeholder(shape=2x3x4x5)
    k = Placeholder(shape=2x3x5x6)
    mask = Placeholder(shape=1x1x4x6)
    scale = Const(value=0.5)
    product = BatchMatMulV2(q, k)
    scaled = Mul(product, scale)
    scores = AddV2(scaled, mask)
    end = Softmax(scores)
    """


def attention(*edits):
    text = ATTENTION
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    return text


def squeezed(result):
    return [entry.node for entry in result.ledger.rewrites]


def test_the_mask_is_read_without_batch_and_heads():
    # Whether a Softmax is lowered depends on the processor.
    result = check(
        attention(("Softmax", "Relu")),
        """
        product = BatchMatMulV2[bfloat16](q/npu_cast_0_bfloat16, k/npu_cast_0_bfloat16)
        scaled = Mul[bfloat16](product, scale/npu_cast_0_bfloat16)
        mask/npu_squeeze_0_0_1 = Squeeze[float32](mask)
        scores = AddV2[bfloat16](scaled, mask/npu_squeeze_0_0_1/npu_cast_0_bfloat16)
        end/npu_changed = Relu[bfloat16](scores)
        end = Cast[bfloat16,float32](end/npu_changed)
        """,
    )
    (entry,) = result.ledger.rewrites
    assert (entry.by, entry.node) == ("squeeze_masks", "scores")
    assert (entry.before, entry.after) == ("mask", "mask/npu_squeeze_0_0_1")
    (squeeze,) = (node for node in result.graph.node if node.op == "Squeeze")
    assert [*squeeze.attr["squeeze_dims"].list.i] == [0, 1]


FORMS = {
    "the mask first": [("(scaled, mask)", "(mask, scaled)")],
    "Add": [("AddV2", "Add")],
    "the scale first": [("(product, scale)", "(scale, product)")],
    "divided": [("Mul(", "RealDiv(")],
    "scaled before the product": [
        ("Mul(product, scale)", "Identity(product)"),
        ("product = ", "small = Mul(q, scale)\n    product = "),
        ("(q, k)", "(small, k)"),
        ("(scaled, mask)", "(product, mask)"),
    ],
    "a column": [("1x1x4x6", "1x1x4x1")],
    "a constant": [("mask = Placeholder", "mask = Const")],
    "computed": [("(scaled, mask)", "(scaled, far)"), ("end =", "far = Exp(mask)\n    end =")],
    "control dependency": [("(scaled, mask)", "(scaled, mask, ^q)")],
}


@pytest.mark.parametrize("form", sorted(FORMS))
def test_in_whatever_form_the_scores_are_written(form):
    result = check(attention(*FORMS[form]), None)
    assert squeezed(result)[0] == "scores"


@pytest.mark.parametrize(
    "shapes", [[("2x3x4x5", "?x3x4x5")], [("1x1x4x6", "1x1x?x6")], [("1x1x4x6", "1x1x?x?")]]
)
def test_sizes_that_are_not_known_do_not_matter(shapes):
    assert squeezed(check(attention(*shapes), None, run=False)) == ["scores"]


REFUSED = {
    "a mask of each batch": [("1x1x4x6", "2x1x4x6")],
    "a mask of some batch": [("1x1x4x6", "?x1x4x6")],
    "a mask of each head": [("1x1x4x6", "1x3x4x6")],
    "one row": [("1x1x4x6", "1x1x1x6")],
    "a matrix": [("1x1x4x6", "4x6")],
    "a batch of one": [("2x3x4x5", "1x3x4x5"), ("2x3x5x6", "1x3x5x6")],
    "a product of three dimensions": [("2x3x4x5", "3x4x5"), ("2x3x5x6", "3x5x6")],
    "a product of five dimensions": [("2x3x4x5", "2x2x3x4x5"), ("2x3x5x6", "2x2x3x5x6")],
    "no product": [("BatchMatMulV2(q, k)", "Maximum(q, q)"), ("1x1x4x6", "1x1x4x5")],
    "a difference": [("AddV2", "Sub")],
    "a curve": [("Mul(product, scale)", "Sigmoid(product)")],
}


@pytest.mark.parametrize("case", sorted(REFUSED))
def test_other_masks_stay(case):
    run = "?" not in str(REFUSED[case])
    assert not squeezed(check(attention(*REFUSED[case]), None, run=run))


def test_a_product_of_unknown_rank_keeps_its_mask():
    """Added to a product of two dimensions, the mask would make it four."""
    graph_def = read_graph(attention())
    for node in graph_def.node[:2]:
        node.attr["shape"].shape.unknown_rank = True
        del node.attr["shape"].shape.dim[:]
    assert not squeezed(check(graph_def, None, run=False))


@pytest.mark.parametrize(
    "edits",
    [
        '{"gray-list": {"to-add": ["node:scores"]}}',
        '{"white-list": {"to-add": ["AddV2"]}}',
        '{"black-list": {"to-add": ["Squeeze"]}}',
    ],
)
def test_what_the_mixlist_names_stays(edits):
    assert not squeezed(check(attention(), None, mixlist_edits=edits))


def test_layers_share_a_mask():
    text = attention(
        ("end =", "weights = Softmax(scores)\n    more = AddV2(scaled, mask)\n    end ="),
        ("Softmax(scores)\n    more", "Exp(scores)\n    more"),
        ("end = Softmax(scores)", "end = AddV2(more, weights)"),
    )
    result = check(text, None)
    assert squeezed(result) == ["more", "scores"]
    assert [node.op for node in result.graph.node].count("Squeeze") == 1


def test_a_name_that_is_taken_gets_a_number():
    text = attention(("end =", "mask/npu_squeeze_0_0_1 = Exp(scores)\n    end ="))
    (entry,) = check(text, None).ledger.rewrites
    assert entry.after == "mask/npu_squeeze_0_0_1_1"


def test_it_can_be_switched_off():
    assert not squeezed(check(attention(), None, squeeze_masks=False))


@pytest.fixture
def live(tmp_path):
    """Rewrites and runs a graph in bfloat16, with this pass alone."""

    def run(graph_def, fetches, **options):
        report_dir = tmp_path / str(len(list(tmp_path.iterdir())))
        only = {"rewrites": "none", "lower_collectives": False}
        options = {"precision_mode": BF16, **only, "squeeze_masks": True, **options}
        return rewrite_and_run(graph_def, list(fetches), report_dir, **options)

    return run


@needs_onednn
def test_tensorflow_fuses_no_mask_that_is_slow(live):
    def fused(run):
        return [op for op in run.ops().values() if op.startswith("FusedBatchMatMulV2")]

    graph_def = read_graph(attention(("mask = Placeholder", "mask = Const")))
    slow, fast = live(graph_def, ["end"], squeeze_masks=False), live(graph_def, ["end"])
    assert fused(slow)
    assert not fused(fast)
    np.testing.assert_allclose(fast.values[0], slow.values[0], 0.05, 0.05)


def test_scores_that_are_fed_stay(live):
    run = live(
        read_graph(attention()), ["end"], feeds={"scores": random_values("scores", [2, 3, 4, 6])}
    )
    assert not run.rewrites


def test_gradients_are_untouched(live):
    with tf.Graph().as_default() as built:
        q, k = (
            tf.constant(random_values(name, shape))
            for name, shape in (("q", [2, 3, 4, 5]), ("k", [2, 3, 6, 5]))
        )
        mask = tf.constant(random_values("mask", [1, 1, 4, 6]))
        q, k, mask = (tf1.placeholder_with_default(x, x.shape) for x in (q, k, mask))
        scores = tf.matmul(q, k, transpose_b=True) * 0.5 + mask
        loss = tf.reduce_sum(tf.nn.softmax(scores) ** 2)
        gradients = [gradient.op.name for gradient in tf.gradients(loss, [q, k, mask])]
    graph_def = built.as_graph_def()
    got, want = (live(graph_def, gradients, squeeze_masks=on) for on in (True, False))
    assert len(got.rewrites) == 1
    for one, other in zip(got.values, want.values):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, 5e-2, 5e-2)
