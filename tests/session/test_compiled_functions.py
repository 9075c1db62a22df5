"""Functions that XLA compiles are lowered too: wherever they are called, in a mode only."""

from __future__ import annotations

import contextlib
import logging
import threading

import numpy as np
import pytest
import tensorflow as tf
from support.products import X
from support.tf_versions import needs_compiled_functions
from tensorflow.core.framework import function_pb2
from tensorflow.python.eager import context

import npu_precision
from npu_precision import _tf_compat, autocast
from npu_precision._tf_compat import compiled_functions

tf1 = tf.compat.v1
pytestmark = needs_compiled_functions
BF16 = npu_precision.PrecisionOptions(precision_mode="allow_mix_precision_bf16")
FP16 = npu_precision.PrecisionOptions(precision_mode="allow_mix_precision_fp16")


def in_a_loop(compiled):
    @tf.function
    def step(x):
        result = tf.zeros([x.shape[0], 32])
        for _ in tf.range(3):
            result = compiled(x)
        return result

    return step


def in_a_branch(compiled):
    return tf.function(
        lambda x: tf.cond(tf.reduce_sum(x) > -1e6, lambda: compiled(x), lambda: x @ tf.eye(32))
    )


def mapped(compiled):
    return tf.function(lambda x: tf.map_fn(lambda row: compiled(row[tf.newaxis])[0], x))


def compiled_too(compiled):
    return tf.function(lambda x: compiled(x), jit_compile=True)


def in_a_compiled_loop(compiled):
    return tf.function(in_a_loop(compiled), jit_compile=True)


def in_a_compiled_branch(compiled):
    return tf.function(in_a_branch(compiled), jit_compile=True)


CALLERS = {
    "directly": lambda compiled: compiled,
    "a concrete function": lambda compiled: compiled.get_concrete_function(X),
    "from a function": lambda compiled: tf.function(lambda x: compiled(x)),
    "in a loop": in_a_loop,
    "in a branch": in_a_branch,
    "in map_fn": mapped,
    "in a compiled function": compiled_too,
    "in a compiled loop": in_a_compiled_loop,
    "in a compiled branch": in_a_compiled_branch,
}


@pytest.mark.parametrize("how", CALLERS)
@pytest.mark.parametrize("options", [BF16, FP16], ids=["bf16", "fp16"])
def test_it_is_lowered_within_a_mode_and_float32_to_the_bit_outside(
    how, options, compiled, low_type
):
    step = CALLERS[how](compiled)
    expected = "bfloat16" if options is BF16 else "float16"
    with autocast(options):
        assert low_type(step(X)) == expected
    exact = step(X)
    assert low_type(exact) == "float32"
    npu_precision.enable(options)
    assert low_type(step(X)) == expected
    with autocast(enabled=False):
        np.testing.assert_array_equal(step(X), exact)
    npu_precision.disable()
    np.testing.assert_array_equal(step(X), exact)


@pytest.mark.parametrize(
    "compile_by",
    [
        lambda weights: tf.function(
            lambda x: tf.xla.experimental.compile(lambda y: tf.matmul(y, weights), [x])[0],
            autograph=False,
        ),
        lambda weights: tf.function(
            lambda x: tf.matmul(x, weights), experimental_compile=True, autograph=False
        ),
    ],
    ids=["experimental.compile", "experimental_compile"],
)
def test_the_older_ways_to_compile_are_lowered_too(compile_by, weights, low_type):
    try:
        step = compile_by(weights)
    except TypeError:
        pytest.skip(f"TensorFlow {tf.__version__} has no experimental_compile")
    with autocast(BF16):
        assert low_type(step(X)) == "bfloat16"
    assert low_type(step(X)) == "float32"


def test_a_scope_of_ops_to_compile_is_lowered(weights, low_type):
    @tf.function
    def step(x):
        with tf.xla.experimental.jit_scope():
            return tf.matmul(x, weights)

    with autocast(BF16):
        assert low_type(step(X)) == "bfloat16"
    assert low_type(step(X)) == "float32"


def in_scope(product):
    def step(x):
        with tf.xla.experimental.jit_scope():
            return product(x)

    return step


