"""A small step of a factor of a product, as in gradient descent on a value, is taken in float32."""

from __future__ import annotations

import json

import pytest
from support.check_rewrite import check_rewrite
from support.tf_versions import need_kernels

STEP = ("kept", "updates_value", "w")
BEFORE = """
    x = Placeholder(shape=8x8)
    w = Placeholder(shape=8x8)
    rate = Const(value=0.01)
    y = MatMul(x, w)
    gradient = MatMul(x, y, transpose_a=True)
    """


def decided(lines, before=BEFORE, **options):
    result = check_rewrite(
        before + lines, None, mode="allow_mix_precision_bf16", run=False, **options
    )
    return result.reasons


@pytest.mark.parametrize(
    "lines",
    [
        "step = Mul(gradient, rate) \n end = Sub(w, step)",
        "step = Mul(rate, gradient) \n end = AddV2(w, step)",
        "step = Mul(rate, gradient) \n end = AddV2(step, w)",
        "many = Const(value=64.0) \n step = RealDiv(gradient, many) \n end = Sub(w, step)",
        "step = Mul(gradient, rate) \n copy = Identity(w) \n end = Sub(copy, step)",
        "given = Placeholder(shape=scalar) \n step = Mul(gradient, given) \n end = Sub(w, step)",
    ],
)
def test_a_step_of_a_factor_is_taken_in_float32(lines):
    found = decided(lines)
    assert found["end"] == STEP
    assert found["step"][0] == "kept"
    assert found["gradient"] == ("lowered", "white_list", "")


def test_so_is_each_step_from_its_result():
    lines = """
        step = Mul(gradient, rate)
        w1 = Sub(w, step)
        y1 = MatMul(x, w1)
        gradient1 = MatMul(x, y1, transpose_a=True)
        step1 = Mul(gradient1, rate)
        w2 = Sub(w1, step1)
        end = MatMul(x, w2)
        """
    found = decided(lines)
    assert found["w1"] == found["w2"] == found["step1"] == STEP
    assert found["y1"] == found["end"] == ("lowered", "white_list", "")


@pytest.mark.parametrize(
    "lines",
    [
        # The sum of two layers, a layer's bias, and an embedding with positions.
        "step = Mul(gradient, rate) \n end = AddV2(y, step)",
        "b = Placeholder(shape=8) \n step = Mul(gradient, rate) \n end = AddV2(step, b)",
        "end = AddV2(w, gradient)",
        "gate = Sigmoid(y) \n step = Mul(gradient, gate) \n end = AddV2(w, step)",
        "step = Mul(gradient, rate) \n end = Sub(step, w)",
    ],
    ids=["layers", "bias", "no factor", "no number", "turned"],
)
def test_other_sums_follow_their_predecessors(lines):
    need_kernels("bfloat16", "Sigmoid")
    assert decided(lines)["end"][0] == "lowered"


@pytest.mark.parametrize("entry", ["Sub", "node:end"])
def test_a_mixlist_entry_beats_it(entry):
    edits = json.dumps({"gray-list": {"to-add": [entry, "Mul"]}})
    lines = "step = Mul(gradient, rate) \n end = Sub(w, step)"
    assert decided(lines, mixlist_edits=edits)["end"][0] == "lowered"


def test_the_values_are_those_of_float32():
    check_rewrite(
        BEFORE + "step = Mul(gradient, rate) \n end = Sub(w, step)",
        """
        y = MatMul[bfloat16](x/npu_cast_0_bfloat16, w/npu_cast_0_bfloat16)
        gradient = MatMul[bfloat16](x/npu_cast_0_bfloat16, y)
        step = Mul[float32](gradient/npu_cast_0_float32, rate)
        end = Sub[float32](w, step)
        """,
        mode="allow_mix_precision_bf16",
    )
