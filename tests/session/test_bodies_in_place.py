"""What an op of a loop's or branch's body magnifies is kept where it is rounded, under XLA too.

XLA has each body as a function of its own. A rule sees the whole function with all bodies in place,
as they are where XLA does not compile.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from support.tf_versions import needs_compiled_functions, needs_function_attributes

from npu_precision import PrecisionOptions, autocast
from npu_precision.ledger import Ledger

pytestmark = needs_compiled_functions
RANDOM = np.random.default_rng(0)
POINTS = RANDOM.uniform(50, 51, size=[64, 3]).astype(np.float32)
TURN = np.linalg.qr(RANDOM.normal(size=[3, 3]))[0].astype(np.float32)
X = RANDOM.normal(size=[16, 8]).astype(np.float32)
W = RANDOM.normal(size=[8, 8]).astype(np.float32)


def farthest(points):
    """Three farthest points, from a loop: each is as far as can be from those before."""
    turned = tf.matmul(points, tf.constant(TURN), name="turned")

    def step(i, chosen, far):
        at = tf.argmax(far, output_type=tf.int32)
        far = tf.minimum(far, tf.reduce_sum(tf.square(turned - turned[at]), 1))
        return i + 1, tf.tensor_scatter_nd_update(chosen, [[i]], [at]), far

    start = (0, tf.zeros([3], tf.int32), tf.fill([64], 1e6))
    return tf.while_loop(lambda i, *_: i < 3, step, start)[1]


def surprise(x):
    """A branch magnifies what is rounded outside of it."""
    p = tf.sigmoid(tf.matmul(x, W), name="p")
    return tf.cond(tf.reduce_sum(x) > -1e9, lambda: tf.math.log(1.0 - p), lambda: p)


def surprise_in_a_case(x):
    """As surprise(), with more than two branches."""
    p = tf.sigmoid(tf.matmul(x, W), name="p")
    which = tf.cast(tf.reduce_sum(x) > 1e9, tf.int32)
    return tf.switch_case(which, [lambda: tf.math.log(1.0 - p), lambda: p, lambda: 2.0 * p])


def surprise_in_a_loop(x):
    """As surprise(), where the branch is in a loop."""
    p = tf.sigmoid(tf.matmul(x, W), name="p")

    def step(i, total):
        is_even = tf.equal(i % 2, 0)
        return i + 1, total + tf.cond(is_even, lambda: tf.math.log(1.0 - p), lambda: p)

    return tf.while_loop(lambda i, _: i < 4, step, (0, tf.zeros([16, 8])))[1]


def surprise_behind(x):
    """What a branch rounds is magnified behind it."""

    def chosen():
        return tf.sigmoid(tf.matmul(x, W), name="p")

    p = tf.cond(tf.reduce_sum(x) > -1e9, chosen, lambda: tf.zeros([16, 8]))
    return tf.math.log(1.0 - p)


PROGRAMS = {
    "turned": (farthest, POINTS),
    "p": (surprise, X),
    "p in a case": (surprise_in_a_case, X),
    "p in a loop": (surprise_in_a_loop, X),
    "cond/p": (surprise_behind, X),
}
MODES = ["allow_mix_precision_bf16", "allow_mix_precision_fp16"]


def run(program, argument, folder=None, **options):
    """The result of the compiled program, and its nodes in all ledgers."""
    step = tf.function(program, jit_compile=True)
    if not folder:
        return step(tf.constant(argument)).numpy(), []
    with autocast(PrecisionOptions(report_dir=str(folder), **options)):
        result = step(tf.constant(argument)).numpy()
    ledgers = [Ledger.from_json(path.read_text()) for path in folder.glob("*.json")]
    return result, [node for ledger in ledgers for node in ledger.nodes]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_another_body_magnifies_is_kept(name, mode, tmp_path):
    program, argument = PROGRAMS[name]
    exact, _ = run(program, argument)
    result, nodes = run(program, argument, tmp_path, precision_mode=mode)
    (node,) = (node for node in nodes if node.name == name.partition(" ")[0])
    assert (node.decision, node.reason) == ("kept", "kept_in_place")
    # What a product of 8 terms rounds is not of the kept nodes.
    np.testing.assert_allclose(result, exact, rtol=0.1, atol=0.1)


@needs_function_attributes
def test_what_a_function_with_another_implementation_for_gpus_magnifies_is_kept(tmp_path):
    """Keras' LSTM is such a function. Grappler leaves it where it is until it has chosen one."""
    attributes = {"api_implements": "a_layer", "api_preferred_device": "CPU"}

    @tf.function(experimental_attributes=attributes)
    def layer(p):
        return tf.math.log(1.0 - p)

    def step(x):
        return layer(tf.sigmoid(tf.matmul(x, W), name="p"))

    exact, _ = run(step, X)
    result, nodes = run(step, X, tmp_path, precision_mode=MODES[0])
    (node,) = (node for node in nodes if node.name == "p")
    assert (node.decision, node.reason) == ("kept", "before_magnifier")
    np.testing.assert_allclose(result, exact, rtol=0.1, atol=0.1)


@pytest.mark.parametrize("entry", ["MatMul", "node:turned"])
def test_a_mixlist_overrules_it(entry, tmp_path):
    mixlist = {"white-list": {"to-add": [entry]}}
    _, nodes = run(farthest, POINTS, tmp_path, precision_mode=MODES[0], modify_mixlist=mixlist)
    (node,) = (node for node in nodes if node.name == "turned")
    assert node.decision == "lowered"


def test_what_nothing_magnifies_is_lowered(tmp_path):
    def harmless(x):
        y = tf.matmul(x, W, name="product")
        return tf.while_loop(lambda i, _: i < 4, lambda i, z: (i + 1, tf.tanh(z @ W)), (0, y))[1]

    _, nodes = run(harmless, X, tmp_path, precision_mode=MODES[0])
    products = [node for node in nodes if node.op == "MatMul"]
    assert [node.decision for node in products] == ["lowered"] * 2
    assert "kept_in_place" not in {node.reason for node in nodes}