COMPILED_BY = {
    "jit_compile": lambda product: tf.function(product, jit_compile=True),
    "within a function": lambda product: tf.function(
        lambda x: tf.function(product, jit_compile=True)(x)
    ),
    "jit_scope": in_scope,
    "experimental.compile": lambda product: lambda x: tf.xla.experimental.compile(product, [x])[0],
}


@pytest.mark.parametrize("how", COMPILED_BY)
def test_sessions_lower_it(how):
    random = np.random.default_rng(0)
    w, x = (random.normal(size=shape).astype(np.float32) for shape in ([32, 32], [4, 32]))
    with tf.Graph().as_default():
        fed = tf1.placeholder(tf.float32, [4, 32])
        result = tf.identity(COMPILED_BY[how](lambda x: tf.matmul(x, w))(fed))
        errors = []
        for config in (None, npu_precision.npu_config_proto(precision_mode=BF16.precision_mode)):
            with tf1.Session(config=config) as session:
                errors.append(np.abs(session.run(result, {fed: x}) - x @ w).max())
    assert errors[0] < 1e-4
    assert 1e-2 < errors[1] < 0.2


def gradients(step, weights):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(step(X) ** 2)
    return tape.gradient(loss, weights)


def test_gradients_by_a_tape_around_it_are_lowered(compiled, weights):
    exact = gradients(compiled, weights)
    with autocast(BF16):
        lowered = gradients(compiled, weights)
    largest = np.abs(exact).max()
    assert 1e-4 * largest < np.abs(lowered - exact).max() < 2e-2 * largest
    np.testing.assert_array_equal(gradients(compiled, weights), exact)


def test_gradients_by_a_tape_within_it_are_lowered(weights):
    @tf.function(jit_compile=True)
    def step():
        return gradients(lambda x: tf.matmul(x, weights), weights)

    exact = step()
    with autocast(BF16):
        lowered = step()
    largest = np.abs(exact).max()
    assert 1e-4 * largest < np.abs(lowered - exact).max() < 2e-2 * largest


