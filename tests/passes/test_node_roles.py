"""The role of each node: what updates variables and what computes nothing is counted apart."""

from __future__ import annotations

import pytest
from support.text_graph import read_graph

from npu_precision import Ledger, rewrite_graph_def
from npu_precision.counts import count
from npu_precision.ledger import LedgerNode

MODEL = """
    x = Placeholder(shape=4x4)
    w = VarHandleOp(shape=4x4, shared_name=w)
    weights = ReadVariableOp(w)
    logits = MatMul(x, weights)
    loss = Exp(logits)
    gradient = MatMul(x, loss)
    """
# Momentum written by hand, with a clip by the norm of all gradients.
STEP = """
    m = VarHandleOp(shape=4x4, shared_name=m)
    momentum = ReadVariableOp(m)
    decay = Const(value=0.9)
    rate = Const(value=0.001)
    axes = Const[int32](value=[0])
    square = L2Loss(gradient)
    squares = Pack(square, square)
    norms = Sum(squares, axes)
    norm = Sqrt(norms)
    clipped = RealDiv(gradient, norm)
    finite = IsFinite(clipped)
    old = Mul(momentum, decay)
    new = AddV2(old, clipped)
    keep = AssignVariableOp(m, new)
    step = Mul(new, rate)
    update = AssignSubVariableOp(w, step)
    """
UPDATES = {
    *("square", "squares", "norms", "norm", "clipped", "old", "new", "keep", "step", "update"),
}


def rewrite(body, *fetches, mode="allow_mix_precision_bf16"):
    _, ledger = rewrite_graph_def(
        read_graph(MODEL + body), ["loss", *fetches], precision_mode=mode, name="model"
    )
    return ledger


def nodes_of(ledger, role):
    return {node.name for node in ledger.nodes if node.role == role}


def test_what_only_updates_variables_is_counted_apart():
    ledger = rewrite(STEP, "update", "keep", "finite")
    assert nodes_of(ledger, "updates_variable") == UPDATES
    assert nodes_of(ledger, "computes") == {"logits", "loss", "gradient", "finite"}
    assert str(ledger) == (
        "model: 2 of 2 matrix and convolution ops in bfloat16; lowered 2 of 4 float nodes, "
        "5 Casts of 224 bytes; kept 2: 1 black_list, 1 gray_follows_kept; "
        "apart: 10 of variable updates"
    )


@pytest.mark.parametrize("mode", ["force_fp16", "must_keep_origin_dtype", "allow_mix_precision"])
def test_roles_are_the_same_in_every_mode(mode):
    ledger = rewrite(STEP, "update", "keep", "finite", mode=mode)
    assert nodes_of(ledger, "updates_variable") == UPDATES


def test_updates_that_a_mode_lowers_are_reported():
    ledger = rewrite(STEP, "update", "keep", "finite", mode="force_fp16")
    lowered = {node.name for node in ledger.nodes if node.decision == "lowered"}
    assert len(lowered & UPDATES) > 0
    text = f"apart: 10 of variable updates ({len(lowered & UPDATES)} lowered)"
    assert ledger.counts.sentence.endswith(text)
    assert ledger.totals["lowered"] == len(lowered - UPDATES)


# The last lines of a graph whose node "it" computes, although a variable is updated with it.
COMPUTES = {
    "the model reads it too": (
        "it = Relu(gradient)\nend = Exp(it)\nupdate = AssignVariableOp(w, it)"
    ),
    "it is fetched": "it = Relu(gradient)\nupdate = AssignVariableOp(w, it)",
    "it is a product": "it = MatMul(gradient, x)\nupdate = AssignVariableOp(w, it)",
    "it is the gradient of a bias": "it = BiasAddGrad(loss)\nupdate = AssignVariableOp(w, it)",
    "it is a sum over a batch": (
        "axes = Const[int32](value=[0])\nit = Sum(loss, axes)\nupdate = AssignVariableOp(w, it)"
    ),
    "it only tests values": "it = IsFinite(gradient)\nupdate = AssignVariableOp(w, gradient)",
}


@pytest.mark.parametrize("why", COMPUTES)
def test_it_computes_because(why):
    fetched = [name for name in ("end", "update") if f"{name} =" in COMPUTES[why]]
    is_read = "fetched" in why or "tests" in why
    ledger = rewrite(COMPUTES[why], *fetched, *(["it"] if is_read else []))
    assert ledger.node("it").role == "computes"


