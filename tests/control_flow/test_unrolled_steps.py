"""A loop that Python unrolled adds up in float32, as one that TensorFlow runs does."""

from __future__ import annotations

import json

import pytest
from support.check_rewrite import check_rewrite
from support.tf_versions import need_kernels

SUMS = ("kept", "sums_iterations", "")
MANY = 40  # steps; the last of them are alike as far back as they are compared


def unrolled(step, count=MANY, first="start", before=""):
    """A graph of `count` steps; {old}, {new} and {i} stand for two states and the number."""
    lines = [
        "x = Placeholder(shape=8x8)",
        "start = Const(shape=8x8)",
        "small = Const(value=0.01)",
        "product = MatMul(x, x)",
        *before.splitlines(),
    ]
    state = first
    for i in range(count):
        lines += step.format(old=state, new=f"state{i}", i=i).splitlines()
        state = f"state{i}"
    return "\n".join([*lines, f"end = Identity({state})"])


def decided(graph, mode="allow_mix_precision_bf16", **options):
    return check_rewrite(graph, None, mode=mode, run=False, **options).reasons


STEPS = {
    "a sum": "{new} = AddV2({old}, product)",
    "a difference": "{new} = Sub({old}, product)",
    "a moving average": "part{i} = Mul(product, small)\nlate{i} = Const(value=0.99)\n"
    "old{i} = Mul({old}, late{i})\n{new} = AddV2(old{i}, part{i})",
    "a step towards a goal": "gap{i} = Sub(product, {old})\npart{i} = Mul(gap{i}, small)\n"
    "{new} = AddV2({old}, part{i})",
    "an ODE of one layer": "layer{i} = MatMul({old}, x)\npart{i} = Mul(layer{i}, small)\n"
    "{new} = AddV2({old}, part{i})",
    "the shortest path": "other{i} = Transpose({old}, order)\nbest{i} = Minimum({old}, other{i})\n"
    "{new} = AddV2(best{i}, product)",
    "a soft threshold": "sign{i} = Sign({old})\nsize{i} = Abs({old})\n"
    "less{i} = Sub(size{i}, small)\nrelu{i} = Relu(less{i})\nrest{i} = Mul(sign{i}, relu{i})\n"
    "{new} = AddV2(rest{i}, product)",
    "a product of factors near one": "gate{i} = Tanh(product)\npart{i} = Mul(gate{i}, small)\n"
    "one{i} = Const(value=1.0)\nfactor{i} = AddV2(part{i}, one{i})\n{new} = Mul({old}, factor{i})",
}


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_many_like_steps_are_taken_in_float32(step):
    need_kernels("bfloat16", "Tanh")
    order = "order = Const[int32](value=[1, 0])" if "order" in step else ""
    found = decided(unrolled(step, before=order))
    assert found[f"state{MANY - 1}"] == SUMS
    assert found[f"state{MANY // 2}"] == SUMS
    assert found["product"][0] == "lowered"


def test_steps_may_read_a_variable_anew():
    step = (
        "w{i} = ReadVariableOp(v)\nlayer{i} = MatMul({old}, w{i})\npart{i} = Mul(layer{i}, small)\n"
        "{new} = AddV2({old}, part{i})"
    )
    before = "v = VarHandleOp(shape=8x8, shared_name=v)"
    assert decided(unrolled(step, before=before))[f"state{MANY - 1}"] == SUMS
    own = step.replace("ReadVariableOp(v)", "ReadVariableOp(v{i})")
    own = "v{i} = VarHandleOp(shape=8x8, shared_name=v{i})\n" + own
    assert decided(unrolled(own, first="product"))[f"state{MANY - 1}"][0] == "lowered"


def test_a_few_steps_follow_their_predecessors():
    found = decided(unrolled(STEPS["a sum"], count=30))
    assert found["state29"][0] == "lowered"


@pytest.mark.parametrize(
    "step",
    [
        # Each block of a residual network has weights of its own.
        "w{i} = Const(shape=8x8)\nlayer{i} = MatMul({old}, w{i})\n{new} = AddV2({old}, layer{i})",
        "w{i} = Const(shape=8x8)\nlayer{i} = MatMul({old}, w{i})\ncopy{i} = Identity(layer{i})\n"
        "relu{i} = Relu(copy{i})\nscaled{i} = Mul(relu{i}, small)\n"
        "{new} = AddV2({old}, scaled{i})",
        # Biases are weights, too.
        "b{i} = Const(shape=8x8)\nmore{i} = AddV2(product, b{i})\n{new} = AddV2({old}, more{i})",
    ],
    ids=["layers", "scaled layers", "biases"],
)
def test_residual_sums_of_layers_with_weights_of_their_own_are_lowered(step):
    found = decided(unrolled(step, first="product"))
    assert found[f"state{MANY - 1}"][0] == "lowered"


@pytest.mark.parametrize(
    "step",
    [
        "gate{i} = Sigmoid({old})\nold{i} = Mul({old}, gate{i})\n{new} = AddV2(old{i}, product)",
        "sum{i} = AddV2({old}, product)\n{new} = Tanh(sum{i})",
        "half{i} = Const(value=0.5)\nold{i} = Mul({old}, half{i})\n{new} = AddV2(old{i}, product)",
    ],
    ids=["gate", "recurrent cell", "short memory"],
)
def test_steps_that_forget_are_lowered(step):
    need_kernels("bfloat16", "Sigmoid", "Tanh")
    found = decided(unrolled(step, first="product"))
    assert found[f"state{MANY - 1}"][0] == "lowered"


def test_what_comes_before_the_first_step_and_after_the_last_follows_its_predecessors():
    graph = unrolled(STEPS["a sum"], first="relu", before="relu = Relu(product)")
    found = decided(graph + "\nlast = MatMul(end, x)")
    assert found["relu"] == ("lowered", "gray_follows_lowered", "product")
    assert found["last"] == ("lowered", "white_list", "")


def test_a_mixlist_entry_beats_it():
    edits = json.dumps({"gray-list": {"to-add": ["AddV2"]}})
    found = decided(unrolled(STEPS["a sum"]), mixlist_edits=edits)
    assert found[f"state{MANY - 1}"][0] == "lowered"


def test_the_values_are_those_of_float32():
    for step in STEPS["a sum"], STEPS["a moving average"], STEPS["an ODE of one layer"]:
        check_rewrite(unrolled(step), None, mode="allow_mix_precision_bf16")
