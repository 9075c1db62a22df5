"""enable(), disable() and autocast(): precision for tf.function and Keras.

TensorFlow's tests do not cover tf.functions that are called eagerly.
"""

import threading

import numpy as np
import pytest
import tensorflow as tf
from support.tf_versions import needs_function_attributes

import npu_precision
from npu_precision import PrecisionOptions

MIXED = PrecisionOptions(precision_mode="allow_mix_precision_bf16")


@pytest.fixture(scope="module")
def weights():
    return tf.constant(np.random.default_rng(0).normal(size=[32, 32]).astype(np.float32))


@pytest.fixture
def product(weights):
    """A tf.function, and the test for whether a call of it ran in bfloat16."""

    @tf.function
    def product(x):
        return tf.matmul(x, weights)

    return product


@pytest.fixture
def is_lowered(weights):
    """Whether a call of product, or of a function with a product, computed in bfloat16."""
    x = tf.constant(np.random.default_rng(1).normal(size=[4, 32]).astype(np.float32))
    exact = tf.matmul(x, weights)

    def check(function):
        result = function(x)
        assert result.dtype == tf.float32
        error = tf.reduce_max(tf.abs(result - exact)).numpy()
        assert error < 0.2
        return error > 1e-3

    return check


def test_enabled_functions_run_lowered_until_disabled(product, is_lowered):
    assert not is_lowered(product)
    npu_precision.enable(MIXED)
    assert npu_precision.active_options() == MIXED
    assert is_lowered(product)
    npu_precision.disable()
    assert npu_precision.active_options() is None
    assert not is_lowered(product)


def test_enable_takes_fields_and_replaces_what_was_enabled(product, is_lowered):
    npu_precision.enable(precision_mode="must_keep_origin_dtype")
    assert not is_lowered(product)
    npu_precision.enable(MIXED, strict=True)
    assert npu_precision.active_options().strict is True
    assert is_lowered(product)


def test_functions_traced_before_and_after_are_both_reached(product, weights, is_lowered):
    product(tf.zeros([4, 32]))
    npu_precision.enable(MIXED)
    assert is_lowered(product)
    assert is_lowered(tf.function(lambda x: tf.matmul(x, weights)))


def test_a_function_called_by_a_function_is_reached(product, is_lowered):
    @tf.function
    def outer(x):
        return product(x) + 0.0

    outer(tf.zeros([4, 32]))
    npu_precision.enable(MIXED)
    assert is_lowered(outer)
    npu_precision.disable()
    assert not is_lowered(outer)


@needs_function_attributes
def test_a_function_that_is_not_inlined_keeps_what_was_in_force_at_tracing(weights, is_lowered):
    @tf.function(experimental_attributes={"_noinline": True})
    def inner(x):
        return tf.matmul(x, weights)

    def outer():
        return tf.function(lambda x: inner(x) + 0.0)

    traced_before = outer()
    traced_before(tf.zeros([4, 32]))
    npu_precision.enable(MIXED)
    traced_after = outer()
    assert not is_lowered(traced_before)
    assert is_lowered(traced_after)
    npu_precision.disable()
    assert is_lowered(traced_after)


def test_loops_and_branches_are_reached(product, is_lowered):
    @tf.function
    def looped(x):
        y = tf.zeros_like(x)
        for _ in tf.range(3):
            if tf.reduce_sum(x) > 1e6:
                y = x
            else:
                y = product(x)
        return y

    npu_precision.enable(MIXED)
    assert is_lowered(looped)


def test_a_thread_that_called_functions_before_is_reached(product, is_lowered):
    results = []
    enabled, called = threading.Event(), threading.Event()

    def work():
        results.append(is_lowered(product))
        called.set()
        enabled.wait(60)
        results.append(is_lowered(product))

    thread = threading.Thread(target=work)
    thread.start()
    called.wait(60)
    npu_precision.enable(MIXED)
    enabled.set()
    thread.join()
    assert results == [False, True]


def test_options_that_tensorflow_is_given_later_do_not_undo_it(product, is_lowered):
    before = tf.config.optimizer.get_experimental_options()
    npu_precision.enable(MIXED)
    try:
        tf.config.optimizer.set_experimental_options({"constant_folding": False})
        assert is_lowered(product)
        with npu_precision.autocast(enabled=False):
            tf.config.optimizer.set_experimental_options({"constant_folding": True})
            assert not is_lowered(product)
    finally:
        tf.config.optimizer.set_experimental_options({"constant_folding": True, **before})


def test_optimizers_switched_off_altogether_are_an_error_not_float32(product):
    npu_precision.enable(MIXED)
    try:
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
        with pytest.raises(ValueError, match="disable_meta_optimizer"):
            product(tf.zeros([4, 32]))
    finally:
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": False})


def test_autocast_is_a_scope(product, is_lowered):
    with npu_precision.autocast(MIXED) as scope:
        assert isinstance(scope, npu_precision.autocast)
        assert is_lowered(product)
    assert not is_lowered(product)


