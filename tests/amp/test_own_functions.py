"""amp's decorators, and the registration of composite functions and of the user's own."""

from __future__ import annotations

import types

import numpy as np
import pytest
import tensorflow as tf
from support.check_rewrite import check_rewrite
from support.tf_versions import needs_functions_by_default, needs_kernels

import npu_precision
from npu_precision import amp
from npu_precision.amp import registered

tf1 = tf.compat.v1
MODE = "allow_mix_precision_bf16"
needs_tanh = needs_kernels("bfloat16", "Tanh")


@pytest.fixture(autouse=True)
def forget():
    yield
    registered.forget_all()


def gelu(x):
    """A composite function: every op of it is gray."""
    return 0.5 * x * (1.0 + tf.tanh(0.8 * (x + 0.04 * x * x * x)))


def graph_of(function):
    """A graph: x -> function -> product -> function -> end."""
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [4, 4], name="x")
        with tf.name_scope("before"):
            before = function(x)
        product = tf.matmul(before, x, name="product")
        with tf.name_scope("after"):
            after = function(product)
        tf.identity(after, name="end")
    return graph.as_graph_def()


def decisions(graph, scope, mode=MODE):
    reasons = check_rewrite(graph, None, mode=mode).reasons
    return {decision for name, (decision, *_) in reasons.items() if name.startswith(scope)}


@needs_tanh
def test_what_a_half_function_computes_is_lowered_without_a_white_op_before_it():
    assert decisions(graph_of(gelu), "before") == {"kept"}
    assert decisions(graph_of(amp.half_function(gelu)), "before") == {"lowered"}


@needs_tanh
def test_what_a_float_function_computes_is_kept_after_a_white_op():
    assert decisions(graph_of(gelu), "after") == {"lowered"}
    assert decisions(graph_of(amp.float_function(gelu)), "after") == {"kept"}


def test_what_a_promote_function_computes_follows_its_inputs():
    @amp.promote_function
    def product(x):
        return tf.matmul(x, x)

    graph = graph_of(product)
    assert decisions(graph, "before") == {"kept"}
    assert decisions(graph, "after") == {"lowered"}


def test_the_ledger_says_that_the_function_decided():
    result = check_rewrite(graph_of(amp.half_function(gelu)), None, mode=MODE)
    node = result.ledger.node("before/mul")
    assert (node.list, node.listed_by, node.reason) == ("white", "its function", "white_list")


@pytest.mark.parametrize("mode", ["must_keep_origin_dtype", "force_fp16"])
def test_only_the_mixed_modes_go_by_it(mode):
    plain, marked = (graph_of(each) for each in (gelu, amp.float_function(gelu)))
    assert decisions(plain, "after", mode) == decisions(marked, "after", mode)


def test_a_name_in_the_mixlist_says_more(mixlist):
    graph = graph_of(amp.half_function(gelu))
    path = mixlist(black=["node:before/Tanh", "Mul"])
    reasons = check_rewrite(graph, None, mode=MODE, modify_mixlist=path).reasons
    assert reasons["before/Tanh"] == ("kept", "black_list", "")
    assert reasons["before/mul"] == ("lowered", "white_list", "")


def test_gradients_are_on_the_list_of_their_forward_op():
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [4, 4], name="x")
        y = amp.float_function(lambda x: tf.matmul(x, x, name="product"))(x)
        tf.identity(tf.gradients(y, x)[0], name="end")
    reasons = check_rewrite(graph.as_graph_def(), None, mode=MODE).reasons
    products = [name for name in reasons if "MatMul" in name or name == "product"]
    assert len(products) == 3
    assert {reasons[name][:2] for name in products} == {("kept", "black_list")}


@needs_functions_by_default
def test_autograph_sees_through_a_decorator():
    @amp.half_function
    def doubled_if_positive(x):
        if tf.reduce_sum(x) > 0.0:
            return x * 2.0
        return x

    assert float(tf.function(doubled_if_positive)(tf.constant(1.0))) == 2.0
    assert float(doubled_if_positive(tf.constant(-1.0))) == -1.0


@needs_tanh
def test_registered_functions_may_be_composite_or_of_your_own():
    module = types.SimpleNamespace(gelu=gelu)
    amp.register_half_function(module, "gelu")
    assert decisions(graph_of(module.gelu), "before") == {"lowered"}
    original = tf.nn.moments
    amp.register_float_function(tf.nn, "moments")
    assert tf.nn.moments is not original
    graph = graph_of(lambda x: x + tf.nn.moments(x, [1], keepdims=True)[0])
    result = check_rewrite(graph, None, mode=MODE).reasons
    assert result["after/moments/mean"] == ("kept", "black_list", "")
    registered.forget_all()
    assert module.gelu is gelu
    assert tf.nn.moments is original


def test_a_function_is_registered_for_one_list():
    module = types.SimpleNamespace(gelu=gelu)
    for _ in range(2):
        amp.register_half_function(module, "gelu")
    with pytest.raises(ValueError, match="gelu is registered with register_half_function already"):
        amp.register_float_function(module, "gelu")


