"""Gray nodes follow their predecessors: lowered iff one votes "lowered" and none votes "kept".

With allow_mix_precision on CPU, MatMul and Conv2D are white; Exp and Softmax black; Relu, AddV2,
Identity and their like gray; NextAfter is on no list.
"""

import pytest
from check_rewrite import UNCHANGED, check_rewrite


def test_gray_after_white_is_lowered():
    result = check_rewrite(
        """
        x = Placeholder(shape=4x8)
        w = Const(shape=8x4)
        white = MatMul(x, w)
        gray = Relu(white)
        black = Exp(gray)
        """,
        """
        white = MatMul[float16](x/npu_cast_0_float16, w/npu_cast_0_float16)
        gray = Relu[float16](white)
        black = Exp[float32](gray/npu_cast_0_float32)
        """,
    )
    assert result.reasons == {
        "white": ("lowered", "white_list", ""),
        "gray": ("lowered", "gray_follows_lowered", "white"),
        "black": ("kept", "black_list", ""),
    }


def test_gray_after_black_keeps_float32():
    result = check_rewrite(
        """
        x = Placeholder(shape=4x4)
        black = Exp(x)
        gray = Relu(black)
        white = MatMul(gray, gray)
        end = Softmax(white)
        """,
        """
        black = Exp[float32](x)
        gray = Relu[float32](black)
        white = MatMul[float16](gray/npu_cast_0_float16, gray/npu_cast_0_float16)
        end = Softmax[float32](white/npu_cast_0_float32)
        """,
    )
    assert result.reasons["gray"] == ("kept", "gray_follows_kept", "black")


def test_gray_after_sources_alone_keeps_float32():
    result = check_rewrite(
        """
        x = Placeholder(shape=4x4)
        c = Const(shape=4x4)
        gray = AddV2(x, c)
        white = MatMul(gray, gray)
        end = Softmax(white)
        """,
        """
        gray = AddV2[float32](x, c)
        white = MatMul[float16](gray/npu_cast_0_float16, gray/npu_cast_0_float16)
        end = Softmax[float32](white/npu_cast_0_float32)
        """,
    )
    assert result.reasons["gray"] == ("kept", "gray_no_votes", "")


def test_black_gray_white_gray_black_has_exactly_two_casts():
    result = check_rewrite(
        """
        x = Placeholder(shape=4x4)
        black1 = Exp(x)
        gray1 = Relu(black1)
        white = MatMul(gray1, gray1)
        gray2 = Relu(white)
        black2 = Exp(gray2)
        """,
        """
        black1 = Exp[float32](x)
        gray1 = Relu[float32](black1)
        white = MatMul[float16](gray1/npu_cast_0_float16, gray1/npu_cast_0_float16)
        gray2 = Relu[float16](white)
        black2 = Exp[float32](gray2/npu_cast_0_float32)
        """,
    )
    assert result.ledger.totals["casts"] == 2


def test_one_kept_predecessor_outvotes_the_lowered_one():
    result = check_rewrite(
        """
        x = Placeholder(shape=4x4)
        white = MatMul(x, x)
        black = Exp(x)
        gray = AddV2(white, black)
        end = Softmax(gray)
        """,
        """
        white = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        black = Exp[float32](x)
        gray = AddV2[float32](white/npu_cast_0_float32, black)
        end = Softmax[float32](gray)
        """,
    )
    assert result.reasons["gray"] == ("kept", "gray_follows_kept", "black")


def test_sources_do_not_outvote_a_lowered_predecessor():
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        bias = Const(shape=4)
        white = MatMul(x, x)
        gray = BiasAdd(white, bias)
        end = Softmax(gray)
        """,
        """
        white = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        gray = BiasAdd[float16](white, bias/npu_cast_0_float16)
        end = Softmax[float32](gray/npu_cast_0_float32)
        """,
    )


def test_gray_without_votes_has_none_itself():
    """An Identity between a constant and its reader must not count as a float32 producer."""
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        bias = Const(shape=4)
        read = Identity(bias)
        white = MatMul(x, x)
        gray = AddV2(white, read)
        end = Softmax(gray)
        """,
        """
        read = Identity[float32](bias)
        white = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        gray = AddV2[float16](white, read/npu_cast_0_float16)
        end = Softmax[float32](gray/npu_cast_0_float32)
        """,
    )


