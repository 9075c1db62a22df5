"""An effect that a node waits for only through a constant still happens.

TensorFlow 1 gives a constant that is made in a scope of control dependencies the control inputs,
and the node that reads it none.
"""

from __future__ import annotations

import collections
import random

import numpy as np
import pytest
import tensorflow as tf
from support.check_rewrite import check_rewrite
from support.loop_text import counter
from support.random_layers import random_network
from support.strict_zip import strict_zip
from tensorflow.core.framework import graph_pb2

import npu_precision

tf1 = tf.compat.v1
OPTIONS = npu_precision.PrecisionOptions(precision_mode="allow_mix_precision_bf16")
EFFECTS = 70  # more than the analysis compares at once
SEEDS, SEEDS_OF_A_TEST = 60, 20


def padded(x, scope):
    with scope():
        amounts = tf.constant([[0, 0], [1, 1], [1, 1], [0, 0]])
    return tf.nn.conv2d(tf.pad(x, amounts), np.ones([3, 3, 4, 4], np.float32), 2, "VALID")


def pooled(x, scope):
    with scope():
        axes = tf.constant([1, 2])
    return tf.reduce_mean(tf.nn.conv2d(x, np.ones([1, 1, 4, 4], np.float32), 1, "SAME"), axes)


def leaky(x, scope):
    with scope():
        slope = tf.constant(0.2)
    product = tf.nn.conv2d(x, np.ones([1, 1, 4, 4], np.float32), 1, "SAME")
    return tf.maximum(product, slope * product)


def behind_identities(x, scope):
    with scope():
        axes = tf.constant([1, 2])
    for _ in range(3):
        axes = tf.identity(axes)
    return tf.reduce_mean(x, axes)


def identity_waits(x, scope):
    axes = tf.constant([1, 2])
    with scope():
        axes = tf.identity(axes)
    return tf.reduce_mean(x, axes)


def added_up(x, scope):
    with scope():
        axes = tf.constant([0, 1, 2])
    return tf.reduce_sum(tf.cast(tf.cast(x, tf.bfloat16), tf.float32), axes)


PROGRAMS = [padded, pooled, leaky, behind_identities, identity_waits, added_up]


