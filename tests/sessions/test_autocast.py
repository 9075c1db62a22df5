"""autocast() inside functions, where users of PyTorch write it, and what it says elsewhere."""

import logging

import numpy as np
import pytest
import tensorflow as tf
from support.tf_versions import (
    needs_compiled_functions,
    needs_logical_devices,
    needs_tape_names,
    needs_train_step,
)

import npu_precision
from npu_precision import autocast, keep_dtype_scope

X = tf.constant(np.random.default_rng(1).normal(size=[4, 32]).astype(np.float32))
BF16 = npu_precision.PrecisionOptions(precision_mode="allow_mix_precision_bf16")


@pytest.fixture(scope="module")
def weights():
    return tf.Variable(np.random.default_rng(0).normal(size=[32, 32]).astype(np.float32))


@pytest.fixture
def product(weights):
    return tf.function(lambda x: tf.matmul(x, weights))


@pytest.fixture
def low_type(weights):
    """Of the product of X and the weights: the dtype that it was computed in, by its error."""
    exact = tf.matmul(X, weights)

    def find(result):
        error = tf.reduce_max(tf.abs(result - exact)).numpy()
        assert result.dtype == tf.float32
        assert error < 0.2
        if error < 1e-5:
            return "float32"
        return "bfloat16" if error > 2e-2 else "float16"

    return find


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
    product(X)  # Traced without a scope; called in one, it is traced anew.

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


@needs_tape_names
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


@needs_tape_names
def test_the_gradient_products_of_a_marked_function_are_lowered(weights, ledgers, tmp_path):
    inner = tf.function(lambda x: tf.matmul(x, weights))

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            with autocast(dtype="bfloat16"):
                y = inner(x)
                for _ in tf.range(2):
                    y = tf.matmul(y, weights)
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


@pytest.mark.parametrize(
    ("options", "dtype"),
    [
        ({}, "bfloat16"),
        ({"device_type": "cpu"}, "bfloat16"),
        ({"device_type": "cuda"}, "float16"),
        ({"device_type": "cuda", "dtype": tf.bfloat16}, "bfloat16"),
    ],
)
def test_without_a_dtype_the_device_decides(options, dtype, weights, low_type, monkeypatch):
    monkeypatch.setattr(npu_precision._tf_compat, "has_gpu", lambda: False)

    @tf.function
    def step(x):
        with autocast(**options):
            return tf.matmul(x, weights)

    assert low_type(step(X)) == dtype


def test_torchs_positional_arguments_are_taken(product, low_type):
    with autocast("cpu", dtype="bfloat16", cache_enabled=True):
        assert low_type(product(X)) == "bfloat16"
    with autocast("cuda", "float16", True, None):
        assert low_type(product(X)) == "float16"


@pytest.mark.parametrize(
    "target",
    [3, tf.keras.layers.Dense, tf.keras.layers.Dense(1)],
    ids=["number", "class", "layer"],
)
def test_only_functions_are_decorated(target):
    with pytest.raises(TypeError, match="expected a function to decorate"):
        autocast(dtype="bfloat16")(target)


def test_a_decorator_without_parentheses_is_an_error_that_says_so():
    with pytest.raises(TypeError, match=r"@autocast\(\)"):

        @autocast
        def step(x):
            return x


def test_enable_without_a_mode_lowers_also_with_a_mixlist(product, low_type, monkeypatch):
    monkeypatch.setattr(npu_precision._tf_compat, "has_gpu", lambda: False)
    npu_precision.enable()
    assert npu_precision.active_options().precision_mode == "allow_mix_precision_bf16"
    assert low_type(product(X)) == "bfloat16"
    npu_precision.enable(mixlist_edits='{"black-list": {"to-add": ["MatMul"]}}')
    assert low_type(product(X)) == "float32"
    monkeypatch.setattr(npu_precision._tf_compat, "has_gpu", lambda: True)
    npu_precision.enable()
    assert npu_precision.active_options().precision_mode == "allow_mix_precision"


@pytest.mark.parametrize(
    ("wrong", "error", "says"),
    [
        ({"dtype": "int8"}, ValueError, "expected tf.bfloat16 or tf.float16"),
        ({"dtype": "bflot16"}, ValueError, "dtype: got 'bflot16'"),
        ({"dtype": tf.float32}, ValueError, "expected tf.bfloat16 or tf.float16"),
        ({"device_type": "cdua"}, ValueError, "did you mean 'cuda'"),
        ({"enabled": "no"}, TypeError, "enabled: got 'no'"),
        (
            {"dtype": "float16", "precision_mode": "force_fp16"},
            ValueError,
            r"got both dtype \(float16\) and a precision mode \(force_fp16\)",
        ),
    ],
)
def test_wrong_arguments_are_refused_at_once(wrong, error, says):
    with pytest.raises(error, match=says):
        autocast(**wrong)


