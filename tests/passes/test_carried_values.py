"""Values that no product made keep float32 where they leave the graph beside those of products."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow as tf
from support.check_rewrite import check_rewrite
from support.text_graph import random_values

import npu_precision

tf1 = tf.compat.v1

MODES = ["allow_mix_precision_bf16", "allow_mix_precision_fp16"]
LOWERED = ("lowered", "gray_follows_lowered")


def reasons_of(lines, mode="allow_mix_precision_bf16", **options):
    result = check_rewrite(
        f"""
        x = Placeholder(shape=8x32)
        w = Const(shape=32x8)
        time = Placeholder(shape=8x8)
        id = Placeholder[int32](shape=8x8)
        weights = Const(shape=8x8)
        pixels = Const(shape=16)
        which = Const[bool](value=True)
        is_known = Placeholder[bool](shape=8x8)
        axis = Const[int32](value=1)
        begin = Const[int32](value=[0, 4])
        size = Const[int32](value=[8, 8])
        product = MatMul(x, w)
        {lines}
        """,
        None,
        ["end"],
        run=False,
        mode=mode,
        **options,
    )
    return {name: reason[:2] for name, reason in result.reasons.items()}, result.reasons


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("lines", "cause"),
    [
        ("end = ConcatV2(product, time, axis)", "time"),
        ("end = SelectV2(is_known, time, product)", "time"),
        ("end = Maximum(time, product)", "time"),
        ("number = Cast[int32,float32](id)\nend = ConcatV2(product, number, axis)", "number"),
        ("late = AddV2(time, time)\nend = ConcatV2(late, product, axis)", "late"),
        ("joined = ConcatV2(product, time, axis)\nend = Slice(joined, begin, size)", "time"),
        ("layer = Relu(product)\nend = ConcatV2(layer, time, axis)", "time"),
        ("joined = ConcatV2(product, time, axis)\nend = Mul(joined, pixels)", "time"),
        (
            "of = Switch(product, which)\nat = Switch(time, which)\n"
            "joined = ConcatV2(of:1, at:1, axis)\ndefault = ConcatV2(of, of, axis)\n"
            "either = Merge(joined, default)\nend = Identity(either)",
            "at",
        ),
    ],
)
def test_what_only_moves_to_a_result_is_not_rounded(lines, cause, mode):
    _, reasons = reasons_of(lines, mode)
    assert reasons["end"] == ("kept", "carries_value", cause)
    assert reasons.get("joined", reasons["end"]) == reasons["end"]
    assert reasons["product"][0] == "lowered"
    assert reasons.get("layer", LOWERED)[0] == "lowered"


@pytest.mark.parametrize(
    "lines",
    [
        "join = ConcatV2(product, weights, axis)\nend = Identity(join)",
        "join = ConcatV2(product, time, axis)\nend = Tanh(join)",
        "v = Const(shape=16x8)\njoin = ConcatV2(product, time, axis)\nend = MatMul(join, v)",
        "join = AddV2(product, time)\nend = Identity(join)",
        "joined = ConcatV2(product, time, axis)\njoin = Mul(joined, joined)\nend = Identity(join)",
        "number = Cast[bool,float32](is_known)\njoin = ConcatV2(product, number, axis)\n"
        "end = Identity(join)",
    ],
    ids=[
        "weights",
        "computed with",
        "a product reads it",
        "a sum",
        "a square",
        "a mask, exact in any dtype",
    ],
)
def test_elsewhere_a_join_follows_its_predecessors(lines):
    assert reasons_of(lines)[0]["join"] == LOWERED


def test_a_path_ends_where_the_user_lowers():
    edits = json.dumps({"gray-list": {"to-add": ["ConcatV2"]}})
    lines = "join = ConcatV2(product, time, axis)\nend = Identity(join)"
    reasons, _ = reasons_of(lines, mixlist_edits=edits)
    assert reasons["join"] == reasons["end"] == LOWERED


@pytest.mark.parametrize("mode", MODES)
def test_classes_of_a_detector_arrive_as_they_are(mode):
    """bfloat16 holds whole numbers up to 256."""
    classes = [740, 289, 29, 407]
    with tf.Graph().as_default():
        x = tf1.placeholder(tf.float32, [4, 64])
        scores = tf1.placeholder(tf.float32, [4, 1000])
        ids = tf.cast(tf.argmax(scores, -1), tf.float32)
        boxes = tf.matmul(x, tf.constant(random_values("w", [64, 4])))
        found = tf.concat([boxes, ids[:, None]], -1)
        fed = {x: random_values("x", [4, 64]), scores: np.eye(1000, dtype="f")[classes]}
        with tf1.Session(config=npu_precision.npu_config_proto(precision_mode=mode)) as session:
            np.testing.assert_array_equal(session.run(found, fed)[:, 4], classes)


def test_a_variable_of_a_loop_is_no_such_value():
    """A sequence's state stays where a sequence has ended."""
    result = check_rewrite(
        """
        x = Placeholder(shape=4x4)
        zero = Const[int32](value=0)
        loop = While(zero, x, cond=less_than_four, body=step)
        end = Identity(loop:1)
        def less_than_four(n[int32], x) -> (less):
            four = Const[int32](value=4)
            less = Less(n, four)
        def step(n[int32], x) -> (next, state):
            one = Const[int32](value=1)
            next = AddV2(n, one)
            product = MatMul(x, x)
            layer = Tanh(product)
            state = Maximum(layer, x)
        """,
        None,
        ["end"],
    )
    assert "state = Maximum[float16](" in result.text
