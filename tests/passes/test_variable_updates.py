"""Master weights keep float32's precision: the nodes that compute their next values are kept."""

from __future__ import annotations

import random

import pytest
from support.check_rewrite import check_rewrite
from support.loop_text import counter

VARIABLE = """
    x = Placeholder(shape=4x4)
    v = VarHandleOp(shape=4x4, shared_name=v)
    initial = Const(shape=4x4)
    init = AssignVariableOp(v, initial)
    read = ReadVariableOp(v)
    gradient = MatMul(x, x)
    """


def rewrite(body, expected=None, fetches=None, **options):
    fetches = ["write", "init", *(fetches or [])]
    return check_rewrite(VARIABLE + body, expected, fetches, run=False, **options)


def test_a_step_written_by_hand_is_taken_in_float32():
    """The gradient is cast before it is scaled: in float16 its square could be zero."""
    result = rewrite(
        """
        rate = Const(value=0.001)
        scaled = Mul(gradient, rate)
        next = Sub(read, scaled)
        write = AssignVariableOp(v, next)
        """,
        """
        v = VarHandleOp[float32]()
        init = AssignVariableOp[float32](v, initial)
        read = ReadVariableOp[float32](v)
        gradient = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        scaled = Mul[float32](gradient/npu_cast_0_float32, rate)
        next = Sub[float32](read, scaled)
        write = AssignVariableOp[float32](v, next)
        """,
    )
    assert result.reasons["scaled"] == ("kept", "updates_variable", "")
    assert result.reasons["next"] == ("kept", "updates_variable", "")


def test_a_gradient_is_unscaled_before_an_optimizer_gets_it():
    result = rewrite(
        """
        scale = Const(value=0.0078125)
        rate = Const(value=0.001)
        unscaled = Mul(gradient, scale)
        finite = IsFinite(unscaled)
        norm = L2Loss(unscaled)
        write = ResourceApplyGradientDescent(v, rate, unscaled)
        """,
        fetches=["finite", "norm"],
    )
    assert result.reasons["gradient"] == ("lowered", "white_list", "")
    assert result.reasons["unscaled"] == ("kept", "updates_variable", "")


def test_what_the_model_also_uses_follows_its_predecessors():
    """The node is a gray op between two layers; a variable also stores its output."""
    result = rewrite(
        """
        state = Relu(gradient)
        write = AssignVariableOp(v, state)
        logits = MatMul(state, x)
        """,
        fetches=["logits"],
    )
    assert result.reasons["state"] == ("lowered", "gray_follows_lowered", "gradient")


def test_what_no_kernel_can_lower_is_kept_for_that():
    """Its reason stays the same even if it does not update a variable."""
    graph = """
        rounded = Rint(gradient)
        write = AssignVariableOp(v, rounded)
        """
    wide = VARIABLE.replace("4x4", "32x32") + graph
    result = check_rewrite(wide, None, ["write", "init"], run=False)
    assert result.reasons["rounded"] == ("kept", "no_kernel", "")


def test_a_next_value_that_the_model_also_uses_is_still_exact():
    """On the way from the variable's read to its write nothing is rounded."""
    result = rewrite(
        """
        next = Sub(read, gradient)
        same = Identity(next)
        write = AssignVariableOp(v, same)
        logits = MatMul(next, x)
        """,
        fetches=["logits"],
    )
    assert result.reasons["next"] == ("kept", "updates_variable", "")
    assert result.reasons["same"] == ("kept", "updates_variable", "")
    assert result.reasons["logits"] == ("lowered", "white_list", "")


def test_a_next_value_that_a_loop_computes_is_exact():
    """The model uses the loop's result too, so only the path through the loop keeps it."""
    result = rewrite(
        f"""
        {counter(3)}
        enter = Enter(read, frame_name=loop)
        merge = Merge(enter, next)
        switch = Switch(merge, cond)
        step = Enter(gradient, frame_name=loop, is_constant=True)
        turn = Sub(switch:1, step)
        next = NextIteration(turn)
        exit = Exit(switch)
        write = AssignVariableOp(v, exit)
        logits = MatMul(exit, x)
        """,
        fetches=["logits"],
    )
    for name in ("enter", "merge", "switch", "turn", "next", "exit"):
        assert result.reasons[name] == ("kept", "updates_variable", ""), name


