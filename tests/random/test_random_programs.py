"""Random losses and loops have the same results in the mixed modes as in float32.

A program counts only if it is well conditioned: in float32, inputs and weights that are off by a
unit of the low type, which no mode can avoid, must give nearly the same result as exact ones. A
mode may be off by some units of the low type, and by a multiple of the error from rounded inputs.
"""

from __future__ import annotations

import collections
import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from support.random_programs import (
    MOST_ITERATIONS,
    BuiltProgram,
    Loop,
    Program,
    programs,
)
from support.tiers import corpus_settings, corpus_size, mostly_full

import npu_precision

tf1 = tf.compat.v1

UNIT = {"allow_mix_precision_bf16": 2.0**-8, "allow_mix_precision": 2.0**-11}
# A mode may be off by this number of units of the low type, and this multiple of the error from
# rounded inputs.
UNITS, TIMES = 25, 8
# A program is well conditioned if rounded inputs move its result by at most this share, in this
# number of draws.
MOST_MOVED, DRAWS = 0.05, 2
# Larger values are a question of range, not of precision; and a loss scaler would keep gradients
# below this limit. The error of values below SMALLEST is a share of SMALLEST.
LARGEST, LARGEST_GRADIENT, SMALLEST = 1e3, 1e4, 1e-3


def session(built, mode=None):
    """A session of one thread, in a mode or in float32."""
    config = tf1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    if mode is not None:
        config = npu_precision.npu_config_proto(config, precision_mode=mode)
    return tf1.Session(graph=built.graph, config=config)


def run(built, program, running, feeds, fetches):
    """The values of some fetches after each step, and the weights at the end, by name."""
    yielded = collections.defaultdict(list)
    running.run(built.start, feeds)
    for number in range(program.steps + 1):
        for name, value in running.run(fetches, feeds).items():
            yielded[name].append(np.asarray(value, np.float64))
        if number < program.steps:
            running.run(built.step, feeds)
    if program.steps:
        for number, value in enumerate(running.run(built.weights)):
            yielded[f"weights {number}"] = [np.asarray(value, np.float64)]
    return {name: np.stack(values) for name, values in yielded.items()}


def distance(found, expected):
    """The largest difference as a share of the largest value, by name; infinite if not finite."""
    far = {}
    for name, value in found.items():
        difference = np.abs(value - expected[name]).max()
        size = max(np.abs(expected[name]).max(), SMALLEST)
        if name == "loss":  # If terms cancel, the error is a share of the terms.
            size = max(size, expected["terms"].max())
        if name == "count":  # A difference of one iteration is no error.
            difference = max(difference - 1, 0)
        far[name] = difference / size if np.isfinite(value).all() else np.inf
    return far


def conditioned(program, built):
    """float32's results, and how far rounded inputs move them, by mode and name.

    Only modes in which the program is well conditioned are included: none, if float32's values are
    too large or its loop does not end.
    """
    fetches = {
        **built.results,
        "terms": built.terms,
        "largest gradient": built.largest_gradient,
    }
    moved = {}
    with session(built) as running:
        expected = run(built, program, running, built.feeds(), fetches)
        limits = {"count": MOST_ITERATIONS / 2, "largest gradient": LARGEST_GRADIENT}
        if not all(np.abs(expected[name]).max() < limits.get(name, LARGEST) for name in expected):
            return expected, moved
        for mode, unit in UNIT.items():
            largest = collections.Counter()
            for draw in range(DRAWS):
                feeds = built.feeds(unit, draw)
                far = distance(run(built, program, running, feeds, built.results), expected)
                largest |= collections.Counter(far)
            if max(largest.values(), default=0) <= MOST_MOVED:
                moved[mode] = largest
    return expected, moved


def failure(program, modes=tuple(UNIT), told=None):
    """The error of a program in a mode, or None; counts the modes that can be judged."""
    built = BuiltProgram(program)
    expected, moved = conditioned(program, built)
    for mode in modes:
        low = "allow_mix_precision" if mode == "force_fp16" else mode
        if low not in moved:
            continue
        if told is not None:
            told[mode] += 1
        with session(built, mode) as running:
            found = run(built, program, running, built.feeds(), built.results)
        for name, far in distance(found, expected).items():
            limit = UNITS * UNIT[low] + TIMES * moved[low][name]
            if far > limit:
                return f"{mode}: {name} is {far:.2g} off, rounded inputs {moved[low][name]:.2g}"
    return None


# By case: whether there are loops, whether there is training, and the number of programs in the
# full tier.
CASES = {
    "losses": (False, False, 100),
    "loops": (True, False, 60),
    "many losses": (False, False, 500),
    "many loops": (True, False, 300),
    "training of losses": (False, True, 300),
    "training with loops": (True, True, 80),
}


@pytest.mark.parametrize("case", mostly_full(CASES, ["losses", "loops"]))
def test_random_programs_end_where_float32_ends(case):
    loops, trains, count = CASES[case]
    told = collections.Counter()

    @corpus_settings(count)
    @given(program=programs(loops, trains))
    def check(program):
        found = failure(program, told=told)
        assert found is None, found

    check()
    # Most programs can be judged, in both modes.
    assert min(told[mode] for mode in UNIT) >= corpus_size(count) / 2


# In a row of zeros, the soft argmax is exactly in the centre.
NEAR_THE_CENTRE = (
    "div",
    ("soft_argmax", ("mul", ("p",), ("t",))),
    ("add_sum", ("square", ("mul", ("p",), ("t",))), 1e-12),
)
PLAIN = Program(1.0, 1, "sigmoid", True, ("p",), "mean", None, 0, 0)


@pytest.mark.parametrize(
    "changed",
    [
        {"loss": ("log", ("add", ("t",), 1e-12))},
        {"loop": Loop("max", 0.01, "clock", 600, inside=False, form="while")},
        {"loop": Loop("sum", 0.01, "count", 600, inside=True, form="scan")},
        {"loop": Loop("decay", 0.01, "count", 600, inside=False, form="unrolled")},
        {"loss": ("centre", ("p",), -700.0)},
        {"loss": ("layer_norm", ("p",), -700.0)},
        {"loss": ("one_minus_cosine", ("p",), ("p",))},
        {"loss": NEAR_THE_CENTRE},
        {"inner_steps": 4},
    ],
    ids=[
        *("guard", "clock", "sum", "unrolled", "centre", "layer norm", "cosine"),
        *("soft argmax", "inner steps"),
    ],
)
def test_what_a_mode_without_our_rules_breaks_is_noticed(changed):
    program = dataclasses.replace(PLAIN, **changed)
    assert failure(program, ["force_fp16"]) is not None
    assert failure(program) is None
