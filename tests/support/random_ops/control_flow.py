"""TensorFlow 1 loops: Enter, Merge, Switch, LoopCond, NextIteration and Exit.

A loop counts to a small constant. Besides the counter it has variables of four kinds: one whose
next value a body of random ops computes; one that each iteration only adds to; one that does not
change; and an array or a list that each iteration writes. Everything else that the body reads
enters as a constant.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from support.graph_builder import BOOL, F32, I32, Frame, Tensor, UnfitError, result
from support.random_ops import handles
from support.random_ops.common import fit

MOST_FRAMES = 2


@dataclasses.dataclass(frozen=True)
class Variable:
    """A loop variable: its Merge and Switch, and its value in the body."""

    merge: Tensor
    switch: Tensor
    value: Tensor


def begin(b, trips):
    """Opens a loop; returns its LoopCond and the number of the iteration."""
    ends = [
        b.add(
            "Const", [], result(I32, (), 0, 0), readable=0, dtype=I32, value=np.array(end, np.int32)
        )
        for end in (0, 1, trips)
    ]
    frame = Frame(f"{b.function}frame_{len(b.graph_def.node)}", b.random.choice([1, 10]))
    b.frames.append(frame)
    b.trips[frame.name] = trips
    start = b.enter(ends[0], is_constant=False)
    one, end = b.enter(ends[1]), b.enter(ends[2])
    counter = result(I32, (), 0, trips)
    merge, _ = b.flow("Merge", [start, start], counter, counter, N=2, T=I32)
    less = b.flow("Less", [merge, end], result(BOOL, (), 0, 1), T=I32)
    condition = b.flow("LoopCond", [less], result(BOOL, (), 0, 1))
    i = variable(b, merge, condition)
    frame.pivot = b.flow("Identity", [i.value], counter, T=I32)
    following = b.flow("AddV2", [frame.pivot, one], counter, T=I32)
    turn(b, i, following)
    return condition, frame.pivot


def variable(b, merge, condition):
    outputs = [merge.like(), merge.like()]
    leaving, staying = b.flow("Switch", [merge, condition], *outputs, T=merge.dtype)
    b.frames[-1].switches.add(leaving.input)
    b.frames[-1].dying.add(leaving.input)
    return Variable(merge, leaving, staying)


def enter_variable(b, start, condition, low, high):
    """A variable that starts as a tensor and stays in an interval."""
    entered = b.enter(start, is_constant=False)
    made = start.like(low=low, high=high)
    merge, _ = b.flow("Merge", [entered, entered], made, result(I32, (), 0, 1), N=2, T=start.dtype)
    return variable(b, merge, condition)


def turn(b, loop_variable, following):
    """Sets the variable's next value to a tensor, which must be dead when the loop is over."""
    assert following.name.partition(":")[0] in b.frames[-1].dying
    merge = loop_variable.merge
    following_value = b.flow("NextIteration", [following], merge.like(), T=merge.dtype)
    (node,) = [n for n in b.graph_def.node if n.name == merge.input]
    node.input[1] = following_value.input


def squashed(b, x, low, high):
    """x, or some function of it, that is in the interval and dead when its loop is over."""
    dying = not b.frames or x.name.partition(":")[0] in b.frames[-1].dying
    if dying and low <= x.low and x.high <= high:
        return x
    op = b.random.choice(["Tanh", "Softsign", "Sin"])
    controls = handles.after(b.frames[-1].pivot) if b.frames else []
    return b.flow(op, [x, *controls], x.like(low=-1, high=1), T=F32)


def body_of(b, makers, names):
    """Adds some random ops."""
    end = len(b.graph_def.node) + b.random.randint(2, 12)
    for _ in range(30):
        if len(b.graph_def.node) >= end:
            return
        try:
            makers[b.random.choice(names)](b)
        except UnfitError:
            continue


def loop_maker(makers, names):
    """A maker of loops whose bodies are made by the named makers."""

    def loop(b):
        fit(len(b.frames) < MOST_FRAMES)
        start = b.pick(where=lambda tensor: tensor.bound <= 6)
        invariants = [b.pick() for _ in range(b.random.randint(1, 3))]
        if b.chance(0.5):
            invariants.append(b.pick(b.random.choice([I32, BOOL, F32])))
        passed = b.pick() if b.chance(0.4) else None
        trips = b.random.choice([1, 2, 2, 3])
        rows = handles.rows_to_read(b, trips) if b.chance(0.4) else None
        written = handles.Written(b, start.like(low=-2, high=2), trips) if b.chance(0.4) else None
        outer = b.tensors

        condition, number = begin(b, trips)
        bound = max(start.bound, 1.0)
        moving = enter_variable(b, start, condition, -bound, bound)
        total = enter_variable(b, start, condition, -8, 8) if b.chance(0.5) and bound <= 2 else None
        b.tensors = [moving.value, number]
        if passed is not None:
            kept = enter_variable(b, passed, condition, passed.low, passed.high)
            value = kept.value
            if b.chance(0.7):
                value = b.flow("Identity", [value], value.like(), T=F32)
            turn(b, kept, value)
            b.tensors.append(value)
        b.tensors += [b.enter(tensor) for tensor in invariants]
        if rows is not None:
            rows(number)
        if b.chance(0.5):
            b.add("Identity", [moving.value], moving.value.like(), T=F32)
        body_of(b, makers, names)

        turn(b, moving, squashed(b, like_variable(b, moving), -bound, bound))
        if total is not None:
            term = squashed(b, like_variable(b, moving), -2, 2)
            sum_of = [total.value, term] if b.chance(0.7) else [term, total.value]
            turn(b, total, b.flow("AddV2", sum_of, term.like(low=-8, high=8), T=F32))
        if written is not None:
            value = squashed(b, like_variable(b, moving), -2, 2)
            state = enter_variable(b, written.start, condition, 0, 0)
            turn(b, state, written.write(number, state.value, value))
        b.frames.pop()
        b.tensors = outer
        for ended in (moving, total):
            if ended is not None:
                leave(b, ended)
        if written is not None:
            written.all(leave(b, state, offered=False))
        if passed is not None and b.chance(0.5):
            leave(b, kept)

    return loop


def leave(b, loop_variable, offered=True):
    """The variable's last value, outside of the loop."""
    switch = loop_variable.switch
    ended = b.flow("Exit", [switch], switch.like(), T=switch.dtype)
    if offered:
        b.offer(ended)
    if b.frames:  # the inner loop must not start when the outer one is over
        b.frames[-1].dying.add(ended.input)
    return ended


def like_variable(b, moving):
    return b.pick(where=lambda tensor: tensor.shape == moving.value.shape)
