"""insert_casts: one Cast per tensor and dtype, none if both ends agree, and unchanged names.

TensorFlow's tests have these cases too: no white op, a graph that is low already, a wide fan-out,
preserved fetches, nodes pinned to another device, Identity after a ref variable.
"""

import pytest
from support.check_rewrite import UNCHANGED, assert_same_text, check_rewrite
from support.text_graph import read_graph, write_graph

import npu_precision


def test_a_graph_without_a_white_op_is_unchanged():
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        a = Exp(x)
        b = Relu(a)
        c = AddV2(b, x)
        d = Softmax(c)
        """,
        UNCHANGED,
    )


@pytest.mark.parametrize("low", ["float16", "bfloat16"])
def test_a_graph_that_is_low_already_is_unchanged(low):
    check_rewrite(
        f"""
        x = Placeholder[{low}](shape=4x4)
        a = MatMul(x, x)
        b = Relu(a)
        c = Exp(b)
        """,
        UNCHANGED,
        mode="allow_mix_precision_bf16" if low == "bfloat16" else "allow_mix_precision",
    )


def test_float64_is_not_float32():
    check_rewrite(
        """
        x = Placeholder[float64](shape=4x4)
        a = MatMul(x, x)
        b = Relu(a)
        """,
        UNCHANGED,
    )


def test_a_wide_fan_out_shares_one_cast():
    readers = [f"r{i}" for i in range(12)]
    result = check_rewrite(
        "\n".join(
            [
                "x = Placeholder(shape=4x4)",
                *(f"{name} = MatMul(x, x)" for name in readers),
                f"sum = AddN({', '.join(readers)})",
                "a = Exp(sum)",
                "b = Softmax(sum)",
                "end = AddV2(a, b)",
            ]
        ),
        "\n".join(
            [
                *(
                    f"{name} = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)"
                    for name in readers
                ),
                f"sum = AddN[float16]({', '.join(readers)})",
                "a = Exp[float32](sum/npu_cast_0_float32)",
                "b = Softmax[float32](sum/npu_cast_0_float32)",
                "end = AddV2[float32](a, b)",
            ]
        ),
    )
    assert [(cast.name, cast.consumers) for cast in result.ledger.casts] == [
        ("x/npu_cast_0_float16", 24),
        ("sum/npu_cast_0_float32", 2),
    ]


def test_each_output_of_a_node_has_a_cast_of_its_own():
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        axis = Const[int32](value=0)
        parts = Split(axis, x, num_split=2)
        a = MatMul(parts:0, parts:1, transpose_b=True)
        b = AddV2(parts:1, parts:1, ^a)
        end = Softmax(a)
        """,
        """
        parts = Split[float32](axis, x)
        a = MatMul[float16](parts/npu_cast_0_float16, parts/npu_cast_1_float16)
        b = AddV2[float32](parts:1, parts:1, ^a)
        end = Softmax[float32](a/npu_cast_0_float32)
        """,
        ["end"],
    )


def test_a_lowered_fetch_keeps_name_and_dtype():
    """The op gets another name; a Cast takes the old name, also for consumers in float32."""
    result = check_rewrite(
        """
        x = Placeholder(shape=4x4)
        logits = MatMul(x, x)
        relu = Relu(logits)
        probabilities = Softmax(logits)
        """,
        """
        logits/npu_changed = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        logits = Cast[float16,float32](logits/npu_changed)
        relu/npu_changed = Relu[float16](logits/npu_changed)
        relu = Cast[float16,float32](relu/npu_changed)
        probabilities = Softmax[float32](logits)
        """,
        ["logits", "relu", "probabilities"],
    )
    assert result.ledger.node("logits").decision == "lowered"
    assert result.ledger.totals["casts"] == 3


def test_a_fetch_with_several_outputs_keeps_its_dtypes():
    """One Cast cannot take the name of a node with two outputs."""
    result = check_rewrite(
        """
        x = Placeholder(shape=4x4)
        axis = Const[int32](value=0)
        white = MatMul(x, x)
        parts = Split(axis, white, num_split=2)
        gray = Relu(parts:1)
        end = Softmax(gray)
        """,
        """
        white = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        parts = Split[float32](axis, white/npu_cast_0_float32)
        gray = Relu[float32](parts:1)
        end = Softmax[float32](gray)
        """,
        ["parts", "end"],
    )
    assert result.reasons["parts"] == ("kept", "preserved_outputs", "")


def test_a_fetched_op_with_a_float_input_and_no_float_output_needs_no_cast_after_it():
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        axis = Const[int32](value=1)
        white = MatMul(x, x)
        gray = ArgMax(white, axis)
        """,
        """
        white = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        gray = ArgMax[float16](white, axis)
        """,
    )


def test_a_control_input_is_the_node_that_has_the_name():
    """A Cast that took a name is done after the op that had it, so either way is safe."""
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        logits = MatMul(x, x)
        late = Exp(x, ^logits)
        """,
        """
        logits/npu_changed = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        logits = Cast[float16,float32](logits/npu_changed)
        late = Exp[float32](x, ^logits)
        """,
        ["logits", "late"],
    )


