"""The risks by which npu-precision tune ranks lowered nodes: ranges, constants, sums."""

from __future__ import annotations

import math

import numpy as np
import pytest
from support.loop_text import counter

from npu_precision import PrecisionOptions
from npu_precision.accuracy import frozen
from npu_precision.accuracy.comparison import Comparer
from npu_precision.offline import model_file
from npu_precision.tuning import risk


@pytest.fixture
def suspects(graph_file):
    """suspects(text, x=..., ...) -> the suspects, by falling risk."""

    def find(text, mode="allow_mix_precision", edits=None, **inputs):
        model = frozen.freeze(model_file.load_model(graph_file(text)))
        options = PrecisionOptions(precision_mode=mode, emulate=True, mixlist_edits=edits)
        feed = {f"{name}:0": np.float32(value) for name, value in inputs.items()}
        return risk.suspects(model, Comparer(model, options).run([feed]))

    return find


TEXT = """
    x = Placeholder(shape=4x4)
    small = Placeholder(shape=4x4)
    large = Exp(x)
    reads = MatMul(large, small)
    yields = MatMul(x, small)
    epsilon = Const(value=1e-7)
    guarded = AddV2(yields, epsilon)
    exact = MatMul(small, small)
    end = Exp(exact)
    out = AddN(reads, guarded, end)
    """


def test_each_risk_is_told_in_words(suspects):
    small = 2.0**-17 * np.eye(4)
    # Without an entry it would keep float32 for its constant.
    lowered = '{"white-list": {"to-add": ["node:guarded"]}}'
    values = {"x": np.full([4, 4], 12.0), "small": small}
    found = {each.node: each for each in suspects(TEXT, edits=lowered, **values)}
    assert found["reads"].why[0] == "reads values up to 1.6e+05"
    assert found["reads"].risk == math.inf
    assert not any("below" in why for why in found["yields"].why)
    assert "reads the constant 1.0e-07" in found["guarded"].why
    assert found["guarded"].risk == pytest.approx(2.0**-25 / 1e-7, rel=1e-6)
    assert "25.0% of its values are below 6.1e-05" in found["exact"].why
    assert found["exact"].risk >= 0.25


def test_those_of_most_risk_are_first_and_then_those_that_run_first(suspects):
    found = suspects(TEXT, x=np.full([4, 4], 12.0), small=2.0**-17 * np.eye(4))
    risks = [each.risk for each in found]
    assert risks == sorted(risks, reverse=True)
    text = """
        x = Placeholder(shape=4x4)
        first = MatMul(x, x)
        second = MatMul(first, x)
        third = MatMul(second, x)
        """
    order = [each.node for each in suspects(text, x=np.eye(4))]
    assert order == ["first", "second", "third"]


LOOP = f"""
    row = Placeholder(shape=1x4096)
    column = Placeholder(shape=4096x1)
    start = Placeholder(shape=1x1)
    {counter(3)}
    row_enter = Enter(row, frame_name=loop, is_constant=True)
    column_enter = Enter(column, frame_name=loop, is_constant=True)
    enter = Enter(start, frame_name=loop)
    merge = Merge(enter, next)
    switch = Switch(merge, cond)
    long = MatMul(row_enter, column_enter)
    turn = MatMul(switch:1, long)
    layer = Tanh(turn)
    next = NextIteration(layer)
    exit = Exit(switch)
    out = Tanh(exit)
    """


def test_in_loops_long_sums_come_before_what_nothing_is_known_of(suspects):
    inputs = {"row": np.zeros([1, 4096]), "column": np.zeros([4096, 1]), "start": [[1.0]]}
    found = suspects(LOOP, **inputs)
    in_loop = [each for each in found if each.node in ("long", "turn")]
    unseen = "inside of a loop or branch, where nothing is measured"
    assert [each.node for each in in_loop] == ["long", "turn"]
    assert in_loop[0].why == ("adds 4096 terms", unseen)
    assert in_loop[0].risk == 2.0**-11 * 64
    assert in_loop[1].why == (unseen,)


def test_bfloat16_has_other_limits(suspects):
    small = 2.0**-17 * np.eye(4)
    found = suspects(TEXT, "allow_mix_precision_bf16", x=np.full([4, 4], 12.0), small=small)
    words = " ".join(why for each in found for why in each.why)
    assert "reads values" not in words
    assert "below" not in words
    assert "error" in words