def test_a_custom_gradient_is_the_users_own(weights):
    @tf.custom_gradient
    def doubled(x):
        return tf.matmul(x, weights), lambda dy, variables=None: (2.0 * dy, [None])

    @tf.function(jit_compile=True)
    def step(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(doubled(x))
        return tape.gradient(loss, x)

    with autocast(BF16):
        np.testing.assert_array_equal(step(X), np.full_like(X, 2.0))


def test_each_shape_is_lowered(compiled, weights):
    with autocast(BF16):
        for rows in (1, 3, 4):
            x = tf.ones([rows, 32])
            error = np.abs(compiled(x) - tf.matmul(x, weights)).max()
            assert 1e-5 < error < 0.2


@pytest.mark.parametrize("name", ["call", "Call", "call_"])
def test_an_argument_may_have_any_name(name, weights, low_type):
    step = tf.function(
        eval(f"lambda {name}: tf.matmul({name}, weights)", {"tf": tf, "weights": weights}),
        jit_compile=True,
        autograph=False,
    )
    with autocast(BF16):
        assert low_type(step(X)) == "bfloat16"


def test_random_numbers_of_a_constant_seed_are_those_of_float32(weights):
    """XLA draws other numbers from a seed than TensorFlow's kernels."""

    @tf.function(jit_compile=True)
    def step(x):
        normal = tf.random.stateless_normal([64], [1, 2])
        return tf.matmul(x, weights), normal, tf.random.stateless_uniform([64], [3, 4])

    exact = step(X)
    with autocast(BF16):
        lowered = step(X)
    assert np.abs(lowered[0] - exact[0]).max() > 1e-3
    for one, other in zip(exact[1:], lowered[1:]):
        np.testing.assert_array_equal(one, other)


def test_each_body_has_its_own_name_for_xla(weights):
    """XLA keeps what it compiled by name, for the whole process."""
    step = tf.function(
        lambda x: tf.matmul(tf.nn.relu(tf.matmul(x, weights)), weights), jit_compile=True
    )
    results = []
    for entry in ([], ["node:MatMul"], ["node:MatMul_1"]):
        with autocast(BF16, modify_mixlist={"black-list": {"to-add": entry}}):
            results.append(step(X).numpy())
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert np.abs(results[one] - results[other]).max() > 1e-3


def test_a_long_loop_without_arguments_does_not_overflow_the_stack():
    """TensorFlow computes calls of constants while it prepares a graph, on one thread."""

    @tf.function(jit_compile=True)
    def step():
        turn = tf.constant([[0.8, -0.6], [0.6, 0.8]])
        return tf.while_loop(
            lambda i, _: i < 3000, lambda i, z: (i + 1, z @ turn), (0, tf.ones([1, 2]))
        )[1]

    with autocast(BF16):
        np.testing.assert_allclose(tf.norm(step()), 2**0.5, rtol=0.1)


def test_a_variable_is_assigned_once_per_call():
    calls = tf.Variable(0.0)

    @tf.function(jit_compile=True)
    def step():
        calls.assign_add(1.0)

    for _ in range(2):
        step()
        with autocast(BF16):
            step()
    assert calls.numpy() == 4.0


def test_threads_have_their_own_modes(compiled, low_type):
    found = {}

    def call(name, scope):
        with scope:
            found[name] = [low_type(compiled(X)) for _ in range(5)]

    scopes = {
        "bfloat16": autocast(BF16),
        "float16": autocast(FP16),
        "float32": autocast(enabled=False),
    }
    threads = [threading.Thread(target=call, args=each) for each in scopes.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {name: [name] * 5 for name in scopes}


@pytest.mark.parametrize("where", ["around", "inside", "enable"])
def test_without_a_mode_a_cpu_keeps_it_in_float32_and_says_so_once(
    where, weights, low_type, caplog, monkeypatch
):
    monkeypatch.setattr(_tf_compat, "has_gpu", lambda: False)

    @tf.function(jit_compile=True)
    def compiled(x):
        with autocast() if where == "inside" else contextlib.nullcontext():
            return tf.matmul(x, weights)

    compiled.__name__ = f"compiled_{where}"
    if where == "enable":
        npu_precision.enable()
    with caplog.at_level(logging.WARNING, "npu_precision"):
        for _ in range(2):
            with autocast() if where == "around" else contextlib.nullcontext():
                assert low_type(compiled(X)) == "float32"
    messages = [record.getMessage() for record in caplog.records if "XLA" in record.getMessage()]
    assert len(messages) == 1
    assert f"does not lower the tf.function 'compiled_{where}'" in messages[0]
    with autocast(lower_compiled=True):
        assert low_type(tf.function(compiled)(X)) == "bfloat16"


def test_a_gpu_lowers_it_without_a_mode_too(compiled, low_type, monkeypatch):
    monkeypatch.setattr(_tf_compat, "has_gpu", lambda: True)
    with autocast():
        assert low_type(compiled(X)) == "float16"


def test_a_mode_is_obeyed_on_a_cpu_which_a_warning_calls_slow(compiled, caplog, monkeypatch):
    monkeypatch.setattr(_tf_compat, "has_gpu", lambda: False)
    monkeypatch.setattr(npu_precision.session.functions, "_warned", set())
    with caplog.at_level(logging.WARNING, "npu_precision"), autocast(BF16):
        compiled(X)
        tf.function(lambda x: x, jit_compile=True)(X)
    messages = (each.getMessage() for each in caplog.records if each.name == "npu_precision")
    (message,) = messages
    assert "XLA compiles the tf.function 'compiled', and is slower in a low type" in message


def test_a_function_that_is_removed_leaves_nothing_behind(compiled):
    with autocast(BF16):  # The first mode puts the hooks in place.
        compiled(X)
    current = context.context()
    function = function_pb2.FunctionDef()
    function.CopyFrom(compiled.get_concrete_function(X).function_def)
    function.signature.name += "_removed"
    name = function.signature.name
    current.add_function_def(function)
    caller = compiled_functions._caller_of(name, "_mark")
    assert current.has_function(caller)
    current.remove_function(name)
    assert not current.has_function(caller)
    assert name not in compiled_functions._callers