@needs_functions_by_default
def test_op_types_may_be_registered_after_initialize(caplog):
    amp.initialize(tf.keras.optimizers.SGD(), "O1", verbosity=0)
    amp.register_float_function(tf.matmul)
    assert "MatMul" in npu_precision.active_options().mixlist_edits
    assert not caplog.records


@needs_functions_by_default
def test_what_is_registered_after_amp_ended_puts_nothing_in_force():
    optimizer, _ = amp.initialize(tf.keras.optimizers.SGD(), "O1", verbosity=0)
    amp.initialize(optimizer, "O1", enabled=False)
    amp.register_float_function(tf.matmul)
    assert npu_precision.active_options() is None


@pytest.mark.parametrize("decorator", [amp.half_function, amp.float_function, amp.custom_bwd])
def test_what_is_no_function_is_refused(decorator):
    with pytest.raises(TypeError, match=r"function: got 3 \(int\), expected a function"):
        decorator(3)


def custom_product(weights, **flags):
    """x times weights, with a gradient by hand."""

    @tf.custom_gradient
    @amp.custom_fwd(**flags)
    def product(x):
        y = tf.matmul(x, weights, name="forward")

        @amp.custom_bwd
        def gradient(dy):
            return tf.matmul(dy, weights, transpose_b=True, name="backward")

        return y, gradient

    return product


def gradient_in_scope(product, x):
    """The gradient of the sum of product(x)^2, where the product is made in a scope of autocast."""

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            with npu_precision.autocast(dtype="bfloat16"):
                y = product(x)
            loss = tf.reduce_sum(y * y)
        return tape.gradient(loss, x)

    return step(x)


@needs_functions_by_default
def test_the_backward_part_of_inputs_that_are_cast_is_as_exact_as_the_forward_part():
    random = np.random.default_rng(0)
    weight, x = (tf.constant(random.normal(size=[8, 8]).astype(np.float32)) for _ in range(2))

    @tf.custom_gradient
    @amp.custom_fwd(cast_inputs=tf.float32)
    def product(x):
        return tf.matmul(x, weight), lambda dy: tf.matmul(dy, weight, transpose_b=True)

    exact = 2.0 * x.numpy() @ weight.numpy() @ weight.numpy().T
    np.testing.assert_allclose(gradient_in_scope(product, x), exact, rtol=1e-4, atol=1e-4)


@needs_functions_by_default
@pytest.mark.parametrize("place", [tf.function, lambda f: f], ids=["function", "eager"])
def test_gradients_of_inputs_that_are_cast_have_the_dtype_of_the_inputs(place):
    weight = tf.Variable(tf.eye(4))

    @tf.custom_gradient
    @amp.custom_fwd(cast_inputs=tf.float32)
    def product(x):
        def gradient(dy, variables=None):
            of_x = tf.matmul(dy, weight, transpose_b=True)
            return (of_x, [tf.matmul(x, dy, transpose_a=True)]) if variables else of_x

        return tf.matmul(x, weight), gradient

    @place
    def gradients():
        x = tf.cast(tf.fill([4, 4], 2.0), tf.float16)
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(product(tf.nn.relu(x)))
        return tape.gradient(loss, [x, weight])

    of_x, of_weight = gradients()
    assert (of_x.dtype, of_weight.dtype) == (tf.float16, tf.float32)
    np.testing.assert_array_equal(tf.cast(of_x, tf.float32), np.ones([4, 4]))
    np.testing.assert_array_equal(of_weight, np.full([4, 4], 8.0))


@needs_functions_by_default
@pytest.mark.parametrize(
    ("flags", "expected"),
    [({}, "lowered"), ({"cast_inputs": tf.float32}, "kept")],
    ids=["as around it", "float32"],
)
def test_the_parts_of_a_custom_gradient(flags, expected, ledgers, tmp_path):
    random = np.random.default_rng(0)
    weights = tf.constant(random.normal(size=[32, 32]).astype(np.float32))
    product = custom_product(weights, **flags)

    npu_precision.enable(autocast_only=True, report_dir=tmp_path)
    x = tf.constant(random.normal(size=[4, 32]).astype(np.float32))
    got = gradient_in_scope(product, x)
    y = x @ weights
    expected_gradient = 2.0 * y @ tf.transpose(weights)
    assert np.abs(got - expected_gradient).max() < 0.05 * np.abs(expected_gradient).max()
    found = {
        node.name.rpartition("/")[2].split("_")[0]: node.decision
        for ledger in ledgers(tmp_path)
        for node in ledger.nodes
        if node.op == "MatMul"
    }
    assert found == {"forward": expected, "backward": expected}


def test_inputs_of_a_custom_forward_are_cast():
    seen = []

    @amp.custom_fwd(cast_inputs="float16")
    def forward(x, count):
        seen.append((x.dtype, count.dtype))
        return x

    forward(tf.constant([1.0]), tf.constant(2))
    assert seen == [(tf.float16, tf.int32)]
    with pytest.raises(ValueError, match="cast_inputs: got 'int8'"):
        amp.custom_fwd(cast_inputs="int8")
