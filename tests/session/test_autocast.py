"""autocast() inside functions, where users of PyTorch write it."""

import numpy as np
import pytest
import tensorflow as tf
from support.products import X
from support.tf_versions import needs_train_step

import npu_precision
from npu_precision import autocast, keep_dtype_scope

BF16 = npu_precision.PrecisionOptions(precision_mode="allow_mix_precision_bf16")


def test_a_scope_in_a_function_lowers_its_ops_alone_from_the_first_call_on(weights, low_type):
    @tf.function
    def step(x):
        with autocast(dtype="bfloat16"):
            inside = tf.matmul(x, weights)
        return inside, tf.matmul(x, weights)

    for _ in range(2):
        inside, outside = step(X)
        assert (low_type(inside), low_type(outside)) == ("bfloat16", "float32")


@pytest.mark.parametrize("dtype", ["float16", tf.float16, np.float16, tf.bfloat16])
def test_the_dtype_may_be_a_name_or_an_object(dtype, weights, low_type):
    @tf.function
    def step(x):
        with autocast(dtype=dtype):
            return tf.matmul(x, weights)

    assert low_type(step(X)) == tf.as_dtype(dtype).name


def test_scopes_nest(product, low_type):
    @tf.function
    def step(x):
        with autocast(dtype="bfloat16"):
            before = product(x)
            with autocast(enabled=False):
                off = product(x)
                with autocast(dtype="float16"):
                    half = product(x)
            with keep_dtype_scope():
                kept = product(x)
            return before, off, half, kept, product(x)

    found = [low_type(result) for result in step(X)]
    assert found == ["bfloat16", "float32", "float16", "float32", "bfloat16"]


def test_functions_branches_and_loop_bodies_inherit_the_scope(product, weights, low_type):
    product(X)  # Traced without a scope; a call in a scope traces it again.

    @tf.function
    def step(x):
        with autocast(dtype="bfloat16"):
            if tf.reduce_sum(x) > -1e9:
                branch = tf.matmul(x, weights)
            else:
                branch = x
            loop = x
            for _ in tf.range(1):
                loop = tf.matmul(x, weights)
            return product(x), branch, loop

    assert {low_type(result) for result in step(X)} == {"bfloat16"}
    assert low_type(product(X)) == "float32"


def test_the_scope_goes_on_in_a_function_after_another_one_within(product, weights, low_type):
    @tf.function
    def inner(x):
        with keep_dtype_scope():
            kept = tf.matmul(x, weights)
        return kept, tf.matmul(x, weights)

    @tf.function
    def step(x):
        with autocast(dtype="bfloat16"):
            return inner(x)

    assert [low_type(result) for result in step(X)] == ["float32", "bfloat16"]


def test_keep_dtype_scope_reaches_them_too(product, weights, low_type):
    @tf.function
    def step(x):
        outside = product(x)
        with keep_dtype_scope():
            loop = x
            for _ in tf.range(1):
                loop = tf.matmul(x, weights)
            return outside, product(x), loop

    with autocast(BF16):
        assert [low_type(result) for result in step(X)] == ["bfloat16", "float32", "float32"]


def test_a_decorator_inside_and_outside_of_tf_function(weights, low_type):
    def body(x):
        """Its docstring stays."""
        if tf.reduce_sum(x) > -1e9:  # AutoGraph must see it.
            return tf.matmul(x, weights)
        return x

    inside = tf.function(autocast(dtype="bfloat16")(body))
    outside = autocast(dtype="bfloat16")(tf.function(body))
    assert inside.__doc__ == outside.__doc__ == "Its docstring stays."
    assert low_type(inside(X)) == low_type(outside(X)) == "bfloat16"


def test_a_decorated_method_with_a_signature_is_bound(weights, low_type):
    class Module(tf.Module):
        def __init__(self):
            super().__init__()
            self.weights = weights

        @autocast(dtype="bfloat16")
        @tf.function(input_signature=[tf.TensorSpec([None, 32], tf.float32)])
        def above(self, x):
            return tf.matmul(x, self.weights)

        @tf.function(input_signature=[tf.TensorSpec([None, 32], tf.float32)])
        @autocast(dtype="bfloat16")
        def below(self, x):
            return tf.matmul(x, self.weights)

    module = Module()
    assert low_type(module.above(X)) == low_type(module.below(X)) == "bfloat16"
    assert module.above.get_concrete_function() is not None


