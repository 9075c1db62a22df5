"""Ops that forward a reference's memory, such as Identity, keep their dtype: a Cast would copy."""

from __future__ import annotations

import pytest
from support.check_rewrite import check_rewrite
from support.loop_text import loop

VARIABLE = """
    x = Placeholder(shape=4x4)
    value = Const(shape=4x4)
    v = VariableV2(shape=4x4)
    assign = Assign(v, value)
    """


def check(text, expected, **options):
    return check_rewrite(text, expected, init=["assign"], **options)


def test_a_forced_mode_casts_behind_a_read_and_not_before_it():
    result = check(
        VARIABLE
        + """
        read = Identity(v)
        first = MatMul(x, read)
        update = AssignAdd(v, x, ^first)
        end = MatMul(x, read, ^update)
        """,
        """
        v = VariableV2[float32]()
        assign = Assign[float32](v, value)
        read = Identity[float32](v)
        first = MatMul[float16](x/npu_cast_0_float16, read/npu_cast_0_float16)
        update = AssignAdd[float32](v, x, ^first)
        end/npu_cast_ref_float16 = Cast[float32,float16](v, ^update)
        end/npu_changed = MatMul[float16](x/npu_cast_0_float16, end/npu_cast_ref_float16, ^update)
        end = Cast[float16,float32](end/npu_changed)
        """,
        mode="force_fp16",
    )
    assert result.ledger.node("read").reason == "neutral_source"


def test_a_read_on_the_white_list_stays_and_says_nothing_to_gray(mixlist):
    result = check(
        VARIABLE
        + """
        read = Identity(v)
        product = MatMul(x, x)
        gray = Mul(product, read)
        end = Softmax(gray)
        """,
        """
        v = VariableV2[float32]()
        assign = Assign[float32](v, value)
        read = Identity[float32](v)
        product = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        gray = Mul[float16](product, read/npu_cast_0_float16)
        end = Softmax[float32](gray/npu_cast_0_float32)
        """,
        modify_mixlist=mixlist('{"white-list": {"to-add": ["Identity"]}}'),
    )
    assert result.ledger.node("read").reason == "neutral_source"


def test_gray_hears_nothing_from_a_read_of_what_is_updated():
    """A read of a resource, which is no op of the update either, gives no vote in the same way."""
    result = check(
        VARIABLE
        + """
        read = Identity(v)
        product = MatMul(x, x)
        forward = Mul(product, read)
        loss = MatMul(forward, x)
        step = Mul(loss, value)
        next = Sub(read, step)
        end = Assign(v, next)
        """,
        None,
    )
    assert result.reasons["forward"] == ("lowered", "gray_follows_lowered", "product")
    assert result.reasons["step"] == ("kept", "updates_variable", "")
    assert result.reasons["next"] == ("kept", "updates_variable", "")


@pytest.mark.parametrize("taken", [True, False])
def test_a_cast_behind_the_switch_of_a_read_has_the_control_inputs_of_its_reader(taken):
    """The Cast also reads the Switch itself, so that it is dead when its reader is."""
    check(
        VARIABLE
        + f"""
        taken = Const[bool](value={taken})
        read = Identity(v)
        x_fork = Switch(x, taken)
        read_fork = Switch(read, taken)
        v_fork = RefSwitch(v, taken)
        first = MatMul(x_fork:1, read_fork:1)
        update = AssignAdd(v_fork:1, x_fork:1, ^first)
        second = MatMul(first, read_fork:1, ^update)
        no = Neg(x_fork)
        either = Merge(second, no)
        end = Softmax(either)
        """,
        """
        v = VariableV2[float32]()
        assign = Assign[float32](v, value)
        read = Identity[float32](v)
        x_fork = Switch[float32](x, taken)
        read_fork = Switch[float32](read, taken)
        v_fork = RefSwitch[float32](v, taken)
        first = MatMul[float16](x_fork/npu_cast_1_float16, read_fork/npu_cast_1_float16)
        update = AssignAdd[float32](v_fork:1, x_fork:1, ^first)
        second/npu_cast_ref_float16 = Cast[float32,float16](read_fork:1, ^update)
        second = MatMul[float16](first, second/npu_cast_ref_float16, ^update)
        no = Neg[float32](x_fork)
        either = Merge[float16](second, no/npu_cast_0_float16)
        end = Softmax[float32](either/npu_cast_0_float32)
        """,
    )


