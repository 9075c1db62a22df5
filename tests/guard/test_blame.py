"""The op that a guard blames, given the tensors that a watch recorded."""

from __future__ import annotations

import re

import numpy as np

from npu_precision.flight.tensor_watch import WatchedGraph, WatchedStep, WatchedTensor
from npu_precision.guard import blame
from npu_precision.tuning.mixlist import entry_of

FAULTS = {"": 0, "overflow": 1, "infinity": 2, "nan": 3}


def step_of(*rows, number=1, **columns):
    """A step with a tensor per row: its node, its op, and its fault, or ""."""
    tensors = [
        WatchedTensor(node, op, 0, "", "float32", "float16", place, -1, [f"reads_{node}"])
        for place, (node, op, _) in enumerate(rows)
    ]
    faults = np.array([FAULTS[fault] for *_, fault in rows])
    ones = np.ones(len(rows))
    counts = {"fault": faults, "iteration": 0 * faults, "elements": ones, "largest": ones}
    counts.update({name: np.array(values) for name, values in columns.items()})
    lowered = [(node, place) for place, (node, *_) in enumerate(rows)]
    return WatchedStep(WatchedGraph(number, tensors, lowered), 0, counts)


def test_the_device_with_the_overflow_is_blamed_and_not_the_one_that_got_its_nan():
    got = step_of(("a", "MatMul", "nan"))
    made = step_of(("x", "Relu", ""), ("b", "MatMul", "overflow"), ("c", "Sub", "nan"))
    for steps in ([got, made], [made, got]):
        assert blame.not_finite(steps).what == "overflow of float16 in b (MatMul)"


def test_what_came_from_others_is_theirs():
    assert (
        blame.not_finite([step_of(("sum", "CollectiveReduceV2", "nan"), ("c", "Sub", "nan"))])
        is None
    )
    assert blame.not_finite([step_of(("c", "Sub", "nan"), ("sum", "NcclAllReduce", "nan"))])


def test_of_what_is_read_the_readers_are_kept():
    """No list changes the graph's inputs, so their readers are kept, and the readers come next for
    other tensors.
    """
    read = blame.not_finite([step_of(("x", "ReadVariableOp", "overflow"))])
    assert read.nodes == [["reads_x"]]
    computed = blame.not_finite([step_of(("x", "MatMul", "overflow"))])
    assert computed.nodes == [["x"], ["reads_x"]]


def test_all_that_is_lowered_may_be_kept_what_comes_after_the_fault_first():
    rows = [("a", "MatMul", ""), ("b", "MatMul", "overflow"), ("c", "MatMul", "nan")]
    steps = [step_of(("x", "MatMul", ""), number=2), step_of(*rows)]
    assert blame.not_finite(steps).lowered == ["b", "c", "x", "a"]


def test_what_is_infinite_in_good_steps_is_no_fault():
    steps = [step_of(("mask", "Mul", "infinity"), ("x", "MatMul", "nan"))]
    assert blame.usual_faults(steps[:1]) == {"mask", "x"}
    assert blame.not_finite(steps, {"mask"}).nodes[0] == ["x"]
    assert blame.not_finite(steps, {"mask", "x"}) is None


def test_where_nothing_is_all_zeros_the_first_is_blamed_that_is_mostly_below_the_range():
    rows = [(name, "Mul", "") for name in "abc"]
    columns = {"elements": [100] * 3, "zeros": [0, 90, 0], "under": [40, 8, 90]}
    step, exact = (step_of(*rows, largest=[1e-3] * 3, **columns) for _ in range(2))
    assert (
        blame.vanished([step], [exact]).what == "below float16's normal numbers are 80% of b (Mul)"
    )
    lost = step_of(*rows, largest=[1e-3, 1e-3, 0.0], **columns)
    assert blame.vanished([lost], [exact]).what == "nothing but zeros of float16 in c (Mul)"


def test_an_entry_matches_whatever_number_a_scope_gets():
    assert entry_of("while/_12/mul.x") == "node:while/_[0-9]+/mul\\.x"
    entry = entry_of("model_1/dense_2_1/mul", {"model", "dense_2"})
    assert entry == "node:(.*/)?model(_[0-9]+)?/dense_2(_[0-9]+)?/mul"
    pattern = entry[len("node:") :]
    for name in ("model/dense_2/mul", "model_3/dense_2_1/mul", "Call/model/dense_2/mul"):
        assert re.fullmatch(pattern, name)
    assert not re.fullmatch(pattern, "model/dense/mul")
