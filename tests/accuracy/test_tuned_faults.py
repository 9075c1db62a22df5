"""npu-precision tune accepts no mixlist that ruins a tensor, however good the outputs are."""

from __future__ import annotations

import dataclasses
import json
import re

import numpy as np
import pytest
from support.loop_text import counter
from support.overflowing import EMULATED, normal

from npu_precision import PrecisionOptions
from npu_precision.accuracy import frozen
from npu_precision.accuracy.faults import ALL_ZERO, NOT_FINITE
from npu_precision.offline import model_file
from npu_precision.tuning.objective import MaxError
from npu_precision.tuning.trials import Trials

NEW_NAN = "has a NaN or an infinity that it has not in float32"


@pytest.fixture
def fault(graph_file):
    """fault(text, x=..., ...) -> the fault in a trial; white=[...] also lowers these nodes."""

    def find(text, white=(), mode="allow_mix_precision", emulate=True, **inputs):
        model = frozen.freeze(model_file.load_model(graph_file(text)))
        lists = {"white-list": {"to-add": [f"node:{name}" for name in white]}}
        options = PrecisionOptions(
            precision_mode=mode, emulate=emulate, mixlist_edits=json.dumps(lists)
        )
        feed = {f"{name}:0": np.float32(value) for name, value in inputs.items()}
        trial = Trials(model, [feed], MaxError(1.0)).run(options)
        assert trial.is_good == (trial.is_met and trial.fault is None)
        return trial.fault

    return find


HIDDEN = """
    x = Placeholder(shape=4x4)
    large = MatMul(x, x)
    bounded = Tanh(large)
    small = MatMul(bounded, bounded)
    out = Relu(small)
    """


@pytest.mark.parametrize("options", [EMULATED, EMULATED[:-1]], ids=["emulated", "kernels"])
def test_an_infinity_that_the_output_does_not_show_is_refused(options, graph_file, arrays, tune):
    # Tanh is 1 for infinity, and for 160000.
    inputs = ("--inputs", arrays(x=np.full([4, 4], 200.0, np.float32)))
    printed, mixlist = tune(graph_file(HIDDEN), *inputs, "--max-error", "0.5", options=options)
    assert printed["start"]["error"] == 0
    assert not printed["start"]["good"]
    assert printed["start"]["fault"] == {
        "tensor": "large:0",
        "op": "MatMul",
        "what": NEW_NAN,
        "nodes": ["large"],
    }
    assert mixlist == {"black-list": {"to-add": ["node:large"]}}
    assert printed["found"]["fault"] is None
    assert printed["found"]["good"]


def test_a_tensor_that_becomes_all_zero_is_refused(graph_file, arrays, command, tmp_path):
    text = """
        x = Placeholder(shape=4x4)
        tiny = Placeholder(shape=4x4)
        lost = MatMul(tiny, tiny)
        large = MatMul(x, x)
        out = AddV2(lost, large)
        """
    inputs = ("--inputs", arrays(x=normal(4, 4), tiny=np.full([4, 4], 1e-5, np.float32)))
    arguments = (*inputs, "--max-error", "0.5", "-o", tmp_path / "m.json")
    printed = command("tune", graph_file(text), *arguments, *EMULATED)
    zero = re.escape("lost:0 (MatMul) is all zero, and is not in float32; lowered: lost\n")
    assert re.search(rf"\nas given: error .*; {zero}", printed)
    refused = r"\nrefused, though good enough by the outputs: \d trials?, in which\n  "
    assert re.search(refused + zero, printed)
    assert json.loads((tmp_path / "m.json").read_text()) == {
        "black-list": {"to-add": ["node:lost"]}
    }


def test_what_is_found_is_free_of_all_faults(graph_file, arrays, tune):
    text = """
        x = Placeholder(shape=4x4)
        tiny = Placeholder(shape=4x4)
        a/large = MatMul(x, x)
        a/bounded = Tanh(a/large)
        b/small = MatMul(a/bounded, x)
        b/bounded = Tanh(b/small)
        c/lost = MatMul(tiny, tiny)
        c/large = MatMul(x, c/lost)
        d/product = MatMul(b/bounded, b/bounded)
        out = AddV2(d/product, c/large)
        """
    values = {"x": np.full([4, 4], 200.0), "tiny": np.full([4, 4], 1e-5)}
    inputs = ("--inputs", arrays(**{name: np.float32(value) for name, value in values.items()}))
    printed, mixlist = tune(graph_file(text), *inputs, "--max-error", "1")
    # In float16, c/large reads nothing but zeros.
    assert mixlist == {"black-list": {"to-add": ["node:c/.*", "node:a/large"]}}
    refused = {trial["fault"]["tensor"] for trial in printed["trials"] if trial["fault"]}
    assert refused >= {"a/large:0", "c/lost:0"}
    assert printed["found"]["fault"] is None


def test_a_mixlist_that_needs_a_ruined_tensor_is_not_found(
    graph_file, arrays, command, mixlist, tmp_path
):
    own = mixlist(white=["node:large"])
    inputs = ("--inputs", arrays(x=np.full([4, 4], 200.0, np.float32)), "--mixlist", own)
    arguments = (graph_file(HIDDEN), *inputs, *EMULATED, "--max-error", "1")
    text = command("tune", *arguments, "-o", tmp_path / "m.json", status=2)
    assert "no mixlist is good enough" in text
    assert "the error is 0.0e+00, and large:0 (MatMul) has a NaN or an infinity that" in text


