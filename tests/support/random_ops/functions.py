"""Functions in the graph's library, called in every possible way.

A body is made of random ops. Constants choose the branches, and a While counts: error bounds need
to know which functions run, and how often.
"""

from __future__ import annotations

import numpy as np
from tensorflow.core.framework import attr_value_pb2

from support.graph_builder import BOOL, F32, I32, Call, result
from support.random_ops import handles
from support.random_ops.common import around_zero, fit
from support.random_ops.control_flow import body_of, squashed

MOST_FUNCTIONS = 12


def named(function):
    """The attribute that refers to a function."""
    return attr_value_pb2.AttrValue(func=attr_value_pb2.NameAttrList(name=function.function))


def call_node(b, op, inputs, results, call, **attrs):
    """A node that calls functions; its results become operands."""
    made = b.flow(op, inputs, *(tensor.like() for tensor in results), **attrs)
    made = made if isinstance(made, list) else [made]
    name = made[0].name.partition(":")[0]
    b.calls[name], b.readable[name] = call, len(made)
    for tensor in made:
        b.offer(tensor)


def types(tensors):
    return [tensor.dtype for tensor in tensors]


def finish(body, results):
    body.results = results
    body.noinline = body.chance(0.3)
    return body


def alike(b, x):
    return b.pick(where=lambda tensor: tensor.shape == x.shape)


def makers(body_makers, names):
    """Makers of calls; the named ones of `body_makers` make the bodies."""
    # TensorFlow 2.15 sometimes loses the result of a function with a TensorFlow 1 loop inside
    # ("Retval[0] does not have value"), with or without a rewrite.
    names = [name for name in names if name != "loop"] + ["repeat"]

    def room(b):
        fit(len(b.bodies) < MOST_FUNCTIONS)

    def operands(b):
        """The operands of a call; the first one is float32."""
        return [b.pick() for _ in range(b.random.randint(1, 3))]

    def call(b):
        room(b)
        arguments = operands(b)
        row = None
        if b.chance(0.3):
            x = b.pick(where=lambda tensor: tensor.shape and tensor.shape[0] > 1)
            row = x.like(shape=x.shape[1:])
            arguments.append(handles.list_of_rows(b, x))
        body = b.body(arguments)
        if row is not None:
            handles.get_item(body, body.arguments[-1], body.ints(1), row)
        body_of(body, body_makers, names)
        finish(body, [body.pick() for _ in range(b.random.randint(1, 2))])
        ops = ["PartitionedCall", "StatefulPartitionedCall"]
        if not b.function:  # TensorFlow's Python cannot read some bodies with such calls
            ops.append(body.function)
        op = b.random.choice(ops)
        attrs = {"Tin": types(arguments), "Tout": types(body.results), "f": named(body)}
        if op == body.function:
            attrs = {}
        call_node(b, op, arguments, body.results, Call([body.function]), **attrs)

    def choose(b):
        room(b)
        arguments = operands(b)
        made = arguments[0].like(low=-2, high=2)
        bodies = []
        for _ in range(2):
            body = b.body(arguments)
            body_of(body, body_makers, names)
            bodies.append(finish(body, [squashed(body, alike(body, made), -2, 2)]))
        taken = b.chance(0.5)
        chosen = np.asarray(taken)
        condition = b.flow("Const", [], result(BOOL, (), 0, 1), dtype=BOOL, value=chosen)
        attrs = {"then_branch": named(bodies[0]), "else_branch": named(bodies[1])}
        attrs.update(Tcond=BOOL, Tin=types(arguments), Tout=[F32])
        runs = Call([bodies[0 if taken else 1].function], skipped=1)
        op = b.random.choice(["If", "StatelessIf"])
        call_node(b, op, [condition, *arguments], [made], runs, **attrs)

    def repeat(b):
        room(b)
        start = b.pick(where=lambda tensor: tensor.bound <= 6)
        extras = [b.pick() for _ in range(b.random.randint(0, 2))]
        trips = b.random.choice([1, 2, 3])
        bound = max(start.bound, 1.0)
        counter = result(I32, (), 0, trips)
        zero = b.const(0, np.int32)
        state = [counter, start.like(low=-bound, high=bound), *(x.like() for x in extras)]

        condition = b.body(state)
        end = condition.const(trips, np.int32)
        less = condition.flow("Less", [condition.arguments[0], end], result(BOOL, (), 0, 1), T=I32)
        finish(condition, [less])
        body = b.body(state)
        body_of(body, body_makers, names)
        one = body.const(1, np.int32)
        following = body.flow("AddV2", [body.arguments[0], one], counter, T=I32)
        moved = squashed(body, alike(body, start), *around_zero(bound))
        finish(body, [following, moved, *body.arguments[2:]])
        attrs = {"cond": named(condition), "body": named(body), "T": types(state)}
        op = b.random.choice(["While", "StatelessWhile"])
        call_node(b, op, [zero, start, *extras], state, Call([body.function] * trips), **attrs)

    return {"call": call, "choose": choose, "repeat": repeat}
