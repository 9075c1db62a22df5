"""white_only: ops of the gray list keep float32."""

from __future__ import annotations

import json

import pytest
from support.check_rewrite import check_rewrite

import npu_precision

CHAIN = """
    x = Placeholder(shape=4x4)
    first = MatMul(x, x)
    gray = Relu(first)
    second = MatMul(gray, gray)
    end = Exp(second)
    """
KEPT = """
    first = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
    gray = Relu[float32](first/npu_cast_0_float32)
    second = MatMul[float16](gray/npu_cast_0_float16, gray/npu_cast_0_float16)
    end = Exp[float32](second/npu_cast_0_float32)
    """
LOWERED = """
    first = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
    gray = Relu[float16](first)
    second = MatMul[float16](gray, gray)
    end = Exp[float32](second/npu_cast_0_float32)
    """


def test_gray_ops_between_white_ones_are_kept():
    result = check_rewrite(CHAIN, KEPT, white_only=True)
    node = result.ledger.node("gray")
    assert (node.list, node.listed_by, node.reason) == ("black", "white_only", "black_list")


@pytest.mark.parametrize("entry", ["Relu", "node:gray"])
@pytest.mark.parametrize("name", ["white", "gray"])
def test_an_edit_beats_it(name, entry):
    edits = json.dumps({f"{name}-list": {"to-add": [entry]}})
    check_rewrite(CHAIN, LOWERED, white_only=True, mixlist_edits=edits)


def test_what_is_removed_from_a_list_becomes_gray_and_is_lowered():
    edits = json.dumps({"black-list": {"to-remove": ["Exp"]}})
    result = check_rewrite(CHAIN, None, white_only=True, mixlist_edits=edits)
    decided = {node.name: node.decision for node in result.ledger.nodes}
    assert (decided["gray"], decided["end"]) == ("kept", "lowered")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"all_white": True}, "got all_white and white_only, expected one"),
        ({"precision_mode": "force_fp16"}, "white_only: got 'true' with precision_mode"),
    ],
)
def test_options_that_contradict_it_are_errors(options, message):
    fields = {"precision_mode": "allow_mix_precision", "white_only": True, **options}
    with pytest.raises(ValueError, match=message):
        npu_precision.npu_config_proto(**fields)