def test_an_op_in_no_file_votes_kept():
    result = check_rewrite(
        """
        x = Placeholder(shape=4x4)
        white = MatMul(x, x)
        unlisted = NextAfter(white, x)
        gray = AddV2(white, unlisted)
        end = Softmax(gray)
        """,
        """
        white = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        unlisted = NextAfter(white/npu_cast_0_float32, x)
        gray = AddV2[float32](white/npu_cast_0_float32, unlisted)
        end = Softmax[float32](gray)
        """,
    )
    assert result.reasons["unlisted"] == ("kept", "unlisted", "")
    assert result.reasons["gray"] == ("kept", "gray_follows_kept", "unlisted")


def test_several_paths_into_one_node():
    """All paths from one white op are lowered, so they meet without a Cast."""
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        white = MatMul(x, x)
        left = Relu(white)
        middle = Tanh(white)
        right = Neg(left)
        sum = AddN(left, middle, right)
        white2 = MatMul(sum, white)
        end = Exp(white2)
        """,
        """
        white = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        left = Relu[float16](white)
        middle = Tanh[float16](white)
        right = Neg[float16](left)
        sum = AddN[float16](left, middle, right)
        white2 = MatMul[float16](sum, white)
        end = Exp[float32](white2/npu_cast_0_float32)
        """,
    )


def test_a_black_op_on_one_of_several_paths_keeps_where_they_meet():
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        white = MatMul(x, x)
        left = Relu(white)
        middle = Exp(white)
        sum = AddN(left, middle)
        after = Relu(sum)
        end = Softmax(after)
        """,
        """
        white = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        left = Relu[float16](white)
        middle = Exp[float32](white/npu_cast_0_float32)
        sum = AddN[float32](left/npu_cast_0_float32, middle)
        after = Relu[float32](sum)
        end = Softmax[float32](after)
        """,
    )


def test_each_element_of_a_list_of_types_hears_its_own_producer():
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        n = Const[int32](value=7)
        white = MatMul(x, x)
        black = Exp(x)
        gray = IdentityN(white, black, n, x)
        a = Relu(gray)
        b = Relu(gray:1)
        c = Relu(gray:3)
        end = AddN(a, b, c)
        """,
        """
        white = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        black = Exp[float32](x)
        gray = IdentityN[float16,float32,int32,float32](white, black, n, x)
        a = Relu[float16](gray)
        b = Relu[float32](gray:1)
        c = Relu[float32](gray:3)
        end = AddN[float32](a/npu_cast_0_float32, b, c)
        """,
    )


def test_only_tensors_bound_to_the_type_vote():
    """A float32 scale (U) of a batch norm says nothing about its image (T)."""
    check_rewrite(
        """
        x = Placeholder(shape=2x4x4x2)
        s = Placeholder(shape=2)
        f = Const(shape=1x1x2x2)
        scale = Exp(s)
        white = Conv2D(x, f, strides=[1, 1, 1, 1], padding=SAME)
        gray = FusedBatchNormV3(white, scale, s, s, scale, is_training=False)
        end = Exp(gray)
        """,
        """
        scale = Exp[float32](s)
        white = Conv2D[float16](x/npu_cast_0_float16, f/npu_cast_0_float16)
        gray = FusedBatchNormV3[float16,float32](white, scale, s, s, scale)
        end = Exp[float32](gray/npu_cast_0_float32)
        """,
    )


def test_a_shape_carries_no_vote():
    result = check_rewrite(
        """
        x = Placeholder(shape=4x4)
        half = Const(value=0.5)
        white = MatMul(x, x)
        shape = Shape(white)
        gray = Fill(shape, half)
        end = Softmax(gray)
        """,
        """
        white = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        shape = Shape[float16](white)
        gray = Fill[float32](shape, half)
        end = Softmax[float32](gray)
        """,
    )
    assert result.reasons["gray"] == ("kept", "gray_no_votes", "")


def test_a_control_input_carries_no_vote():
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        white = MatMul(x, x)
        black = Exp(x)
        gray = Relu(white, ^black)
        end = Softmax(gray)
        """,
        """
        white = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        black = Exp[float32](x)
        gray = Relu[float16](white, ^black)
        end = Softmax[float32](gray/npu_cast_0_float32)
        """,
    )