def test_autocast_scopes_nest_and_can_switch_off(product, is_lowered):
    npu_precision.enable(precision_mode="must_keep_origin_dtype")
    with npu_precision.autocast(MIXED):
        assert is_lowered(product)
        with npu_precision.autocast(enabled=False):
            assert npu_precision.active_options() is None
            assert not is_lowered(product)
            with npu_precision.autocast(MIXED):
                assert is_lowered(product)
        assert is_lowered(product)
    assert npu_precision.active_options().precision_mode == "must_keep_origin_dtype"


def test_autocast_restores_after_an_exception(product, is_lowered):
    with pytest.raises(KeyError), npu_precision.autocast(MIXED):
        raise KeyError
    assert not is_lowered(product)


def test_autocast_decorates_functions_and_tf_functions(product, is_lowered):
    @npu_precision.autocast(MIXED)
    def python_function(x):
        """Its docstring stays."""
        return product(x)

    assert is_lowered(python_function)
    assert python_function.__doc__ == "Its docstring stays."
    assert is_lowered(npu_precision.autocast(MIXED)(product))
    assert not is_lowered(product)


def test_one_autocast_can_be_entered_again(product, is_lowered):
    scope = npu_precision.autocast(MIXED)
    with scope, scope:
        assert is_lowered(product)
    assert not is_lowered(product)
    with scope:
        assert is_lowered(product)


def test_autocast_is_of_its_own_thread(product, is_lowered):
    results = []
    with npu_precision.autocast(MIXED):
        thread = threading.Thread(target=lambda: results.append(is_lowered(product)))
        thread.start()
        thread.join()
        assert is_lowered(product)
    assert results == [False]


def test_enable_in_graph_mode_says_what_to_use():
    with tf.Graph().as_default(), pytest.raises(RuntimeError, match="npu_config_proto"):
        npu_precision.enable(MIXED)


@pytest.mark.parametrize("switch", [npu_precision.enable, npu_precision.autocast])
def test_wrong_options_are_refused_at_once(switch):
    with pytest.raises(ValueError, match="did you mean 'allow_mix_precision'"):
        switch(precision_mode="allow_mix_precison")
    with pytest.raises(TypeError, match="did you mean 'precision_mode'"):
        switch(precison_mode="allow_mix_precision")
    with pytest.raises(TypeError, match="expected PrecisionOptions"):
        switch("allow_mix_precision")
    assert npu_precision.active_options() is None


def test_a_failed_enable_leaves_what_was_enabled():
    npu_precision.enable(MIXED)
    with pytest.raises(ValueError, match="target"):
        npu_precision.enable(target="nowhere")
    assert npu_precision.active_options() == MIXED


def test_lowered_ops_still_fuse_with_bias_and_activation(ledgers, tmp_path):
    @tf.function
    def layer(x, weights, bias):
        return tf.nn.relu(tf.nn.bias_add(tf.matmul(x, weights), bias))

    with npu_precision.autocast(MIXED, report_dir=tmp_path):
        layer(tf.ones([4, 8]), tf.ones([8, 16]), tf.ones([16]))
    ops = {node.op for ledger in ledgers(tmp_path) for node in ledger.nodes}
    # Each op was still a separate node when the decisions were made.
    assert {"MatMul", "BiasAdd", "Relu"} <= ops


@pytest.mark.slow
def test_keras_fits_evaluates_and_predicts_in_mixed_precision(ledgers, tmp_path):
    random = np.random.default_rng(0)
    x = random.normal(size=[64, 8]).astype(np.float32)
    y = x.sum(1, keepdims=True) * 0.1
    model = tf.keras.Sequential(
        [tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)]
    )
    model.compile("adam", "mse")

    def run_reported(name, call):
        with npu_precision.autocast(MIXED, report_dir=tmp_path / name):
            result = call()
        lowered = [
            node
            for ledger in ledgers(tmp_path / name)
            for node in ledger.nodes
            if node.decision == "lowered" and "MatMul" in node.op
        ]
        assert lowered, f"nothing was lowered in {name}"
        return result

    history = run_reported("fit", lambda: model.fit(x, y, epochs=5, verbose=0)).history["loss"]
    assert history[-1] < history[0]
    loss = run_reported("evaluate", lambda: model.evaluate(x, y, verbose=0))
    prediction = run_reported("predict", lambda: model.predict(x, verbose=0))
    assert prediction.dtype == np.float32
    assert np.mean((prediction - y) ** 2) == pytest.approx(loss, rel=0.05)
    assert all(weight.dtype == np.float32 for weight in model.get_weights())


def test_gradients_through_a_lowered_function_are_float32_and_close(product, weights):
    x = tf.constant(np.random.default_rng(1).normal(size=[4, 32]).astype(np.float32))

    @tf.function
    def loss(x):
        return tf.reduce_sum(product(x) ** 2)

    def gradient():
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = loss(x)
        return tape.gradient(value, x)

    exact = gradient()
    with npu_precision.autocast(MIXED):
        lowered = gradient()
    assert lowered.dtype == tf.float32
    difference = tf.norm(lowered - exact) / tf.norm(exact)
    assert 0 < difference < 2e-2
