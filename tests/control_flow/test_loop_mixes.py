"""Loops around every mix of white, gray and black ops, entered by each colour.

TensorFlow's tests have the same eight loops, which differ in the mix of their body.
"""

from __future__ import annotations

import pytest
from support.check_rewrite import UNCHANGED, check_rewrite
from support.loop_text import loop

OPS = {
    "white": "MatMul({0}, {0})",
    "gray": "Relu({0})",
    "black": "Softmax({0})",
    "neither": "Identity({0})",
}

# By the colours of the body, in order: the rewritten lines between Switch and NextIteration, and
# whether the loop variable is lowered.
BODIES = {
    "neither": (False, "turn = Identity[float32](switch:1)"),
    "gray": (False, "turn = Relu[float32](switch:1)"),
    "black": (False, "turn = Softmax[float32](switch:1)"),
    "white": (True, "turn = MatMul[float16](switch:1, switch:1)"),
    "gray black": (
        False,
        """
        op0 = Relu[float32](switch:1)
        turn = Softmax[float32](op0)
        """,
    ),
    "white gray": (
        True,
        """
        op0 = MatMul[float16](switch:1, switch:1)
        turn = Relu[float16](op0)
        """,
    ),
    "white black": (
        False,
        """
        op0 = MatMul[float16](switch/npu_cast_1_float16, switch/npu_cast_1_float16)
        turn = Softmax[float32](op0/npu_cast_0_float32)
        """,
    ),
    "white gray black": (
        False,
        """
        op0 = MatMul[float16](switch/npu_cast_1_float16, switch/npu_cast_1_float16)
        op1 = Relu[float16](op0)
        turn = Softmax[float32](op1/npu_cast_0_float32)
        """,
    ),
}


def body_text(colors):
    lines, tensor = [], "switch:1"
    for number, color in enumerate(colors):
        name = "turn" if number == len(colors) - 1 else f"op{number}"
        lines.append(f"{name} = {OPS[color].format(tensor)}")
        tensor = name
    return "\n".join(lines)


@pytest.mark.parametrize("colors", BODIES)
def test_a_loop_is_lowered_where_what_it_hands_back_is(colors):
    lowered, body = BODIES[colors]
    graph = loop("start = Identity(x)", body_text(colors.split()))
    if not lowered and "float16" not in body:
        check_rewrite(graph, UNCHANGED)
        return
    loop_type = "float16" if lowered else "float32"
    cast_in = "/npu_cast_0_float16" if lowered else ""
    cast_out = "/npu_cast_0_float32" if lowered else ""
    check_rewrite(
        graph,
        f"""
        start = Identity[float32](x)
        enter = Enter[{loop_type}](start{cast_in})
        merge = Merge[{loop_type}](enter, next)
        switch = Switch[{loop_type}](merge, cond)
        {body}
        next = NextIteration[{loop_type}](turn)
        exit = Exit[{loop_type}](switch)
        end = Softmax[float32](exit{cast_out})
        """,
    )


# The bodies that make the loop float16, by the colour of the value that enters it.
LOWERED = {
    "neither": ["white", "white gray", "gray white", "black white", "black white gray"],
    "white": [
        "neither",
        "gray",
        "white",
        "white gray",
        "gray white",
        "black white",
        "black white gray",
    ],
    "black": [],
}
ORDERS = [*BODIES, "gray white", "black white", "black gray", "black white gray"]


@pytest.mark.parametrize("colors", ORDERS)
@pytest.mark.parametrize("start", LOWERED)
def test_what_enters_has_a_vote_as_what_comes_back_has(start, colors):
    start_line = "start = " + OPS[start].format("x")
    result = check_rewrite(loop(start_line, body_text(colors.split())), None)
    decisions = {
        result.ledger.node(name).decision for name in ("enter", "merge", "switch", "next", "exit")
    }
    assert decisions == {"lowered" if colors in LOWERED[start] else "kept"}