@pytest.mark.parametrize("variables", [2, 20, 600], ids=["2", "20", "600"])
def test_sums_are_exact_on_paths_from_a_variable_to_itself_only(variables):
    """This holds for any number of variables, and any nodes that their steps share."""
    choose = random.Random(variables)
    names = [f"v{number}" for number in range(variables)]
    lines, inputs = [], {}
    for name in names:
        lines += [f"{name} = VarHandleOp(shape=4x4, shared_name={name})"]
        lines += [f"{name}_read = ReadVariableOp({name})"]
    for number in range(3 * variables):
        known = [f"{choose.choice(names)}_read", "gradient", *list(inputs)[-2 * variables :]]
        pair = inputs[f"sum{number}"] = choose.sample(known, 2)
        lines += [f"sum{number} = AddV2({pair[0]}, {pair[1]})"]
        lines += [f"logits{number} = MatMul(sum{number}, x)"]
    written = {name: choose.choice(list(inputs)[variables:]) for name in names}
    for name in names[::2]:
        inputs[f"{name}_step"] = [f"{name}_read", "gradient"]
        lines += [f"{name}_step = AddV2({name}_read, gradient)"]
        lines += [f"{name}_logits = MatMul({name}_step, x)"]
        written[name] = f"{name}_step"
    lines += [f"write_{name} = AssignVariableOp({name}, {written[name]})" for name in names]

    def variables_read(node):
        if node not in read:
            here = {node[: -len("_read")]} if node.endswith("_read") else set()
            read[node] = here.union(*map(variables_read, inputs.get(node, ())))
        return read[node]

    exact, read = set(), {}
    for name in names:
        before = [written[name]]
        while before:
            node = before.pop()
            if node in inputs and (node, name) not in exact and name in variables_read(node):
                exact.add((node, name))
                before += inputs[node]

    result = check_rewrite(
        VARIABLE + "\n".join(lines) + "\nwrite = AssignVariableOp(v, read)",
        None,
        ["init", "write", *(f"write_{name}" for name in names)]
        + [f"logits{number}" for number in range(3 * variables)]
        + [f"{name}_logits" for name in names[::2]],
        run=False,
    )
    found = {name for name, why in result.reasons.items() if why[1] == "updates_variable"}
    assert found == {node for node, _ in exact}
    assert 0 < len(found) < len(inputs)


def test_a_white_op_ends_what_belongs_to_the_update():
    result = rewrite(
        """
        hidden = Relu(gradient)
        product = MatMul(hidden, read)
        write = AssignVariableOp(v, product)
        """
    )
    assert result.reasons["hidden"] == ("lowered", "gray_follows_lowered", "gradient")


def test_batch_norm_is_lowered_though_its_statistics_are_remembered():
    """The statistics have a type attribute of their own, which stays float32 anyway."""
    result = check_rewrite(
        """
        image = Placeholder(shape=2x4x4x3)
        filter = Const(shape=1x1x3x3)
        v = VarHandleOp(shape=3, shared_name=v)
        mean = Const(shape=3)
        gamma_v = VarHandleOp(shape=3, shared_name=gamma)
        gamma = ReadVariableOp(gamma_v)
        empty = Const(shape=0)
        conv = Conv2D(image, filter, strides=[1, 1, 1, 1], padding=SAME)
        bn = FusedBatchNormV3(conv, gamma, mean, empty, empty)
        moving = ReadVariableOp(v)
        change = Sub(moving, bn:1)
        write = AssignSubVariableOp(v, change)
        out = Conv2D(bn, filter, strides=[1, 1, 1, 1], padding=SAME)
        """,
        None,
        ["write", "out"],
        run=False,
    )
    assert result.reasons["bn"] == ("lowered", "gray_follows_lowered", "conv")
    assert result.reasons["change"][0] == "kept"


def test_references_count_as_variables():
    result = check_rewrite(
        """
        x = Placeholder(shape=4x4)
        v = VariableV2(shape=4x4)
        read = Identity(v)
        gradient = MatMul(x, x)
        next = Sub(read, gradient)
        write = Assign(v, next)
        """,
        None,
        run=False,
    )
    assert result.reasons["next"] == ("kept", "updates_variable", "")