def test_reading_a_half_tensor_that_the_user_widened_needs_no_cast():
    """half -> float32 -> half is exact, so the white op reads the half tensor."""
    check_rewrite(
        """
        h = Placeholder[float16](shape=4x4)
        wide = Cast[float16,float32](h)
        white = MatMul(wide, wide)
        black = Exp(wide)
        end = Softmax(white)
        """,
        """
        wide = Cast[float16,float32](h)
        white = MatMul[float16](h, h)
        black = Exp[float32](wide)
        end = Softmax[float32](white/npu_cast_0_float32)
        """,
        ["black", "end"],
    )


def test_a_widening_with_a_control_input_is_read_as_it_is():
    """A consumer that bypassed it would no longer depend on `first`, which might never run."""
    check_rewrite(
        """
        h = Placeholder[float16](shape=4x4)
        x = Placeholder(shape=4x4)
        first = Exp(x)
        wide = Cast[float16,float32](h, ^first)
        white = MatMul(wide, wide)
        end = Softmax(white)
        """,
        """
        first = Exp[float32](x)
        wide = Cast[float16,float32](h, ^first)
        white = MatMul[float16](wide/npu_cast_0_float16, wide/npu_cast_0_float16)
        end = Softmax[float32](white/npu_cast_0_float32)
        """,
    )


def test_a_cast_of_an_earlier_run_is_shared():
    """The earlier run kept `white`, for example by another mixlist."""
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        x/npu_cast_0_float16 = Cast[float32,float16](x, _npu_precision_cast=True)
        before = MatMul(x/npu_cast_0_float16, x/npu_cast_0_float16)
        white = MatMul(x, x)
        """,
        """
        before = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        white/npu_changed = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        white = Cast[float16,float32](white/npu_changed)
        """,
        ["before", "white"],
    )


def test_a_cast_of_ours_that_has_a_control_input_is_not_shared():
    """A consumer that shared it would depend on `first`, which may never run."""
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        first = Exp(x)
        low = Cast[float32,float16](x, ^first, _npu_precision_cast=True)
        before = MatMul(low, low)
        white = MatMul(x, x)
        """,
        """
        first = Exp[float32](x)
        low = Cast[float32,float16](x, ^first)
        before = MatMul[float16](low, low)
        white/npu_changed = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        white = Cast[float16,float32](white/npu_changed)
        """,
        ["before", "white"],
    )


def test_a_rounding_of_the_user_stays():
    """float32 -> half -> float32 rounds: removing it would change the values."""
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        half = Cast[float32,float16](x)
        rounded = Cast[float16,float32](half)
        a = Exp(rounded)
        white = MatMul(a, a)
        end = Softmax(white)
        """,
        """
        half = Cast[float32,float16](x)
        rounded = Cast[float16,float32](half)
        a = Exp[float32](rounded)
        white = MatMul[float16](a/npu_cast_0_float16, a/npu_cast_0_float16)
        end = Softmax[float32](white/npu_cast_0_float32)
        """,
    )


def test_a_widened_tensor_of_the_other_low_type_is_rounded_by_a_cast():
    """bfloat16 -> float32 is exact, float32 -> float16 is not: no shortcut between the two."""
    check_rewrite(
        """
        h = Placeholder[bfloat16](shape=4x4)
        wide = Cast[bfloat16,float32](h)
        white = MatMul(wide, wide)
        end = Softmax(white)
        """,
        """
        wide = Cast[bfloat16,float32](h)
        white = MatMul[float16](wide/npu_cast_0_float16, wide/npu_cast_0_float16)
        end = Softmax[float32](white/npu_cast_0_float32)
        """,
    )


def test_a_cast_is_on_the_producers_device():
    check_rewrite(
        """
        x = Placeholder(shape=4x4) @ /device:CPU:0
        white = MatMul(x, x) @ /device:CPU:1
        gray = Relu(white) @ /device:CPU:0
        end = Softmax(gray) @ /device:CPU:1
        """,
        """
        white = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16) @ /device:CPU:1
        gray = Relu[float16](white) @ /device:CPU:0
        end = Softmax[float32](gray/npu_cast_0_float32) @ /device:CPU:1
        """,
    )


def test_the_device_of_a_cast_does_not_depend_on_the_order_of_its_readers():
    """If the producer has no device, the Cast has none: TensorFlow places both together."""
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        a = MatMul(x, x) @ /device:CPU:1
        b = MatMul(x, x) @ /device:CPU:0
        sum = AddV2(a, b)
        end = Softmax(sum)
        """,
        """
        a = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16) @ /device:CPU:1
        b = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16) @ /device:CPU:0
        sum = AddV2[float16](a, b)
        end = Softmax[float32](sum/npu_cast_0_float32)
        """,
    )