# By role, the last line of a graph whose node "it" has that role.
ROLES = [
    ("source", "it = Const(shape=4x4)\nend = AddV2(it, x)"),
    ("source", "size = Const[int32](value=[4, 4])\nit = RandomUniform(size)\nend = AddV2(it, x)"),
    ("source", "it = ReadVariableOp(w)\nend = AddV2(it, x)"),
    ("bookkeeping", "it = Shape(logits)\nend = Reshape(x, it)"),
    ("bookkeeping", "it = TensorSummary(x)\nend = Exp(x)"),
    ("updates_variable", "it = AssignVariableOp(w, x)\nend = Exp(x)"),
    ("computes", "it = Print(x)\nend = Exp(it)"),
    ("computes", "it = ZerosLike(x)\nend = Exp(it)"),
]


@pytest.mark.parametrize(("role", "lines"), ROLES)
def test_the_role_is(role, lines):
    assert rewrite(lines, "end", "it").node("it").role == role


def test_a_ledger_of_an_earlier_version_counts_as_it_did():
    """It has no roles: all but its sources compute."""
    data = rewrite(STEP, "update", "keep", "finite").to_dict()
    for node in data["nodes"]:
        del node["role"]
    totals = Ledger(data).counts.totals
    sources = [node for node in data["nodes"] if node["reason"] == "neutral_source"]
    assert totals["sources"] == len(sources)
    assert totals["float_nodes"] == len(data["nodes"]) - len(sources)
    assert totals["variable_updates"] == totals["bookkeeping"] == 0


# What the sentence says of products, by the mode. The graph has one of each kind of product.
PRODUCTS = {
    "allow_mix_precision_bf16": "1 of 2 matrix and convolution ops in bfloat16 (14 % of their "
    "arithmetic); lowered 1 of 3 float nodes, ",
    "must_keep_origin_dtype": "0 of 2 matrix and convolution ops lowered; lowered 0 of 3 ",
    "cube_fp16in_fp32out": "0 of 2 matrix and convolution ops lowered; lowered 0 of 3 ",
}


@pytest.mark.parametrize("mode", PRODUCTS)
def test_the_sentence_begins_with_the_products(mode, tmp_path):
    graph = """
        x = Placeholder(shape=4x4)
        wide = Placeholder(shape=4x24)
        small = MatMul(x, x)
        end = Exp(small)
        large = MatMul(end, wide)
        """
    options = {}
    if mode == "allow_mix_precision_bf16":
        options["modify_mixlist"] = tmp_path / "mixlist.json"
        options["modify_mixlist"].write_text('{"black-list": {"to-add": ["node:large"]}}')
    _, ledger = rewrite_graph_def(read_graph(graph), ["large"], precision_mode=mode, **options)
    assert ledger.counts.sentence.startswith(PRODUCTS[mode])


def test_a_mode_that_raises_says_raised():
    graph = """
        x = Placeholder[float16](shape=4x4)
        product = MatMul[float16](x, x)
        end = Relu[float16](product)
        """
    _, ledger = rewrite_graph_def(read_graph(graph), ["end"], precision_mode="force_fp32")
    start = "1 of 1 matrix and convolution ops in float32; raised 2 of 2 float nodes, 2 Casts"
    assert ledger.counts.sentence.startswith(start)


def test_a_graph_of_initializers_has_no_node_that_computes():
    graph = """
        w = VarHandleOp(shape=4x4, shared_name=w)
        initial = Const(shape=4x4)
        init = AssignVariableOp(w, initial)
        """
    _, ledger = rewrite_graph_def(read_graph(graph), ["init"], precision_mode="force_fp16")
    assert ledger.counts.sentence == (
        "no node that computes has a dtype that this mode is about; apart: 1 of variable updates"
    )
    assert count().sentence == "no node that computes has a dtype that this mode is about"


FIVE = {"black_list": 10, "unlisted": 9, "no_kernel": 8, "gray_no_votes": 7, "magnifies": 6}


@pytest.mark.parametrize(
    ("others", "end"),
    [
        ({"fixed_dtype": 5}, "6 magnifies, 5 fixed_dtype"),
        ({"fixed_dtype": 2, "fed": 1}, "6 magnifies, 3 for other reasons"),
    ],
)
def test_few_reasons_are_named_and_the_rest_is_one_number(others, end):
    nodes = [
        LedgerNode("it", "Exp", "", "gray", "", "kept", reason, "", {}, role="computes")
        for reason, amount in {**FIVE, **others}.items()
        for _ in range(amount)
    ]
    sentence = count(nodes).sentence
    assert f"; kept {len(nodes)}: 10 black_list, 9 unlisted, " in sentence
    assert sentence.endswith(end)