@pytest.mark.parametrize("source", ["bool", "int32", "float64"])
def test_a_cast_of_the_user_from_another_dtype_has_no_vote(source):
    """A mask made float32 joins the lowered side; the user's Cast stays what it was."""
    check_rewrite(
        f"""
        x = Placeholder(shape=4x4)
        m = Placeholder[{source}](shape=4x4)
        mask = Cast[{source},float32](m)
        white = MatMul(x, x)
        gray = Mul(white, mask)
        end = Softmax(gray)
        """,
        f"""
        mask = Cast[{source},float32](m)
        white = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        gray = Mul[float16](white, mask/npu_cast_0_float16)
        end = Softmax[float32](gray/npu_cast_0_float32)
        """,
    )


def test_a_cast_of_the_user_to_half_is_no_lowered_vote():
    """Lowering is this optimizer's act: a graph that mixes dtypes itself is left as it is."""
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        half = Cast[float32,float16](x)
        float = Cast[float16,float32](half)
        gray = Relu(float)
        end = Softmax(gray)
        """,
        UNCHANGED,
    )


def test_gray_that_knows_only_float32_votes_kept():
    """FusedBatchNorm, the first version, has no other dtype."""
    result = check_rewrite(
        """
        x = Placeholder(shape=2x4x4x2)
        s = Const(value=[1.0, 0.5])
        f = Const(shape=1x1x2x2)
        white = Conv2D(x, f, strides=[1, 1, 1, 1], padding=SAME)
        norm = FusedBatchNorm(white, s, s, s, s, is_training=False)
        gray = Relu(norm)
        end = Exp(gray)
        """,
        """
        white = Conv2D[float16](x/npu_cast_0_float16, f/npu_cast_0_float16)
        norm = FusedBatchNorm[float32](white/npu_cast_0_float32, s, s, s, s)
        gray = Relu[float32](norm)
        end = Exp[float32](gray)
        """,
    )
    assert result.reasons["norm"] == ("kept", "no_kernel", "")
    assert result.reasons["gray"] == ("kept", "gray_follows_kept", "norm")


def test_an_output_that_is_always_float32_votes_kept():
    result = check_rewrite(
        """
        x = Placeholder(shape=2x4x4x2)
        f = Const(shape=1x1x2x2)
        size = Const[int32](value=[2, 2])
        white = Conv2D(x, f, strides=[1, 1, 1, 1], padding=SAME)
        resized = ResizeBilinear(white, size)
        gray = Relu(resized)
        end = Exp(gray)
        """,
        """
        white = Conv2D[float16](x/npu_cast_0_float16, f/npu_cast_0_float16)
        resized = ResizeBilinear[float16](white, size)
        gray = Relu[float32](resized)
        end = Exp[float32](gray)
        """,
    )
    assert result.reasons["gray"] == ("kept", "gray_follows_kept", "resized")


def test_the_branches_of_a_cond_meet_in_a_cast_where_they_differ():
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        p = Const[bool](value=True)
        fork = Switch(x, p)
        no = Exp(fork)
        yes = MatMul(fork:1, fork:1)
        join = Merge(no, yes)
        end = Softmax(join)
        """,
        """
        fork = Switch[float32](x, p)
        no = Exp[float32](fork)
        yes = MatMul[float16](fork/npu_cast_1_float16, fork/npu_cast_1_float16)
        join = Merge[float32](no, yes/npu_cast_0_float32)
        end = Softmax[float32](join)
        """,
    )