def test_a_merge_of_a_read_and_a_lowered_branch_keeps_its_dtype():
    """A consumer after a write gets the written value; no Cast depends on the dead `no`."""
    check(
        VARIABLE
        + """
        taken = Const[bool](value=True)
        fork = Switch(x, taken)
        no = Identity(fork)
        yes = Identity(fork:1)
        product = MatMul(no, no)
        read = Identity(v, ^yes)
        either = Merge(product, read, ^no)
        first = MatMul(either, x)
        update = AssignAdd(v, x, ^first)
        end = MatMul(either, x, ^update)
        """,
        """
        v = VariableV2[float32]()
        assign = Assign[float32](v, value)
        fork = Switch[float32](x, taken)
        no = Identity[float32](fork)
        yes = Identity[float32](fork:1)
        product = MatMul[float16](no/npu_cast_0_float16, no/npu_cast_0_float16)
        read = Identity[float32](v, ^yes)
        either = Merge[float32](product/npu_cast_0_float32, read, ^no)
        first = MatMul[float16](either/npu_cast_0_float16, x/npu_cast_0_float16)
        update = AssignAdd[float32](v, x, ^first)
        end/npu_cast_ref_float16 = Cast[float32,float16](either, ^update)
        end/npu_changed = MatMul[float16](end/npu_cast_ref_float16, x/npu_cast_0_float16, ^update)
        end = Cast[float16,float32](end/npu_changed)
        """,
    )


def test_a_cast_behind_a_reshaped_read_has_the_control_inputs_of_read_and_reader():
    check(
        VARIABLE
        + """
        shape = Const[int32](value=[4, 4])
        early = NoOp()
        read = Reshape(v, shape, ^early)
        first = MatMul(x, read)
        update = AssignAdd(v, x, ^first)
        end = MatMul(x, read, ^update)
        """,
        """
        v = VariableV2[float32]()
        assign = Assign[float32](v, value)
        read = Reshape[float32](v, shape, ^early)
        read/npu_cast_0_float16 = Cast[float32,float16](read, ^early)
        first = MatMul[float16](x/npu_cast_0_float16, read/npu_cast_0_float16)
        update = AssignAdd[float32](v, x, ^first)
        end/npu_cast_ref_float16 = Cast[float32,float16](read, ^early, ^update)
        end/npu_changed = MatMul[float16](x/npu_cast_0_float16, end/npu_cast_ref_float16, ^update)
        end = Cast[float16,float32](end/npu_changed)
        """,
    )


LOOP_THAT_WRITES = """
    start = Identity(x)
    value = Const(shape=4x4)
    v = VariableV2(shape=4x4)
    assign = Assign(v, value)
    v_enter = RefEnter(v, frame_name=loop, is_constant=True)
    """


@pytest.mark.parametrize(
    ("lines", "cast_from"),
    [
        ("read = Identity(v_enter)", "v_enter"),
        ("read = RefIdentity(v_enter)", "read"),
        (
            "outside = StopGradient(v) \n read = Enter(outside, frame_name=loop, is_constant=True)",
            "read",
        ),
    ],
    ids=["reference", "reference_identity", "forwarded_outside"],
)
def test_a_cast_in_a_loop_that_writes_the_reference_depends_on_what_its_reader_reads(
    lines, cast_from
):
    """The write of the last iteration comes before the tensors that the reader reads."""
    result = check(
        loop(
            LOOP_THAT_WRITES + lines,
            """
            product = MatMul(switch:1, switch:1)
            sum = MatMul(product, read)
            turn = Softmax(sum)
            update = AssignSub(v_enter, turn)
            """,
            after=["update"],
        ),
        None,
    )
    cast = f"sum/npu_cast_ref_float16 = Cast[float32,float16]({cast_from}, ^product)"
    assert cast in result.text
    assert "sum = MatMul[float16](product, sum/npu_cast_ref_float16)" in result.text


def test_a_loop_variable_that_begins_as_a_read_is_lowered():
    """A learned initial state does not keep a whole loop in float32."""
    check(
        loop(
            """
            value = Const(shape=4x4)
            v = VariableV2(shape=4x4)
            assign = Assign(v, value)
            start = Identity(v)
            """,
            """
            product = MatMul(switch:1, switch:1)
            turn = Tanh(product)
            """,
        ),
        """
        v = VariableV2[float32]()
        assign = Assign[float32](v, value)
        start = Identity[float32](v)
        enter = Enter[float16](start/npu_cast_0_float16)
        merge = Merge[float16](enter, next)
        switch = Switch[float16](merge, cond)
        product = MatMul[float16](switch:1, switch:1)
        turn = Tanh[float16](product)
        next = NextIteration[float16](turn)
        exit = Exit[float16](switch)
        end = Softmax[float32](exit/npu_cast_0_float32)
        """,
    )
