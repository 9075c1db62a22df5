"""all_white: every op on a list is lowered, except ops that update variables."""

from __future__ import annotations

import json

import pytest
from support.check_rewrite import check_rewrite
from support.loop_text import sum_loop

import npu_precision

CHAIN = """
    x = Placeholder(shape=4x4)
    image = Placeholder(shape=4x3)
    black = Exp(x)
    gray = Relu(black)
    white = MatMul(gray, x)
    unlisted = HSVToRGB(image)
    loss = Softmax(white)
    end = Identity(loss)
    """


def edits(**add_by_list):
    return json.dumps({f"{name}-list": {"to-add": ops} for name, ops in add_by_list.items()})


def test_gray_and_black_ops_are_lowered_as_white_ones_are():
    result = check_rewrite(
        CHAIN,
        """
        black = Exp[float16](x/npu_cast_0_float16)
        gray = Relu[float16](black)
        white = MatMul[float16](gray, x/npu_cast_0_float16)
        unlisted = HSVToRGB(image)
        loss = Softmax[float16](white)
        end/npu_changed = Identity[float16](loss)
        end = Cast[float16,float32](end/npu_changed)
        """,
        ["end", "unlisted"],
        all_white=True,
    )
    node = result.ledger.node("black")
    assert (node.list, node.listed_by, node.reason) == ("white", "all_white", "white_list")
    assert result.reasons["unlisted"] == ("kept", "unlisted", "")


def test_the_users_lists_count_all_the_same(mixlist):
    result = check_rewrite(
        CHAIN,
        None,
        ["end"],
        all_white=True,
        modify_mixlist=mixlist(
            """{"black-list": {"to-add": ["node:loss"], "to-remove": ["Exp"]},
                "gray-list": {"to-add": ["Identity"]}}"""
        ),
    )
    assert result.reasons["loss"] == ("kept", "black_list", "")
    assert result.reasons["end"] == ("kept", "gray_follows_kept", "loss")
    # Taken off the black list, it is gray, and its producers have no vote.
    assert result.reasons["black"] == ("kept", "gray_no_votes", "")
    assert result.reasons["gray"] == ("lowered", "white_list", "")
    assert not result.ledger.warnings


VARIABLE = """
    x = Placeholder(shape=4x4)
    v = VarHandleOp(shape=4x4, shared_name=v)
    initial = Const(shape=4x4)
    init = AssignVariableOp(v, initial)
    read = ReadVariableOp(v)
    product = MatMul(x, read)
    gradient = Tanh(product)
    decay = Const(value=0.9)
    """


def update(body, fetches=("write",)):
    return check_rewrite(VARIABLE + body, None, ["init", *fetches], run=False, all_white=True)


def test_master_weights_are_updated_in_float32():
    """The update of an optimizer of several ops, black and gray ones."""
    result = update(
        """
        square = Square(gradient)
        root = Rsqrt(square)
        step = Mul(root, decay)
        next = Sub(read, step)
        write = AssignVariableOp(v, next)
        logits = MatMul(gradient, x)
        """,
        ["write", "logits"],
    )
    for name in "square", "root", "step", "next":
        assert result.reasons[name] == ("kept", "updates_variable", "")
    assert result.reasons["gradient"] == ("kept", "before_magnifier", "root")
    assert result.reasons["product"] == ("lowered", "white_list", "")


def test_what_the_model_goes_on_with_is_lowered():
    result = update(
        """
        hidden = Exp(gradient)
        logits = MatMul(hidden, x)
        write = AssignVariableOp(v, logits)
        """
    )
    assert result.reasons["hidden"] == ("lowered", "white_list", "")


def test_what_magnifies_errors_keeps_float32():
    result = check_rewrite(
        """
        x = Placeholder(shape=4x4)
        product = MatMul(x, x)
        p = Sigmoid(product)
        loss = Log(p)
        """,
        None,
        all_white=True,
    )
    assert result.reasons["loss"] == ("kept", "magnifies", "")
    assert result.reasons["p"] == ("kept", "before_magnifier", "loss")


@pytest.mark.parametrize(
    "body",
    [
        "turn = AddV2(switch:1, term)",
        "value = Identity(switch:1) \n turn = AddV2(value, term)",
    ],
)
def test_a_sum_over_iterations_is_added_up_in_float32(body):
    result = check_rewrite(sum_loop(body), None, all_white=True)
    for name in "merge", "switch", "turn":
        assert result.reasons[name] == ("kept", "sums_iterations", "")
    assert result.reasons["term"] == ("lowered", "white_list", "")


@pytest.mark.parametrize("pass_on", ["Identity(unread)", "IdentityN(unread, unread)"])
def test_a_gradient_gets_to_its_update_through_what_nobody_else_reads(pass_on):
    """TensorFlow inlines branches like this: the other branch does not use its argument."""
    result = update(
        f"""
        made = Const[bool](value=True)
        unscaled = RealDiv(gradient, decay, _keep_dtype=1)
        unread = Switch(unscaled, made)
        skipped = Identity(unread)
        passed = {pass_on.replace("unread", "unread:1")}
        step = Mul(passed, decay)
        next = Sub(read, step)
        write = AssignVariableOp(v, next)
        """
    )
    assert result.reasons["unread"] == ("kept", "updates_variable", "")
    assert result.reasons["step"] == ("kept", "updates_variable", "")
    if pass_on.startswith("Identity("):
        assert result.reasons["passed"] == ("kept", "updates_variable", "")


