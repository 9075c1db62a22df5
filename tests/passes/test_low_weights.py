"""low_weights: a weight is cast anew when it has changed, by whatever, and only then."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest
import tensorflow as tf
from support.kept_weights import SHAPE, numbers, options, rewrites_in
from support.tf_versions import needs_functions_by_default, needs_onednn_in_bfloat16

import npu_precision
from npu_precision import _library

tf1 = tf.compat.v1
ops = tf.raw_ops
pytestmark = [
    pytest.mark.cpu("weights are kept on CPUs alone"),
    needs_functions_by_default,
    needs_onednn_in_bfloat16,
]
X = np.random.default_rng(0).normal(size=[8, 64]).astype(np.float32)


def product_of(weights, reshaped=False, **fields):
    """A function of the product with the weights in the mode."""

    @tf.function
    def product(x):
        if reshaped:
            return tf.matmul(x, tf.reshape(weights, SHAPE[::-1]), transpose_b=True)
        return tf.matmul(x, weights)

    def call():
        with npu_precision.autocast(options(**fields)):
            return product(tf.constant(X)).numpy()

    return call


def expected(value, reshaped=False):
    """The product with weights of this value, without a copy that is kept."""
    return product_of(tf.Variable(value), reshaped, rewrites="-low_weights")()


def expected_without_making(weights):
    """The same, computed in float32 from rounded values: no op of ours runs."""
    low = tf.cast(tf.cast(weights.read_value(), tf.bfloat16), tf.float32)
    x = tf.cast(tf.cast(X, tf.bfloat16), tf.float32)
    return tf.cast(tf.cast(tf.matmul(x, low), tf.bfloat16), tf.float32).numpy()


def in_function(change, **how):
    def changes(weights):
        @tf.function(**how)
        def function():
            change(weights)

        function()

    return changes


def sgd(weights):
    return ops.ResourceApplyGradientDescent(
        var=weights.handle, alpha=1.0, delta=tf.constant(numbers(3))
    )


def by_keras(weights):
    optimizer = tf.keras.optimizers.Adam(0.1)
    optimizer.build([weights])
    optimizer.apply_gradients([(tf.constant(numbers(4)), weights)])


def by_loop(weights):
    for _ in tf.range(3):
        weights.assign_add(tf.ones(SHAPE))


def by_branch(weights):
    if tf.reduce_sum(weights) < 1e9:
        weights.assign(weights * 2.0)


def by_thread(weights):
    thread = threading.Thread(target=lambda: weights.assign(numbers(5)))
    thread.start()
    thread.join()


def train_in_the_mode(weights, steps=3):
    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(tf.matmul(tf.constant(X), weights)))
        weights.assign_sub(0.01 * tape.gradient(loss, weights))

    with npu_precision.autocast(options()):
        for _ in range(steps):
            step()


CHANGES = {
    "assign": lambda w: w.assign(numbers(1)),
    "assign what it was": lambda w: w.assign(w.read_value()),
    "assign_add": lambda w: w.assign_add(numbers(1)),
    "assign_sub": lambda w: w.assign_sub(numbers(1)),
    "a slice": lambda w: w[1:3].assign(tf.zeros([2, SHAPE[1]])),
    "scatter_update": lambda w: w.scatter_nd_update([[1], [5]], tf.zeros([2, SHAPE[1]])),
    "scatter_add": lambda w: w.scatter_add(tf.IndexedSlices(tf.ones([1, SHAPE[1]]), [2])),
    "sparse update": lambda w: ops.ResourceScatterSub(
        resource=w.handle, indices=[0, 3], updates=tf.ones([2, SHAPE[1]])
    ),
    "a training op": sgd,
    "a sparse training op": lambda w: ops.ResourceSparseApplyAdagrad(
        var=w.handle,
        accum=tf.Variable(tf.ones(SHAPE)).handle,
        lr=1.0,
        grad=tf.ones([2, SHAPE[1]]),
        indices=[4, 6],
    ),
    "an optimizer of Keras": by_keras,
    "a function": in_function(lambda w: w.assign_add(tf.ones(SHAPE))),
    "a training op in a function": in_function(sgd),
    "a loop": in_function(by_loop),
    "a branch": in_function(by_branch),
    "Python in a function": in_function(
        lambda w: tf.py_function(lambda: w.assign(numbers(7)).numpy(), [], tf.float32)
    ),
    "what XLA compiles": in_function(lambda w: w.assign_sub(tf.ones(SHAPE)), jit_compile=True),
    "another thread": by_thread,
    "a training step in the mode": train_in_the_mode,
}


@pytest.mark.parametrize("reshaped", [False, True], ids=["", "reshaped"])
@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("change", CHANGES)
def test_no_change_is_missed(change, times, reshaped):
    weights = tf.Variable(numbers(0))
    product = product_of(weights, reshaped)
    for _ in range(2):
        np.testing.assert_array_equal(product(), expected(weights.numpy(), reshaped))
    for _ in range(times):
        CHANGES[change](weights)
        np.testing.assert_array_equal(product(), expected(weights.numpy(), reshaped))
        np.testing.assert_array_equal(product(), expected(weights.numpy(), reshaped))


def test_a_checkpoint_is_not_missed(tmp_path):
    weights = tf.Variable(numbers(0))
    product = product_of(weights)
    checkpoint = tf.train.Checkpoint(weights=weights)
    weights.assign(numbers(6))
    path = checkpoint.write(str(tmp_path / "checkpoint"))
    weights.assign(numbers(0))
    product()
    checkpoint.read(path)
    np.testing.assert_array_equal(product(), expected(numbers(6)))


def test_a_new_variable_in_the_place_of_an_old_one_is_not_mistaken_for_it():
    for seed in range(20):
        weights = tf.Variable(numbers(seed))
        np.testing.assert_array_equal(product_of(weights)(), expected(numbers(seed)))
        del weights
        gc.collect()


def test_threads_that_read_and_write_end_with_the_last_value():
    weights = tf.Variable(numbers(0))
    product = product_of(weights)
    stop = threading.Event()
    seen = []

    def read():
        while not stop.is_set():
            seen.append(product())

    readers = [threading.Thread(target=read) for _ in range(2)]
    for each in readers:
        each.start()
    for seed in range(60):
        weights.assign(numbers(seed))
        weights.assign_add(tf.ones(SHAPE))
    stop.set()
    for each in readers:
        each.join()
    assert seen
    np.testing.assert_array_equal(product(), expected(weights.numpy()))


def test_each_step_of_a_session_reads_what_the_last_one_wrote(tmp_path):
    """And what another graph of the session wrote."""
    losses = []
    for rewrites in ("all", "-low_weights", "-low_weights,-fused_updates"):
        config = npu_precision.npu_config_proto(
            precision_mode="allow_mix_precision_bf16", rewrites=rewrites, strict=True
        )
        with tf.Graph().as_default():
            weights = tf1.get_variable("w", initializer=tf.constant(numbers(0)), use_resource=True)
            loss = tf.reduce_sum(tf.square(tf.matmul(tf.constant(X), weights)))
            step = tf1.train.MomentumOptimizer(1e-3, 0.9).minimize(loss)
            saver = tf1.train.Saver()
            with tf1.Session(config=config) as session:
                session.run(tf1.global_variables_initializer())
                found = [session.run([loss, step])[0] for _ in range(4)]
                path = saver.save(session, str(tmp_path / "saved"))
                found += [session.run([loss, step])[0] for _ in range(2)]
                weights.load(numbers(1), session)
                found += [session.run([loss, step])[0] for _ in range(2)]
                saver.restore(session, path)
                found += [session.run([loss, step])[0] for _ in range(2)]
            losses.append(found)
    assert losses[0] == losses[1] == losses[2]
    assert len(set(losses[0])) == 8  # the two after the restore are those after the save


@pytest.mark.parametrize("reshaped", [False, True], ids=["", "reshaped"])
def test_what_is_replaced_is_in_the_ledger(reshaped, tmp_path):
    weights = tf.Variable(numbers(0))
    product_of(weights, reshaped, report_dir=str(tmp_path))()
    assert rewrites_in(tmp_path) == [("low_weights", "Cast", "NpuPrecisionKeptCast")]


def test_a_weight_that_does_not_change_is_rounded_once():
    weights = tf.Variable(numbers(0))
    product = product_of(weights)
    made = _library.kept_casts()["made"]
    for _ in range(5):
        product()
    assert _library.kept_casts()["made"] == made + 1


def test_a_variable_that_something_else_writes_all_the_time_is_not_kept():
    """Its buffer would have to be copied for each write."""
    before = _copies()
    weights = tf.Variable(numbers(0))
    product = product_of(weights)
    product()
    assert _copies() == before + 1
    for _ in range(10):
        weights.assign_add(tf.ones(SHAPE))
        product()
    assert _copies() == before


def test_functions_share_a_copy():
    weights = tf.Variable(numbers(0))
    before = _copies()
    products = []
    for reshaped in (False, True):
        product = product_of(weights, reshaped)
        np.testing.assert_array_equal(product(), expected(numbers(0), reshaped))
        products.append(product)
    assert _copies() == before + 1


def test_an_update_of_ours_writes_the_copy():
    """So that the next step and the next evaluation need no Cast."""
    weights = tf.Variable(numbers(0))
    product = product_of(weights)
    train_in_the_mode(weights)
    product()
    for steps in range(1, 4):
        made = _library.kept_casts()["made"]
        train_in_the_mode(weights, steps)
        np.testing.assert_array_equal(product(), expected_without_making(weights))
        assert _library.kept_casts()["made"] == made + steps


def test_what_was_handed_out_does_not_change():
    weights = tf.Variable(numbers(0))
    cast = tf.function(lambda: tf.cast(weights, tf.bfloat16))
    with npu_precision.autocast(options()):
        handed_out = cast()
    train_in_the_mode(weights)
    assert handed_out.dtype == tf.bfloat16
    rounded = tf.cast(tf.constant(numbers(0)), tf.bfloat16)
    np.testing.assert_array_equal(handed_out.numpy(), rounded.numpy())
    with npu_precision.autocast(options()):
        assert (cast().numpy() != rounded.numpy()).any()


def test_variables_of_one_buffer_change_alone():
    one = tf.Variable(numbers(0))
    other = tf.Variable(numbers(1))
    other.assign(one.read_value())
    products = [product_of(one), product_of(other)]
    for _ in range(3):
        train_in_the_mode(one)
        for product, weights in zip(products, (one, other)):
            np.testing.assert_array_equal(product(), expected(weights.numpy()))
    np.testing.assert_array_equal(other.numpy(), numbers(0))


def test_variables_of_the_old_kind_are_not_kept(tmp_path):
    """They are written in place, whoever reads them."""
    config = npu_precision.npu_config_proto(
        precision_mode="allow_mix_precision_bf16", report_dir=str(tmp_path), strict=True
    )
    with tf.Graph().as_default():
        weights = tf1.get_variable("w", initializer=tf.constant(numbers(0)), use_resource=False)
        product = tf.matmul(tf.constant(X), weights)
        change = weights.assign_add(tf.ones(SHAPE))
        with tf1.Session(config=config) as session:
            session.run(tf1.global_variables_initializer())
            session.run(product)
            session.run(change)
            found, value = session.run(product), session.run(weights)
    np.testing.assert_array_equal(found, expected(value))
    assert list(tmp_path.rglob("*.json"))
    assert not rewrites_in(tmp_path)


def test_what_is_written_in_place_by_an_op_is_not_kept():
    weights = tf.Variable(numbers(0))

    @tf.function
    def step(x):
        product = tf.matmul(x, weights)
        with tf.control_dependencies([product]):
            return product, ops.InplaceUpdate(x=weights.read_value(), i=[1], v=tf.ones([1, 48]))

    made = _library.kept_casts()["made"]
    with npu_precision.autocast(options()):
        step(tf.constant(X))
    assert _library.kept_casts()["made"] == made


def test_a_copy_of_what_no_variable_has_any_more_is_let_go():
    """Each trace has a copy of the value that it last read."""
    before = _copies()
    weights = tf.Variable(numbers(0))
    product = tf.function(lambda x: tf.matmul(x, weights))
    with npu_precision.autocast(options()):
        for rows in range(1, 6):
            weights.assign_add(tf.ones(SHAPE))
            product(tf.ones([rows, SHAPE[0]]))
    assert _copies() == before + 1


def test_threads_that_begin_together_do_not_count_as_changes():
    """With one thread for each op, several calls cast the weights at the same time."""
    config = npu_precision.npu_config_proto(precision_mode="allow_mix_precision_bf16", strict=True)
    config.inter_op_parallelism_threads, config.intra_op_parallelism_threads = 8, 1
    with tf.Graph().as_default():
        value = tf.constant(numbers(0, [4096, 4096]))
        weights = tf1.get_variable("w", initializer=value, use_resource=True)
        product = tf.matmul(tf.ones([1, 4096]), weights)
        with tf1.Session(config=config) as session:
            session.run(weights.initializer)
            call = session.make_callable(product)
            call()
            session.run(weights.initializer)
            start = threading.Barrier(8)

            def call_together():
                start.wait()
                call()

            threads = [threading.Thread(target=call_together) for _ in range(8)]
            for each in threads:
                each.start()
            for each in threads:
                each.join()
            call()
            made = _library.kept_casts()["made"]
            call()
            assert _library.kept_casts()["made"] == made


def test_float16_is_kept_too():
    weights = tf.Variable(numbers(0))
    results = []
    for rewrites in ("all", "-low_weights"):
        fields = {"precision_mode": "allow_mix_precision", "rewrites": rewrites}
        product = product_of(weights, **fields)
        results.append([product(), product()])
    np.testing.assert_array_equal(*results)


def test_memory_is_given_back():
    """A copy lives as long as a function that reads it."""
    before = _copies()
    weights = tf.Variable(numbers(0))
    product = product_of(weights)
    product()
    assert _copies() == before + 1
    del product, weights
    gc.collect()
    assert _copies() == before


def _copies():
    return _library.kept_casts()["kept"]
