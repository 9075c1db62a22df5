"""Where XLA compiles, values are rounded by its own op: it may drop a Cast and the Cast back.

tests/session/test_compiled_code.py compares the values, and reads the code that XLA generates.
"""

from __future__ import annotations

import textwrap

from support.compiled_rewrite import rewritten_compiled
from support.tf_versions import needs_compiled_functions

pytestmark = needs_compiled_functions
GRAPH = """
    x = Placeholder(shape=4x8)
    w = Placeholder(shape=8x8)
    y = PartitionedCall(x, w, f=step)
    def step(x, w) -> (result):
        result = MatMul(x, w)
"""


def body_of(text):
    """The lines of the only function."""
    return text[text.index("def ") :].splitlines()[1:]


def lines(text):
    return textwrap.dedent(text).strip().splitlines()


def test_bfloat16_is_rounded_to_by_one_op():
    text, _ = rewritten_compiled(
        GRAPH, ["step"], precision_mode="allow_mix_precision_bf16", emulate=True
    )
    for name in ("x", "w"):
        text = text.replace(f"{name}/npu_cast_0_bfloat16/npu_emulated_0_float32", name.upper())
    assert body_of(text) == lines(
        """
        X = XlaReducePrecision[float32](x)
        W = XlaReducePrecision[float32](w)
        result = MatMul[float32](X, W)
        result/npu_cast_0_float32 = XlaReducePrecision[float32](result)
        """
    )


def test_float16_has_subnormal_numbers_which_that_op_lacks():
    text, _ = rewritten_compiled(GRAPH, ["step"], precision_mode="cube_fp16in_fp32out")
    for name in ("x", "w"):
        text = text.replace(f"{name}/npu_cast_0_float16/npu_cast_0_float32", name.upper())
    assert body_of(text) == lines(
        """
        X/size = Abs[float32](x)
        X/least = Const[float32]()
        X/is_small = Less[float32](X/size, X/least)
        X/scale = Const[float32]()
        X/scaled = Mul[float32](x, X/scale)
        X/whole = Rint[float32](X/scaled)
        X/unit = Const[float32]()
        X/small = Mul[float32](X/whole, X/unit)
        X/normal = XlaReducePrecision[float32](x)
        X = SelectV2[float32](X/is_small, X/small, X/normal)
        W/size = Abs[float32](w)
        W/least = Const[float32]()
        W/is_small = Less[float32](W/size, W/least)
        W/scale = Const[float32]()
        W/scaled = Mul[float32](w, W/scale)
        W/whole = Rint[float32](W/scaled)
        W/unit = Const[float32]()
        W/small = Mul[float32](W/whole, W/unit)
        W/normal = XlaReducePrecision[float32](w)
        W = SelectV2[float32](W/is_small, W/small, W/normal)
        result = MatMul[float32](X, W)
        """
    )


def test_the_ledger_lists_what_rounds():
    _, ledger = rewritten_compiled(GRAPH, ["step"], precision_mode="cube_fp16in_fp32out")
    (function,) = ledger.functions
    assert [(each.by, each.before, each.after) for each in function.rewrites] == [
        ("round_for_xla", "Cast", "XlaReducePrecision")
    ] * 2


def test_what_is_not_compiled_is_rounded_by_casts():
    for options in (
        {"precision_mode": "allow_mix_precision_bf16", "emulate": True},
        {"precision_mode": "cube_fp16in_fp32out"},
    ):
        text, _ = rewritten_compiled(GRAPH, [], **options)
        assert "XlaReducePrecision" not in text
        assert "npu_cast_0_" in text
