"""Gradients have the scopes of their forward op, wherever they are taken."""

import pytest
import tensorflow as tf
from support.products import X

import npu_precision
from npu_precision import amp, autocast, keep_dtype_scope

FLOAT16 = npu_precision.PrecisionOptions(precision_mode="allow_mix_precision")


def test_gradients_follow_their_forward_op(weights, product):
    def gradient(scope):
        @tf.function
        def step(x):
            with tf.GradientTape() as tape:
                with scope():
                    y = product(tf.matmul(x, weights))
                loss = tf.reduce_sum(y * y)
            return tape.gradient(loss, weights)

        return step(X), step.get_concrete_function(X)

    exact, _ = gradient(lambda: autocast(enabled=False))
    lowered, _ = gradient(lambda: autocast(dtype="bfloat16"))
    error = tf.norm(lowered - exact) / tf.norm(exact)
    assert 1e-4 < error < 2e-2
    assert lowered.dtype == tf.float32


def test_the_gradient_products_of_a_marked_function_are_lowered(weights, ledgers, tmp_path):
    inner = tf.function(lambda x: tf.matmul(x, weights))

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            with autocast(dtype="bfloat16"):
                y = inner(x)
                for _ in tf.range(2):
                    y = tf.tanh(tf.matmul(y, weights))
            loss = tf.reduce_sum(y)
        return tape.gradient(loss, weights)

    npu_precision.enable(autocast_only=True, report_dir=tmp_path)
    step(X)
    products = [
        node
        for ledger in ledgers(tmp_path)
        for each in (ledger, *ledger.functions)
        for node in each.nodes
        if node.op == "MatMul"
    ]
    assert len(products) >= 4
    assert {node.decision for node in products} == {"lowered"}


def by_tape(product, x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = tf.reduce_sum(product(x) * X)
    return tape.gradient(loss, x)


def by_graph(product, x):
    return tf.gradients(tf.reduce_sum(product(x) * X), x)[0]


def recomputed(product, x):
    return by_tape(tf.recompute_grad(product), x)


def recomputed_by_graph(product, x):
    return by_graph(tf.recompute_grad(product), x)


each_way = pytest.mark.parametrize("take", [by_tape, by_graph, recomputed, recomputed_by_graph])


@each_way
@pytest.mark.parametrize(
    ("scope", "options", "dtype"),
    [
        (lambda: autocast(dtype="float16"), None, "float16"),
        (lambda: autocast(dtype="bfloat16"), FLOAT16, "bfloat16"),
        (lambda: autocast(enabled=False), FLOAT16, "float32"),
        (keep_dtype_scope, FLOAT16, "float32"),
    ],
    ids=["float16", "bfloat16", "disabled", "keep_dtype_scope"],
)
def test_a_function_that_returns_nothing_else_prunes_the_forward_op(
    take, scope, options, dtype, weights, low_type
):
    """The gradient is the product of X and the weights, and needs no value of the forward op."""

    def product(x):
        with scope():
            return tf.matmul(x, weights, transpose_b=True)

    if options is not None:
        npu_precision.enable(options)
    assert low_type(tf.function(lambda x: take(product, x))(X)) == dtype


@pytest.mark.parametrize("take", [recomputed, recomputed_by_graph])
@pytest.mark.parametrize(
    ("flags", "options", "dtype"),
    [({"dtype": "float16"}, None, "float16"), ({"enabled": False}, FLOAT16, "float32")],
    ids=["float16", "disabled"],
)
def test_a_scope_around_what_is_recomputed(take, flags, options, dtype, weights, low_type):
    @tf.function
    def step(x):
        def product(x):
            return tf.matmul(x, weights, transpose_b=True)

        with tf.GradientTape() as tape:
            tape.watch(x)
            with autocast(**flags):
                y = tf.recompute_grad(product)(x)
            loss = tf.reduce_sum(y * X)
        if take is recomputed:
            return tape.gradient(loss, x)
        return tf.gradients(loss, x)[0]

    if options is not None:
        npu_precision.enable(options)
    assert low_type(step(X)) == dtype


def test_a_gradient_of_a_gradient(weights, low_type):
    """The second derivative, with respect to what the first is multiplied by, is the product."""

    @tf.function
    def step(x, direction):
        with tf.GradientTape() as outer:
            outer.watch(direction)
            with tf.GradientTape() as inner:
                inner.watch(x)
                with autocast(dtype="float16"):
                    y = tf.matmul(x, weights)
                loss = tf.reduce_sum(y * direction)
            gradient = inner.gradient(loss, x)
            total = tf.reduce_sum(gradient * X)
        return outer.gradient(total, direction)

    assert low_type(step(tf.zeros_like(X), tf.zeros_like(X))) == "float16"


@each_way
def test_a_decorated_function(take, weights, low_type):
    @amp.float_function
    def product(x):
        return tf.matmul(x, weights, transpose_b=True)

    npu_precision.enable(FLOAT16)
    assert low_type(tf.function(lambda x: take(product, x))(X)) == "float32"