def loop(start, body):
    """x goes three times through `body`, which reads switch:1 and ends in `turn`."""
    return f"""
        x = Placeholder(shape=4x4)
        zero = Const[int32](value=0)
        one = Const[int32](value=1)
        three = Const[int32](value=3)
        i_enter = Enter(zero, frame_name=loop)
        one_enter = Enter(one, frame_name=loop, is_constant=True)
        three_enter = Enter(three, frame_name=loop, is_constant=True)
        i = Merge(i_enter, i_next)
        less = Less(i, three_enter)
        cond = LoopCond(less)
        i_switch = Switch(i, cond)
        i_add = AddV2(i_switch:1, one_enter)
        i_next = NextIteration(i_add)
        {start}
        enter = Enter(start, frame_name=loop)
        merge = Merge(enter, next)
        switch = Switch(merge, cond)
        {body}
        next = NextIteration(turn)
        exit = Exit(switch)
        end = Softmax(exit)
        """


def test_a_loop_around_a_white_op_is_lowered_as_one():
    """The way back says "lowered" before it is known to: the fixpoint is optimistic."""
    result = check_rewrite(
        loop("start = Identity(x)", "turn = MatMul(switch:1, switch:1)"),
        """
        start = Identity[float32](x)
        enter = Enter[float16](start/npu_cast_0_float16)
        merge = Merge[float16](enter, next)
        switch = Switch[float16](merge, cond)
        turn = MatMul[float16](switch:1, switch:1)
        next = NextIteration[float16](turn)
        exit = Exit[float16](switch)
        end = Softmax[float32](exit/npu_cast_0_float32)
        """,
    )
    assert result.reasons["next"] == ("lowered", "gray_follows_lowered", "turn")
    assert result.reasons["enter"] == ("lowered", "shares_dtype", "merge")
    assert result.reasons["exit"] == ("lowered", "gray_follows_lowered", "switch")


def test_a_loop_around_a_black_op_keeps_float32_as_one():
    check_rewrite(
        loop(
            "start = MatMul(x, x)",
            """white = MatMul(switch:1, switch:1)
            turn = Softmax(white)""",
        ),
        """
        start = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        enter = Enter[float32](start/npu_cast_0_float32)
        merge = Merge[float32](enter, next)
        switch = Switch[float32](merge, cond)
        white = MatMul[float16](switch/npu_cast_1_float16, switch/npu_cast_1_float16)
        turn = Softmax[float32](white/npu_cast_0_float32)
        next = NextIteration[float32](turn)
        exit = Exit[float32](switch)
        end = Softmax[float32](exit)
        """,
    )


def test_a_gray_loop_follows_what_enters_it():
    check_rewrite(
        loop("start = MatMul(x, x)", "turn = Relu(switch:1)"),
        """
        start = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        enter = Enter[float16](start)
        merge = Merge[float16](enter, next)
        switch = Switch[float16](merge, cond)
        turn = Relu[float16](switch:1)
        next = NextIteration[float16](turn)
        exit = Exit[float16](switch)
        end = Softmax[float32](exit/npu_cast_0_float32)
        """,
    )


def test_a_loop_that_a_black_op_enters_keeps_float32():
    check_rewrite(
        loop("start = Exp(x)", "turn = Relu(switch:1)"),
        UNCHANGED,
    )


def test_a_gray_loop_that_nothing_white_reaches_keeps_float32():
    check_rewrite(
        loop("start = Identity(x)", "turn = Relu(switch:1)"),
        UNCHANGED,
    )