@pytest.mark.parametrize("mode", ["allow_mix_precision", "allow_mix_precision_bf16"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_session_runs_the_update_that_only_a_constant_waits_for(program, mode):
    with tf.Graph().as_default():
        count = tf1.get_variable("count", initializer=0.0)
        x = tf1.placeholder(tf.float32, [2, 6, 6, 4])
        update = count.assign_add(1.0)
        end = program(x, lambda: tf.control_dependencies([update]))
        with tf1.Session(config=npu_precision.npu_config_proto(precision_mode=mode)) as session:
            session.run(count.initializer)
            session.run(end, {x: np.ones([2, 6, 6, 4])})
            assert session.run(count) == 1


def fuses(lines):
    """Whether the convolution pads its image by itself; `amounts` are of a Pad before it."""
    text = f"""
        given = Placeholder(shape=2x6x6x4)
        which = Placeholder[bool](shape=scalar)
        effect = Print(given, given)
        w = Const(shape=3x3x4x4)
        {lines}
        pad = Pad(x, amounts)
        conv = Conv2D(pad, w, strides=[1, 2, 2, 1], padding=VALID)
        end = Softmax(conv)
        """
    result = check_rewrite(text, None, run=False, pad_into_convolutions=True)
    return "pad" not in {node.name for node in result.graph.node}


def amounts(inputs):
    return f"amounts = Const[int32]({inputs}value=[[0, 0], [1, 1], [1, 1], [0, 0]])"


PLAIN, WAITS = amounts(""), amounts("^effect, ")
LOOP = """
    {counter}
    enter = Enter(given, frame_name=loop)
    merge = Merge(enter, next)
    switch = Switch(merge, cond)
    v_enter = Enter(given, frame_name=loop)
    v = Merge(v_enter, v_next)
    v_switch = Switch(v, cond)
    v_next = NextIteration(v_switch:1)
    pivot = Identity({pivot})
    x = Identity(switch:1)
    turn = {op}(switch:1{more})
    next = NextIteration(turn)
    """


def loop(op, pivot, *more):
    body = LOOP.format(counter=counter(3), op=op, pivot=pivot, more="".join(more))
    return body + amounts("^pivot, ")


@pytest.mark.parametrize(
    "lines",
    {
        "nothing waits": f"x = Exp(given)\n{PLAIN}",
        "no effect": f"x = Exp(given)\n{amounts('^which, ')}",
        "a constant": f"x = Exp(given)\n{amounts('^w, ')}",
        "the image waits": f"x = Exp(given, ^effect)\n{WAITS}",
        "the image comes of the effect": f"before = Exp(effect)\nx = Exp(before)\n{WAITS}",
        "both branches wait": f"""
            a = Exp(given, ^effect)
            b = Exp(effect)
            of = Switch(a, which)
            other = Switch(b, which)
            x = Merge(of:0, other:1)
            {WAITS}
            """,
        "a branch": f"""
            late = LogicalNot(which, ^effect)
            of = Switch(given, late)
            pivot_of = Switch(late, late)
            pivot = Identity(pivot_of:1)
            x = Exp(of:1)
            {amounts("^pivot, ")}
            """,
        "a loop": loop("Print", "i_switch:1", ", switch:1"),
        "a loop without effects": loop("Exp", "v_switch:1"),
    }.items(),
    ids=lambda case: case[0],
)
def test_a_constant_that_adds_no_wait_is_taken(lines):
    assert fuses(lines[1])


@pytest.mark.parametrize(
    "lines",
    {
        "an effect": f"x = Exp(given)\n{WAITS}",
        "what comes after it": f"late = Exp(effect)\nx = Exp(given)\n{amounts('^late, ')}",
        "what waits for it": f"late = Exp(given, ^effect)\nx = Exp(given)\n{amounts('^late, ')}",
        "behind a copy": f"x = Exp(given)\n{WAITS.replace('amounts', 'of')}\n"
        "amounts = Identity[int32](of)",
        "another reader": f"x = Exp(given, ^effect)\n{WAITS}\nother = Pad(given, amounts)\n"
        "sum = Sum(other, w)",
        "one of two effects": f"two = Print(given, given)\nx = Exp(given, ^effect)\n"
        f"{amounts('^effect, ^two, ')}",
        "one branch waits": f"""
            a = Exp(given, ^effect)
            of = Switch(a, which)
            other = Switch(given, which)
            x = Merge(of:0, other:1)
            {WAITS}
            """,
        "earlier iterations": loop("Exp", "v_switch:1").replace(
            "v_next = NextIteration(v_switch:1)",
            "late = Print(v_switch:1, v_switch:1)\nv_next = NextIteration(late)",
        ),
    }.items(),
    ids=lambda case: case[0],
)
def test_a_constant_that_alone_waits_stays(lines):
    assert not fuses(lines[1])


def with_effects(graph_def, seed):
    """The graph with effects that some of its constants, and some other nodes, wait for."""
    draw = random.Random(seed)
    result = graph_pb2.GraphDef()
    result.CopyFrom(graph_def)
    names = [f"effect{k}" for k in range(EFFECTS)]
    for node in result.node:
        share = 0.5 if node.op == "Const" else 0.05
        if draw.random() < share and node.op != "Placeholder":
            node.input.append(f"^{draw.choice(names)}")
    with tf.Graph().as_default() as graph:
        variable = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[], name="effects")
        for name in names:
            tf.raw_ops.AssignAddVariableOp(resource=variable, value=1.0, name=name)
    result.MergeFrom(graph.as_graph_def())
    return result


def effects_before(graph_def, fetches):
    """The effects that each of the fetches waits for."""
    nodes = {node.name: node for node in graph_def.node}
    effects = {node.name for node in graph_def.node if node.op == "AssignAddVariableOp"}
    return [effects & with_all_before(nodes, fetch) for fetch in fetches]


def with_all_before(nodes, name):
    found, left = {name}, [name]
    while left:
        for tensor in nodes[left.pop()].input:
            producer = tensor.lstrip("^").split(":")[0]
            if producer not in found:
                found.add(producer)
                left.append(producer)
    return found


@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_OF_A_TEST))
def test_each_fetch_waits_for_all_that_it_waited_for(first):
    written = collections.Counter()
    for seed in range(first, first + SEEDS_OF_A_TEST):
        network = random_network(seed)
        given = with_effects(network.graph_def, seed)
        after, ledger = npu_precision.rewrite_graph_def(given, network.fetches, options=OPTIONS)
        now = effects_before(after, network.fetches)
        for then, late in strict_zip(effects_before(given, network.fetches), now):
            assert then <= late, f"seed {seed}"
        written.update(entry.by for entry in ledger.rewrites)
    assert len(written) > 3, written
