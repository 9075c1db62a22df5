"""The decisions of each precision mode about one small graph, as a table, and special cases."""

import pytest
from support.check_rewrite import UNCHANGED, check_rewrite
from support.node_dtypes import dtype_name, output_dtypes
from support.strict_zip import strict_zip

import npu_precision

# One node of each kind: white, gray, black, on no list, and one the user made float16.
GRAPH = """
    x = Placeholder(shape=4x4)
    h = Placeholder[float16](shape=4x4)
    white = MatMul(x, x)
    gray = Relu(white)
    black = Exp(gray)
    half = Tanh(h)
    wide = Cast[float16,float32](half)
    sum = AddV2(black, wide)
    unlisted = NextAfter(sum, x)
    """

# The dtype of each node's output, and how many Casts were inserted. "sum" follows "black".
HOST = """
    mode                      x    white  gray  black  half  sum  unlisted  casts

    must_keep_origin_dtype    f32  f32    f32   f32    f16   f32  f32       0
    allow_fp32_to_fp16        f32  f32    f32   f32    f16   f32  f32       0
    allow_fp32_to_bf16        f32  f32    f32   f32    f16   f32  f32       0
    force_fp16                f32  f16    f16   f16    f16   f16  f32       2
    force_fp32                f32  f32    f32   f32    f32   f32  f32       1
    allow_mix_precision       f32  f16    f16   f32    f16   f32  f32       2
    allow_mix_precision_fp16  f32  f16    f16   f32    f16   f32  f32       2
    allow_mix_precision_bf16  f32  bf16   bf16  f32    f16   f32  f32       2
    cube_fp16in_fp32out       f32  f32    f32   f32    f16   f32  f32       2

    v2:origin                 f32  f32    f32   f32    f16   f32  f32       0
    v2:fp16                   f32  f16    f16   f16    f16   f16  f32       2
    v2:mixed_float16          f32  f16    f16   f32    f16   f32  f32       2
    v2:mixed_bfloat16         f32  bf16   bf16  f32    f16   f32  f32       2
    v2:cube_fp16in_fp32out    f32  f32    f32   f32    f16   f32  f32       2
    """

SHORT = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}
COLUMNS, *ROWS = (line.split() for line in HOST.splitlines() if line.strip())


def mode_options(name):
    version, _, mode = name.rpartition(":")
    return {"mode": None, "precision_mode_v2": mode} if version else {"mode": mode}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_the_table_of_modes(row):
    result = check_rewrite(GRAPH, None, **mode_options(row[0]))
    nodes = {node.name: node for node in result.graph.node}
    got = [SHORT[dtype_name(output_dtypes(nodes[name])[0])] for name in COLUMNS[1:-1]]
    assert dict(strict_zip(COLUMNS, [row[0], *got, str(len(result.ledger.casts))])) == dict(
        strict_zip(COLUMNS, row)
    )


def test_the_table_has_every_mode():
    described = npu_precision._library.describe()
    modes = [*described["modes"], *(f"v2:{mode}" for mode in described["modes_v2"])]
    assert sorted(row[0] for row in ROWS) == sorted(modes)


def test_the_default_lowers_only_what_the_target_cannot_run_which_on_the_host_is_nothing():
    result = check_rewrite(GRAPH, UNCHANGED, mode=None)
    assert result.reasons["white"] == ("kept", "target_has_float32", "")


def test_origin_keeps_every_dtype_and_says_so():
    result = check_rewrite(GRAPH, UNCHANGED, mode="must_keep_origin_dtype")
    assert result.reasons["white"] == ("kept", "origin_kept", "")


def test_force_fp16_lowers_all_listed_nodes_that_have_a_kernel():
    result = check_rewrite(
        """
        x = Placeholder(shape=2x4x4x2)
        s = Const(value=[1.0, 0.5])
        black = Exp(x)
        only32 = FusedBatchNorm(black, s, s, s, s, is_training=False)
        gray = Relu(only32)
        unlisted = NextAfter(gray, x)
        """,
        """
        black = Exp[float16](x/npu_cast_0_float16)
        only32 = FusedBatchNorm[float32](black/npu_cast_0_float32, s, s, s, s)
        gray = Relu[float16](only32/npu_cast_0_float16)
        unlisted = NextAfter(gray/npu_cast_0_float32, x)
        """,
        mode="force_fp16",
    )
    assert result.reasons == {
        "black": ("lowered", "forced", ""),
        "only32": ("kept", "no_kernel", ""),
        "gray": ("lowered", "forced", ""),
        "unlisted": ("kept", "unlisted", ""),
    }