@pytest.mark.parametrize("scope", [keep_dtype_scope, lambda: autocast(enabled=False)])
def test_sums_that_grappler_would_merge_stay_in_the_scope(scope, weights):
    @tf.function
    def step(x):
        y = tf.matmul(x, weights)
        with scope():
            return y, tf.exp(-tf.abs(y + x + 1.0))

    with autocast(BF16):
        y, result = step(X)
    np.testing.assert_allclose(result, np.exp(-np.abs((y.numpy() + X.numpy()) + 1.0)), rtol=1e-5)


def test_sums_that_grappler_would_merge_are_lowered_in_the_scope(weights, ledgers, tmp_path):
    @tf.function
    def step(x):
        with autocast(dtype="bfloat16"):
            y = tf.matmul(x, weights)
            return tf.nn.relu(y + tf.matmul(-x, weights) + tf.matmul(y, weights))

    npu_precision.enable(autocast_only=True, report_dir=tmp_path)
    step(X)
    (ledger,) = ledgers(tmp_path)
    sums = [node for node in ledger.nodes if node.op in ("AddV2", "Add", "AddN")]
    assert {node.decision for node in sums} == {"lowered"}


def test_a_keras_call(weights, low_type):
    class Product(tf.keras.layers.Layer):
        def call(self, x):
            with autocast(dtype="bfloat16"):
                return tf.matmul(x, weights)

    model = tf.keras.Sequential([Product()])
    assert low_type(tf.constant(model.predict(X, verbose=0))) == "bfloat16"


@needs_train_step
def test_a_keras_train_step(ledgers, tmp_path):
    class Model(tf.keras.Sequential):
        def train_step(self, data):
            x, y = data
            with tf.GradientTape() as tape:
                with autocast(dtype="bfloat16"):
                    prediction = self(x, training=True)
                loss = tf.reduce_mean((prediction - y) ** 2)
            gradients = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
            return {"loss": loss}

    model = Model([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)])
    model.compile("sgd")
    npu_precision.enable(autocast_only=True, report_dir=tmp_path)
    x = X.numpy()
    y = x.sum(1, keepdims=True) * 0.1
    model(X)  # builds it
    before = np.mean((model(X) - y) ** 2)
    model.fit(x, y, epochs=3, verbose=0)
    assert np.mean((model(X) - y) ** 2) < before
    products = [
        node
        for ledger in ledgers(tmp_path)
        for each in (ledger, *ledger.functions)
        for node in each.nodes
        if node.op in ("MatMul", "_FusedMatMul") and node.reason != "outside_autocast"
    ]
    assert len(products) >= 4  # two forward, and those of their gradients
    assert {node.decision for node in products} == {"lowered"}


def test_a_scope_around_the_call_does_not_win_over_one_inside(weights, low_type):
    @tf.function
    def step(x):
        with autocast(dtype="bfloat16"):
            inside = tf.matmul(x, weights)
        with autocast(enabled=False):
            off = tf.matmul(x, weights)
        return inside, off, tf.matmul(x, weights)

    with autocast(dtype="float16"):
        found = [low_type(result) for result in step(X)]
    assert found == ["bfloat16", "float32", "float16"]
    with autocast(enabled=False):
        assert low_type(step(X)[0]) == "bfloat16"


def test_marks_survive_a_saved_model_and_are_used_by_convert(weights, tmp_path, low_type):
    module = tf.Module()
    module.weights = weights

    @tf.function(input_signature=[tf.TensorSpec([4, 32], tf.float32)])
    def serve(x):
        with autocast(dtype="bfloat16"):
            return {"y": tf.matmul(x, weights)}

    tf.saved_model.save(module, str(tmp_path / "model"), signatures={"serving_default": serve})
    npu_precision.convert_saved_model(
        str(tmp_path / "model"), str(tmp_path / "lowered"), autocast_only=True
    )
    loaded = tf.compat.v2.saved_model.load(str(tmp_path / "lowered"))  # It keeps the variables.
    assert low_type(loaded.signatures["serving_default"](X)["y"]) == "bfloat16"