def test_the_users_word_counts_for_more(mixlist):
    body = """
        next = Sub(read, gradient)
        write = AssignVariableOp(v, next)
        """
    result = rewrite(body, modify_mixlist=mixlist(white=["node:next"]))
    assert result.reasons["next"][:2] == ("lowered", "white_list")


@pytest.mark.parametrize("mode", ["allow_mix_precision", "allow_mix_precision_bf16"])
def test_an_update_through_both_branches_of_a_cond(mode):
    """A loss-scaled step is skipped, as a whole, when a gradient is not finite."""
    result = rewrite(
        """
        fine = Placeholder[bool](shape=scalar)
        scale = Const(value=0.0078125)
        unscaled = Mul(gradient, scale)
        branch = Switch(unscaled, fine)
        handle = Switch[resource](v, fine)
        write = AssignSubVariableOp(handle:1, branch:1)
        """,
        mode=mode,
    )
    assert result.reasons["unscaled"] == ("kept", "updates_variable", "")
    assert result.reasons["branch"] == ("kept", "updates_variable", "")


def test_a_path_from_another_variable_keeps_nothing():
    """A bias that is read on the way to a stored state does not make the layer an update."""
    result = rewrite(
        """
        bias_handle = VarHandleOp(shape=4, shared_name=bias)
        bias = ReadVariableOp(bias_handle)
        biased = BiasAdd(gradient, bias)
        state = Relu(biased)
        write = AssignVariableOp(v, state)
        logits = MatMul(state, x)
        """,
        fetches=["logits"],
    )
    assert result.reasons["biased"] == ("lowered", "gray_follows_lowered", "gradient")
    assert result.reasons["state"] == ("lowered", "gray_follows_lowered", "biased")


BRANCH = """
    fine = Placeholder[bool](shape=scalar)
    taken = Switch(next, fine)
    """
LOOP = f"""
    {counter(3, after=["write"])}
    taken = Enter(next, frame_name=loop, is_constant=True)
    exit = Exit(i_switch)
    """


@pytest.mark.parametrize(
    ("way", "write"),
    [
        ("", "AssignVariableOp(v, next)"),
        ("same = Identity(v)", "AssignVariableOp(same, next)"),
        (BRANCH + "same = Switch(v, fine)", "AssignVariableOp(same:1, taken:1)"),
        (
            LOOP + "same = Enter(v, frame_name=loop, is_constant=True)",
            "AssignVariableOp(same, taken)",
        ),
    ],
    ids=["directly", "Identity", "Switch", "Enter"],
)
def test_a_write_through_another_node_is_of_the_variable_that_was_read(way, write):
    """The model uses `next` too, so nothing but the path from the read to the write keeps it."""
    result = rewrite(
        f"""
        next = Sub(read, gradient)
        logits = MatMul(next, x)
        {way}
        write = {write}
        """,
        fetches=["logits"],
    )
    assert result.reasons["next"] == ("kept", "updates_variable", "")


@pytest.mark.parametrize(
    ("way", "write"),
    [
        ("", "Assign(v, next)"),
        ("same = RefIdentity(v)", "Assign(same, next)"),
        (BRANCH + "same = RefSwitch(v, fine)", "Assign(same:1, taken:1)"),
        (LOOP + "same = RefEnter(v, frame_name=loop, is_constant=True)", "Assign(same, taken)"),
    ],
    ids=["directly", "RefIdentity", "RefSwitch", "RefEnter"],
)
def test_a_write_through_another_reference_is_of_the_variable_that_was_read(way, write):
    result = check_rewrite(
        f"""
        x = Placeholder(shape=4x4)
        v = VariableV2(shape=4x4)
        read = Identity(v)
        gradient = MatMul(x, x)
        next = Sub(read, gradient)
        logits = MatMul(next, x)
        {way}
        write = {write}
        """,
        None,
        ["write", "logits"],
        run=False,
    )
    assert result.reasons["next"] == ("kept", "updates_variable", "")