@pytest.mark.parametrize("low", ["float16", "bfloat16"])
def test_force_fp32_raises_half_nodes_and_leaves_feeds_and_fetches(low):
    result = check_rewrite(
        f"""
        h = Placeholder[{low}](shape=4x4)
        a = MatMul(h, h)
        b = Relu(a)
        """,
        f"""
        a = MatMul[float32](h/npu_cast_0_float32, h/npu_cast_0_float32)
        b/npu_changed = Relu[float32](a)
        b = Cast[float32,{low}](b/npu_changed)
        """,
        mode="force_fp32",
    )
    assert result.reasons["a"] == ("raised", "forced", "")
    assert result.ledger.node("a").dtypes == {"T": [low, "float32"]}


def test_force_fp32_keeps_a_half_variable():
    check_rewrite(
        """
        h = Placeholder[float16](shape=4x4)
        start = Const[float16](shape=4x4)
        v = VarHandleOp[float16](shape=4x4)
        assign = AssignVariableOp(v, start)
        read = ReadVariableOp[float16](v)
        a = MatMul(h, read)
        add = AssignAddVariableOp(v, a)
        again = ReadVariableOp[float16](v, ^add)
        """,
        """
        v = VarHandleOp[float16]()
        assign = AssignVariableOp[float16](v, start)
        read = ReadVariableOp[float16](v)
        a = MatMul[float32](h/npu_cast_0_float32, read/npu_cast_0_float32)
        add = AssignAddVariableOp[float16](v, a/npu_cast_0_float16)
        again = ReadVariableOp[float16](v, ^add)
        """,
        mode="force_fp32",
        init=["assign"],
    )


def test_cube_rounds_what_products_read_and_nothing_else():
    """MatMul and convolutions see float16 values; everything computes in float32."""
    result = check_rewrite(
        """
        x = Placeholder(shape=4x4)
        w = Const(shape=4x4)
        a = MatMul(x, w)
        b = Relu(a)
        c = MatMul(b, w)
        d = Exp(b)
        end = AddV2(c, d)
        """,
        """
        a = MatMul[float32](x/npu_cast_0_float16/npu_cast_0_float32,
            w/npu_cast_0_float16/npu_cast_0_float32)
        b = Relu[float32](a)
        c = MatMul[float32](b/npu_cast_0_float16/npu_cast_0_float32,
            w/npu_cast_0_float16/npu_cast_0_float32)
        d = Exp[float32](b)
        end = AddV2[float32](c, d)
        """,
        mode="cube_fp16in_fp32out",
    )
    assert result.reasons["a"] == ("kept", "inputs_rounded", "")
    assert result.reasons["b"] == ("kept", "not_matrix_or_convolution", "")
    assert result.ledger.totals["casts"] == 6


def test_cube_rounds_convolutions_and_their_gradients():
    rounded = "/npu_cast_0_float16/npu_cast_0_float32"
    check_rewrite(
        """
        x = Placeholder(shape=2x4x4x2)
        dy = Placeholder(shape=2x4x4x3)
        f = Const(shape=3x3x2x3)
        sizes = Const[int32](value=[2, 4, 4, 2])
        conv = Conv2D(x, f, strides=[1, 1, 1, 1], padding=SAME)
        back = Conv2DBackpropInput(sizes, f, dy, strides=[1, 1, 1, 1], padding=SAME)
        a = Exp(conv)
        b = Exp(back)
        """,
        f"""
        conv = Conv2D[float32](x{rounded}, f{rounded})
        back = Conv2DBackpropInput[float32](sizes, f{rounded}, dy{rounded})
        a = Exp[float32](conv)
        b = Exp[float32](back)
        """,
        ["a", "b"],
        mode="cube_fp16in_fp32out",
    )


def test_cube_leaves_half_products_alone():
    check_rewrite(
        """
        h = Placeholder[float16](shape=4x4)
        a = MatMul(h, h)
        """,
        UNCHANGED,
        mode="cube_fp16in_fp32out",
    )


def test_cube_keeps_the_names_and_dtypes_of_fetched_products():
    rounded = "x/npu_cast_0_float16/npu_cast_0_float32"
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        logits = MatMul(x, x)
        end = Softmax(logits)
        """,
        f"""
        logits = MatMul[float32]({rounded}, {rounded})
        end = Softmax[float32](logits)
        """,
        ["logits", "end"],
        mode="cube_fp16in_fp32out",
    )