SCALED = "scaled = Mul(loss, scale, _keep_dtype=1, _npu_precision_loss_scale=1)"
LOSS = f"""
    x = Placeholder(shape=4x4)
    w = Const(shape=4x4)
    hidden = MatMul(x, w)
    inner = Exp(hidden)
    logits = MatMul(inner, w)
    sharp = Mul(logits, w)
    probabilities = Softmax(sharp)
    all = Const[int32](value=[0, 1])
    loss = Sum(probabilities, all)
    given = Placeholder(shape=scalar)
    scale = Abs(given, _keep_dtype=1, _npu_precision_loss_scale=1)
    {SCALED}
    one = Const(value=1.0)
    gradient = Mul(one, scale)
    spread = Mul(gradient, probabilities)
    of_sharp = Mul(spread, w)
    of_logits = MatMul(of_sharp, w)
    of_inner = Mul(of_logits, inner)
    of_hidden = MatMul(of_inner, w)
    """


def test_the_loss_and_its_gradient_go_by_the_lists():
    """The scale of a loss is the gradient of the scaled loss, and may not fit into a float16."""
    result = check_rewrite(LOSS, None, ["scaled", "of_hidden"], all_white=True)
    reasons = result.reasons
    for name in "hidden", "inner", "logits", "of_logits", "of_inner", "of_hidden":
        assert reasons[name] == ("lowered", "white_list", "")
    assert reasons["sharp"] == ("lowered", "gray_follows_lowered", "logits")
    assert reasons["probabilities"] == ("kept", "black_list", "")
    assert reasons["loss"] == ("kept", "black_list", "")
    assert reasons["gradient"] == ("kept", "gray_follows_kept", "scale")
    assert reasons["spread"][0] == reasons["of_sharp"][0] == "kept"
    node = result.ledger.node("probabilities")
    assert (node.list, node.listed_by) == ("black", "built-in")


def test_a_second_run_finds_the_loss_behind_the_casts_of_the_first():
    """A gray node without votes keeps float32, and is read through a Cast."""
    graph = LOSS.replace("sharp = Mul(logits, w)", "more = Tanh(x)\nsharp = AddV2(logits, more)")
    reasons = check_rewrite(graph, None, ["scaled", "of_hidden"], all_white=True).reasons
    assert reasons["sharp"] == ("lowered", "gray_follows_lowered", "logits")
    assert reasons["more"] == ("kept", "gray_no_votes", "")


def test_so_it_is_where_only_the_gradient_is_run():
    graph = LOSS.replace(SCALED, "")  # As a session prunes it.
    assert graph != LOSS
    reasons = check_rewrite(graph, None, ["of_hidden"], all_white=True).reasons
    assert reasons["probabilities"] == ("kept", "black_list", "")
    assert reasons["spread"][0] == "kept"


def test_without_a_scaled_loss_nothing_of_it_is_known():
    graph = LOSS.replace(", _npu_precision_loss_scale=1", "")
    reasons = check_rewrite(graph, None, ["scaled", "of_hidden"], all_white=True).reasons
    assert reasons["probabilities"] == ("lowered", "white_list", "")


@pytest.mark.parametrize("entry", ["Exp", "node:inner"])
@pytest.mark.parametrize(
    ("color", "reason"), [("black", "gray_follows_lowered"), ("white", "white_list")]
)
def test_what_is_removed_from_a_list_it_is_on_is_gray(entry, color, reason, mixlist):
    """By op type and by name alike; all_white itself is no list, so it removes nothing."""
    path = mixlist(json.dumps({f"{color}-list": {"to-remove": [entry]}}))
    result = check_rewrite(LOSS, None, ["scaled", "of_hidden"], all_white=True, modify_mixlist=path)
    assert result.reasons["inner"][:2] == ("lowered", reason)


def test_an_op_that_no_kernel_can_lower_is_kept_for_that():
    result = check_rewrite(
        """
        x = Placeholder(shape=4x4)
        rounded = Rint(x)
        end = MatMul(rounded, x)
        """,
        None,
        all_white=True,
    )
    assert result.reasons["rounded"] == ("kept", "no_kernel", "")
    assert result.reasons["end"] == ("lowered", "white_list", "")


def test_edits_by_programs_are_mixlist_entries_on_top_of_the_file(mixlist):
    result = check_rewrite(
        CHAIN,
        None,
        ["end"],
        modify_mixlist=mixlist(black=["Relu"]),
        mixlist_edits=edits(white=["Softmax", "FusedBatchNormV3"]),
    )
    listed_by = {name: result.ledger.node(name).listed_by for name in ("gray", "loss")}
    assert listed_by["gray"].endswith("mixlist.json:1:28")
    assert listed_by["loss"] == "mixlist_edits:1:28"
    assert result.reasons["loss"] == ("lowered", "white_list", "")
    # The lists are not written for one graph.
    assert not result.ledger.warnings


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"mixlist_edits": '{"black-list": ["Relu"]}'},
            "mixlist_edits:1:16: black-list: got a list, expected an object",
        ),
        (
            {"mixlist_edits": edits(white=["Relu"])},
            "mixlist_edits: 'Relu' is added to black-list at {file}:1:28 and added to white-list "
            "at mixlist_edits:1:28; it can be on one list only",
        ),
        (
            {"precision_mode": "force_fp16", "modify_mixlist": None, "all_white": True},
            "all_white: got 'true' with precision_mode 'force_fp16', which does not use the lists",
        ),
        (
            {"precision_mode": "force_fp32", "modify_mixlist": None, "mixlist_edits": "{}"},
            "mixlist_edits: got '{{}}' with precision_mode 'force_fp32', which does not use",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(mixlist, fields, message):
    file = mixlist(black=["Relu"])
    with pytest.raises(ValueError) as error:
        npu_precision.PrecisionOptions(
            **{"precision_mode": "allow_mix_precision", "modify_mixlist": file, **fields}
        )
    assert message.format(file=file) in str(error.value)
