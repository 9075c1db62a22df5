"""autocast(): its arguments, its warnings, and threads."""

import logging

import numpy as np
import pytest
import tensorflow as tf
from support.products import X
from support.tf_versions import needs_logical_devices

import npu_precision
from npu_precision import autocast

BF16 = npu_precision.PrecisionOptions(precision_mode="allow_mix_precision_bf16")


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


def generator(x):
    yield x


async def coroutine(x):
    return x


@pytest.mark.parametrize("function", [generator, coroutine])
def test_a_body_that_runs_after_the_call_is_not_decorated(function):
    with pytest.raises(TypeError, match="whose body runs after the call; decorate what it calls"):
        autocast(dtype="bfloat16")(function)


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
        ({"dtype": "int8"}, ValueError, "expected 'bfloat16' or 'float16'"),
        ({"dtype": "bflot16"}, ValueError, "dtype: got 'bflot16'"),
        ({"dtype": tf.float32}, ValueError, "expected 'bfloat16' or 'float16'"),
        ({"device_type": "cdua"}, ValueError, "did you mean 'cuda'"),
        ({"enabled": "no"}, TypeError, "enabled: got 'no'"),
        ({"dtpye": "float16"}, TypeError, r"unknown argument 'dtpye' \(did you mean 'dtype'"),
        ({"options": tf.float16}, TypeError, r"options: got tf.float16, .* dtype with dtype="),
        ({"options": np.float16}, TypeError, "a dtype with dtype="),
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


def test_the_error_says_what_to_write_and_that_works(tmp_path):
    def step(x):
        with autocast(dtype="bfloat16", report_dir=str(tmp_path)):
            return tf.matmul(x, x)

    with pytest.raises(ValueError) as raised:
        tf.function(step)(X)
    option = f"report_dir={str(tmp_path)!r}"
    assert f"write npu_precision.enable(autocast_only=True, {option})" in str(raised.value)
    assert f"npu_config_proto(autocast_only=True, {option})" in str(raised.value)

    @tf.function
    def again(x):
        with autocast(dtype="bfloat16"):
            return tf.matmul(x, x, transpose_a=True)

    npu_precision.enable(autocast_only=True, report_dir=str(tmp_path))
    again(X)
    assert list(tmp_path.glob("*.json"))


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