@pytest.mark.parametrize(
    "options", [{"precision_mode": "force_fp16"}, {"report_dir": "/tmp"}], ids=str
)
def test_options_for_whole_graphs_are_refused_inside_a_function(options):
    @tf.function
    def step(x):
        with autocast(**options):
            return x + 1.0

    with pytest.raises(ValueError, match="put the scope around the call of the tf.function"):
        step(X)


def test_eager_code_is_told_once_and_where(weights, caplog):
    def eager():
        with autocast(dtype="bfloat16"):
            return tf.matmul(X, weights)

    with caplog.at_level(logging.WARNING, "npu_precision"):
        eager()
        eager()
    (message,) = (record.getMessage() for record in caplog.records)
    assert f"autocast() at {__file__}:" in message
    assert "decorate the step with @tf.function" in message


def test_a_scope_that_reached_a_function_says_nothing(product, caplog):
    with caplog.at_level(logging.WARNING, "npu_precision"):
        with autocast(BF16), autocast(enabled=False):
            product(X)
        with pytest.raises(KeyError), autocast(BF16):
            raise KeyError
    assert not caplog.records


@needs_compiled_functions
@pytest.mark.parametrize("where", ["around", "inside", "enable"])
def test_a_compiled_function_is_told_of_once(where, weights, caplog, low_type):
    @tf.function(jit_compile=True)
    def compiled(x):
        if where != "inside":
            return tf.matmul(x, weights)
        with autocast(BF16):
            return tf.matmul(x, weights)

    compiled.__name__ = f"compiled_{where}"
    with caplog.at_level(logging.WARNING, "npu_precision"):
        for _ in range(2):
            if where == "around":
                with autocast(BF16):
                    result = compiled(X)
            else:
                if where == "enable":
                    npu_precision.enable(BF16)
                result = compiled(X)
    assert low_type(result) == "float32"
    messages = [record.getMessage() for record in caplog.records if "XLA" in record.getMessage()]
    assert len(messages) == 1
    assert f"has no effect on the tf.function 'compiled_{where}'" in messages[0]


REPLICAS = """
import numpy as np
import tensorflow as tf

import npu_precision
from npu_precision import autocast

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
x = tf.constant(np.random.default_rng(1).normal(size=[4, 32]).astype(np.float32))
exact = tf.matmul(x, x, transpose_b=True)


@tf.function
def product(x):
    return tf.matmul(x, x, transpose_b=True)


@tf.function
def step(x):
    with autocast(dtype="bfloat16"):
        return strategy.run(product, args=(x,))


def scoped(x):
    with autocast(dtype="bfloat16"):
        inside = product(x)
        tf.distribute.get_replica_context().all_reduce("SUM", inside)  # the other's turn
    return inside, product(x)


def show(*results):
    for result in results:
        values = strategy.experimental_local_results(result)
        assert len(values) == 2
        print(*(bool(tf.reduce_max(abs(value - exact)) > 1e-3) for value in values))


with autocast(dtype="bfloat16"):
    show(strategy.run(product, args=(x,)))
show(strategy.run(product, args=(x,)))
show(step(x))
show(*tf.function(lambda x: strategy.run(scoped, args=(x,)))(x))
"""


@needs_logical_devices
@pytest.mark.slow
def test_replica_threads_inherit_the_scope_and_have_scopes_of_their_own(run_python):
    printed = run_python(REPLICAS).stdout.split()
    around, outside, in_graph, inside, after = zip(printed[::2], printed[1::2])
    assert around == in_graph == inside == ("True", "True")
    assert outside == after == ("False", "False")


def test_a_config_that_has_the_optimizer_is_left_as_it_is():
    config = tf.compat.v1.ConfigProto()
    added = npu_precision.session.functions._with_marks(config.SerializeToString())
    assert b"autocast_only" in added
    entry = config.graph_options.rewrite_options.custom_optimizers.add(name="NpuOptimizer")
    entry.parameter_map["precision_mode"].s = b"allow_mix_precison"  # The run says so, not we.
    own = config.SerializeToString()
    assert npu_precision.session.functions._with_marks(own) == own