@pytest.mark.parametrize("member", ["enter", "merge", "next"])
def test_a_list_entry_about_one_member_of_a_loop_is_about_all(mixlist, member):
    result = check_rewrite(
        loop("start = Identity(x)", "turn = MatMul(switch:1, switch:1)"),
        """
        start = Identity[float32](x)
        enter = Enter[float32](start)
        merge = Merge[float32](enter, next)
        switch = Switch[float32](merge, cond)
        turn = MatMul[float16](switch/npu_cast_1_float16, switch/npu_cast_1_float16)
        next = NextIteration[float32](turn/npu_cast_0_float32)
        exit = Exit[float32](switch)
        end = Softmax[float32](exit)
        """,
        modify_mixlist=mixlist(black=[f"node:{member}"]),
    )
    assert result.reasons[member] == ("kept", "black_list", "")
    for other in {"enter", "merge", "next"} - {member}:
        decision, _, cause = result.reasons[other]
        assert decision == "kept"
        assert cause in ("enter", "merge", "next")


def test_white_and_black_members_of_a_loop_keep_float32(mixlist):
    check_rewrite(
        loop("start = Identity(x)", "turn = Relu(switch:1)"),
        UNCHANGED,
        modify_mixlist=mixlist(black=["node:enter"], white=["node:next", "node:merge"]),
    )


def test_two_loop_variables_decide_apart():
    """A white accumulator next to a black one, both fed by the same op of the body."""
    check_rewrite(
        loop(
            """start = Identity(x)
            sum_enter = Enter(x, frame_name=loop)
            sum_merge = Merge(sum_enter, sum_next)""",
            """sum_switch = Switch(sum_merge, cond)
            turn = MatMul(switch:1, switch:1)
            black = Softmax(turn)
            sum = AddV2(sum_switch:1, black)
            sum_next = NextIteration(sum)
            sum_exit = Exit(sum_switch)""",
        ),
        """
        start = Identity[float32](x)
        sum_enter = Enter[float32](x)
        sum_merge = Merge[float32](sum_enter, sum_next)
        enter = Enter[float16](start/npu_cast_0_float16)
        merge = Merge[float16](enter, next)
        switch = Switch[float16](merge, cond)
        sum_switch = Switch[float32](sum_merge, cond)
        turn = MatMul[float16](switch:1, switch:1)
        black = Softmax[float32](turn/npu_cast_0_float32)
        sum = AddV2[float32](sum_switch:1, black)
        sum_next = NextIteration[float32](sum)
        sum_exit = Exit[float32](sum_switch)
        next = NextIteration[float16](turn)
        exit = Exit[float16](switch)
        end = Softmax[float32](exit/npu_cast_0_float32)
        """,
        ["end", "sum_exit"],
    )


def test_two_merges_on_one_next_iteration_share_a_dtype():
    """TensorFlow's own pass colours the two Merges apart and breaks the graph."""
    check_rewrite(
        loop(
            """start = MatMul(x, x)
            black = Exp(x)
            other_enter = Enter(black, frame_name=loop)
            other_merge = Merge(other_enter, next)
            other_switch = Switch(other_merge, cond)
            other_exit = Exit(other_switch)""",
            "turn = Relu(switch:1)",
        ),
        """
        start = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        black = Exp[float32](x)
        other_enter = Enter[float32](black)
        other_merge = Merge[float32](other_enter, next)
        other_switch = Switch[float32](other_merge, cond)
        other_exit = Exit[float32](other_switch)
        enter = Enter[float32](start/npu_cast_0_float32)
        merge = Merge[float32](enter, next)
        switch = Switch[float32](merge, cond)
        turn = Relu[float32](switch:1)
        next = NextIteration[float32](turn)
        exit = Exit[float32](switch)
        end = Softmax[float32](exit)
        """,
        ["end", "other_exit"],
    )


def test_a_long_gray_chain_follows_its_far_head():
    chain = "".join(f"g{i} = Relu(g{i - 1})\n" for i in range(1, 300))
    result = check_rewrite(
        f"""
        x = Placeholder(shape=4x4)
        g0 = MatMul(x, x)
        {chain}
        end = Exp(g299)
        """,
        "\n".join(
            [
                "g0 = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)",
                *(f"g{i} = Relu[float16](g{i - 1})" for i in range(1, 300)),
                "end = Exp[float32](g299/npu_cast_0_float32)",
            ]
        ),
    )
    assert result.ledger.totals["casts"] == 2