def test_a_name_that_is_taken_is_not_taken_again():
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        x/npu_cast_0_float16 = Exp(x)
        y/npu_changed = Exp(x)
        y = MatMul(x, x)
        """,
        """
        x/npu_cast_0_float16 = Exp[float32](x)
        y/npu_changed = Exp[float32](x)
        x/npu_cast_0_float16_1 = Cast[float32,float16](x)
        y/npu_changed_1 = MatMul[float16](x/npu_cast_0_float16_1, x/npu_cast_0_float16_1)
        y = Cast[float16,float32](y/npu_changed_1)
        """,
        ["x/npu_cast_0_float16", "y/npu_changed", "y"],
    )


def test_two_tensors_whose_casts_would_have_one_name_have_two():
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        a = Exp(x)
        a/npu_cast_0_float16 = Exp(a)
        b = MatMul(a, a/npu_cast_0_float16)
        end = Softmax(b)
        """,
        """
        a = Exp[float32](x)
        a/npu_cast_0_float16 = Exp[float32](a)
        a/npu_cast_0_float16_1 = Cast[float32,float16](a)
        b = MatMul[float16](a/npu_cast_0_float16_1, a/npu_cast_0_float16/npu_cast_0_float16)
        end = Softmax[float32](b/npu_cast_0_float32)
        """,
    )


def test_what_an_earlier_run_in_another_mode_left_is_built_on():
    """Its Casts are shared, bypassed or dropped; no two Casts cancel."""
    graph = read_graph(
        """
        x = Placeholder(shape=4x4)
        a = MatMul(x, x)
        b = Exp(a)
        c = MatMul(b, b)
        d = Softmax(c)
        """
    )
    rewritten = graph
    for mode, expected in {
        "allow_mix_precision": """
            a = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
            b = Exp[float32](a/npu_cast_0_float32)
            c = MatMul[float16](b/npu_cast_0_float16, b/npu_cast_0_float16)
            d = Softmax[float32](c/npu_cast_0_float32)
            """,
        "force_fp16": """
            a = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
            b = Exp[float16](a)
            c = MatMul[float16](b, b)
            d/npu_changed = Softmax[float16](c)
            d = Cast[float16,float32](d/npu_changed)
            """,
    }.items():
        rewritten, _ = npu_precision.rewrite_graph_def(
            rewritten, "d", precision_mode=mode, fold_constants=False
        )
        assert_same_text(write_graph(rewritten, graph), expected, mode)


def test_identity_after_a_ref_variable():
    """The variable stays float32; the nodes that compute with its value do not."""
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        start = Const(shape=4x4)
        v = VariableV2(shape=4x4)
        assign = Assign(v, start)
        read = Identity(v)
        white = MatMul(x, read)
        end = Softmax(white)
        """,
        """
        v = VariableV2[float32]()
        assign = Assign[float32](v, start)
        read = Identity[float32](v)
        white = MatMul[float16](x/npu_cast_0_float16, read/npu_cast_0_float16)
        end = Softmax[float32](white/npu_cast_0_float32)
        """,
        init=["assign"],
    )


def test_a_ref_variable_that_a_white_op_reads_itself():
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        start = Const(shape=4x4)
        v = VariableV2(shape=4x4)
        assign = Assign(v, start)
        white = MatMul(x, v)
        update = AssignAdd(v, white)
        end = Softmax(update)
        """,
        """
        v = VariableV2[float32]()
        assign = Assign[float32](v, start)
        v/npu_cast_0_float16 = Cast[float32,float16](v)
        white = MatMul[float16](x/npu_cast_0_float16, v/npu_cast_0_float16)
        update = AssignAdd[float32](v, white/npu_cast_0_float32)
        end = Softmax[float32](update)
        """,
        init=["assign"],
    )


def test_a_resource_variable_is_read_and_written_in_float32():
    result = check_rewrite(
        """
        x = Placeholder(shape=4x4)
        start = Const(shape=4x4)
        v = VarHandleOp(shape=4x4)
        assign = AssignVariableOp(v, start)
        read = ReadVariableOp(v)
        white = MatMul(x, read)
        update = AssignAddVariableOp(v, white)
        again = ReadVariableOp(v, ^update)
        end = Softmax(again)
        """,
        """
        v = VarHandleOp[float32]()
        assign = AssignVariableOp[float32](v, start)
        read = ReadVariableOp[float32](v)
        white = MatMul[float16](x/npu_cast_0_float16, read/npu_cast_0_float16)
        update = AssignAddVariableOp[float32](v, white/npu_cast_0_float32)
        again = ReadVariableOp[float32](v, ^update)
        end = Softmax[float32](again)
        """,
        init=["assign"],
    )
    assert result.reasons["update"] == ("kept", "never_changed", "")


def test_random_numbers_are_drawn_in_float32():
    """In another dtype the same seed draws other numbers."""
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        shape = Const[int32](value=[4, 4])
        seed = Const[int32](value=[1, 2])
        random = StatelessRandomUniform(shape, seed)
        white = MatMul(x, random)
        end = Softmax(white)
        """,
        """
        random = StatelessRandomUniform(shape, seed)
        white = MatMul[float16](x/npu_cast_0_float16, random/npu_cast_0_float16)
        end = Softmax[float32](white/npu_cast_0_float32)
        """,
    )