def test_what_is_not_finite_in_float32_either_is_no_fault(fault):
    text = """
        x = Placeholder(shape=2x2)
        y = Placeholder(shape=2x2)
        product = MatMul(x, y)
        log = Log(product)
        out = Exp(log)
        """
    x = np.diag([-1.0, 4.0])
    log_lowered = {"white": ["log"], "y": np.eye(2)}
    assert fault(text, x=x, **log_lowered) is None
    # But another element is.
    found = fault(text, x=np.diag([-1.0, 4.0]) + np.array([[0, 1e-9], [0, 0]]), **log_lowered)
    assert (found.tensor, found.what) == ("log:0", NOT_FINITE)


def test_what_is_all_zero_or_empty_in_float32_either_is_no_fault(fault):
    text = """
        x = Placeholder(shape=4x4)
        none = Placeholder(shape=0x4)
        zero = MatMul(x, x)
        empty = MatMul(none, x)
        one = Exp(zero)
        out = Exp(empty)
        """
    assert fault(text, x=np.zeros([4, 4]), none=np.zeros([0, 4])) is None
    assert fault(text, x=np.full([4, 4], 1e-5), none=np.zeros([0, 4])).what == ALL_ZERO


def test_a_node_that_stays_float32_is_not_blamed_for_what_it_reads(fault):
    text = """
        x = Placeholder(shape=1x2)
        y = Placeholder(shape=2x1)
        one = Const(shape=1x1)
        near = MatMul(x, y)
        moved = Reshape(near, shape)
        shape = Const[int32](value=[1])
        inverse = Reciprocal(moved)
        out = Sigmoid(inverse)
        """
    found = fault(text, x=[[1.0, 1.0]], y=[[1.0], [-1.0 + 2.0**-13]])
    assert (found.tensor, found.nodes) == ("near:0", ("near",))
    found = fault(
        text.replace("MatMul(x, y)", "MatMul(first, second)").replace(
            "one = Const(shape=1x1)", "first = Identity(x)\n second = Identity(y)"
        ),
        x=[[1.0, 1.0]],
        y=[[1.0], [-1.0 + 2.0**-13]],
    )
    assert found.nodes == ("near",)


def test_of_a_kept_node_the_nearest_lowered_nodes_before_it_are_blamed(fault):
    text = """
        x = Placeholder(shape=4x4)
        y = Placeholder(shape=4x4)
        a = MatMul(x, y)
        b = MatMul(y, x)
        sum = AddV2(a, b)
        shifted = Sub(sum, c)
        c = MatMul(x, x)
        size = Abs(shifted)
        out = Log(size)
        """
    # In float16 one element of the difference is 0, not all of them.
    x, y = np.eye(4), np.eye(4)
    y[0, 1] = 2.0**-12
    x[0, 1] = x[2, 3] = 1.0
    found = fault(text, x=x, y=y, white=["sum", "shifted", "size"])
    if found is None or found.tensor != "out:0":
        pytest.fail(f"expected a fault of out:0, got {found}")
    assert found.nodes == ("size",)


def test_what_leaves_a_loop_is_looked_at(fault):
    text = f"""
        x = Placeholder(shape=4x4)
        {counter(3)}
        enter = Enter(x, frame_name=loop)
        merge = Merge(enter, next)
        switch = Switch(merge, cond)
        turn = MatMul(switch:1, switch:1)
        next = NextIteration(turn)
        exit = Exit(switch)
        out = Tanh(exit)
        """
    found = fault(text, x=np.full([4, 4], 5.0))
    assert (found.tensor, found.what) == ("exit:0", NOT_FINITE)
    assert found.nodes == ("exit",)


def test_bfloat16_has_its_own_faults(fault):
    text = """
        x = Placeholder(shape=1x2)
        y = Placeholder(shape=2x1)
        near = MatMul(x, y)
        out = Exp(near)
        """
    near = {"x": [[1.0, 1.0]], "y": [[1.0], [-1.0 + 2.0**-10]]}
    for emulate in (True, False):
        found = fault(text, mode="allow_mix_precision_bf16", emulate=emulate, **near)
        assert (found.tensor, found.what) == ("near:0", ALL_ZERO)
    assert fault(text, x=[[1.0, 1.0]], y=[[1.0], [-1.0 + 2.0**-10]]) is None


def test_a_fault_in_any_batch_counts(graph_file):
    model = frozen.freeze(model_file.load_model(graph_file(HIDDEN)))
    options = PrecisionOptions(precision_mode="allow_mix_precision", emulate=True)
    good, bad = ({"x:0": np.full([4, 4], value, np.float32)} for value in (1, 200))
    trials = Trials(model, [good, bad, good], MaxError(1.0))
    trial = trials.run(options)
    assert trial.is_met
    assert dataclasses.astuple(trial.fault)[:3] == ("large:0", "MatMul", NOT_FINITE)
    assert Trials(model, [good, good], MaxError(1.0)).run(options).is_good
