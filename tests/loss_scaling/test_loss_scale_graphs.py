"""NPULossScaleOptimizer in graphs: shared managers, branches, loops, replicas, several graphs."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import tensorflow as tf
from support.scaled_steps import exponential, sgd

from npu_precision import (
    ExponentialUpdateLossScaleManager,
    FixedLossScaleManager,
    NPULossScaleOptimizer,
)

tf1 = tf.compat.v1


def test_two_optimizers_may_share_a_manager():
    with tf.Graph().as_default(), tf1.Session() as session:
        manager = ExponentialUpdateLossScaleManager(16.0, 2, 1, decr_ratio=0.5)
        steps = []
        for name in "generator", "discriminator":
            variable = tf1.get_variable(name, [], initializer=tf1.ones_initializer())
            optimizer = NPULossScaleOptimizer(tf1.train.GradientDescentOptimizer(0.1), manager)
            steps.append(optimizer.minimize(tf.square(variable), var_list=[variable]))
        session.run(tf1.global_variables_initializer())
        session.run(steps[0])
        session.run(steps[1])
        assert session.run("loss_scale:0") == 32.0
        assert [v.op.name for v in tf1.global_variables() if "scale" in v.op.name] == [
            "current_loss_scale"
        ]


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("overflowing", [0, 1])
def test_two_that_share_a_manager_may_make_their_steps_in_one_run(overflowing):
    with tf.Graph().as_default(), tf1.Session() as session:
        manager = exponential(2.0**40, decr_ratio=0.5)()
        steps, factors = [], []
        for name in "generator", "discriminator":
            variable = tf1.get_variable(
                name, [], initializer=tf1.ones_initializer(), use_resource=True
            )
            factors.append(tf1.placeholder(tf.float32, []))
            optimizer = NPULossScaleOptimizer(sgd(), manager)
            steps.append(optimizer.minimize(variable * factors[-1], var_list=[variable]))
        session.run(tf1.global_variables_initializer())
        feed = {factors[overflowing]: np.inf, factors[1 - overflowing]: 1.0}
        for _ in range(20):
            session.run(steps, feed)
        assert session.run("loss_scale:0") == 2.0**20


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("construct", ["cond", "while_loop"])
def test_gradients_may_be_applied_in_a_branch_or_a_loop(construct):
    """As when gradients add up over batches, or one run makes several steps."""
    with tf.Graph().as_default(), tf1.Session() as session:
        variable = tf1.get_variable("v", [], initializer=tf1.ones_initializer(), use_resource=True)
        manager = exponential(16.0, incr_every_n_steps=2)()
        optimizer = NPULossScaleOptimizer(sgd(), manager)
        factor = tf1.placeholder(tf.float32, [])

        def step(count):
            pairs = optimizer.compute_gradients(variable * factor)
            with tf.control_dependencies([optimizer.apply_gradients(pairs)]):
                return count + 1

        if construct == "cond":
            applied = tf1.cond(factor > 0, lambda: step(tf.constant(0)), lambda: tf.constant(0))
        else:
            applied = tf1.while_loop(lambda i: i < 2, step, [tf.constant(0)])
        session.run(tf1.global_variables_initializer())
        for _ in range(2):
            session.run(applied, {factor: 1.0})
        steps = {"cond": 2, "while_loop": 4}[construct]
        np.testing.assert_allclose(session.run(variable), 1 - 0.1 * steps, rtol=1e-6)
        assert session.run("loss_scale:0") == 16.0 * 2 ** (steps // 2)


def test_the_graph_can_be_imported(tmp_path, caplog):
    logging.getLogger("tensorflow").addHandler(caplog.handler)
    with tf.Graph().as_default():
        variable = tf1.get_variable("v", [], initializer=tf1.ones_initializer(), use_resource=True)
        optimizer = NPULossScaleOptimizer(sgd(), exponential(8.0)())
        step = optimizer.minimize(tf.square(variable))
        tf1.train.export_meta_graph(str(tmp_path / "graph.meta"))
    logging.getLogger("tensorflow").removeHandler(caplog.handler)
    assert not [message for message in caplog.messages if "serializing" in message]
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        tf1.train.import_meta_graph(str(tmp_path / "graph.meta"))
        assert tf1.get_collection("train_op") == [graph.get_operation_by_name(step.name)]
        session.run(tf1.global_variables_initializer())
        session.run(step.name)
        assert session.run("v/Read/ReadVariableOp:0") < 1


def test_a_reference_is_named_where_no_branch_can_change_it(form):
    with tf.Graph().as_default():
        variable = tf1.get_variable("v", [], initializer=tf1.ones_initializer(), use_resource=False)
        minimize = NPULossScaleOptimizer(sgd(), FixedLossScaleManager(8)).minimize
        if form == "v1":
            assert minimize(tf.square(variable))
        else:
            with pytest.raises(ValueError, match=r"v:0 is a reference variable, and with TF2's"):
                minimize(tf.square(variable))


REPLICAS = """
import numpy as np

from npu_precision.npu_init import *

devices = ["/cpu:0", "/cpu:1"]
strategy = tf.distribute.MirroredStrategy(devices)
config = tf.ConfigProto(device_count={"CPU": 2}, allow_soft_placement=True)
with tf.Graph().as_default(), strategy.scope():
    factors = [tf.placeholder(tf.float32, []) for _ in devices]
    variable = tf.get_variable("v", [], initializer=tf.ones_initializer())
    manager = ExponentialUpdateLossScaleManager(16.0, 1000, 1, decr_ratio=0.5)
    optimizer = NPULossScaleOptimizer(tf.train.GradientDescentOptimizer(0.1), manager)

    def step():
        here = tf.distribute.get_replica_context().replica_id_in_sync_group
        return optimizer.minimize(variable * tf.stack(factors)[here])

    run = getattr(strategy, "run", None) or strategy.experimental_run_v2
    made = tf.group(*strategy.experimental_local_results(run(step)))
    with tf.Session(config=config) as session:
        session.run(tf.global_variables_initializer())
        for values in (1.0, 1.0), (np.inf, 1.0), (1.0, np.inf):
            session.run(made, dict(zip(factors, values)))
            print("%.1f %s" % tuple(session.run([variable, "loss_scale:0"])))
"""


def test_an_overflow_in_one_replica_skips_the_step_of_all(run_python):
    assert run_python(REPLICAS).stdout.split() == ["0.8", "16.0", "0.8", "8.0", "0.8", "4.0"]


SHARED = """
import numpy as np

from npu_precision.npu_init import *

strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
config = tf.ConfigProto(device_count={"CPU": 2}, allow_soft_placement=True)
with tf.Graph().as_default(), strategy.scope():
    manager = ExponentialUpdateLossScaleManager(1.0, 10000, 1, decr_ratio=0.5)
    steps = []
    for index in range(6):
        variable = tf.get_variable(f"v{index}", [], initializer=tf.ones_initializer())
        optimizer = NPULossScaleOptimizer(tf.train.GradientDescentOptimizer(0.1), manager)
        run = getattr(strategy, "run", None) or strategy.experimental_run_v2
        made = run(lambda: optimizer.minimize(variable * 1.0, var_list=[variable]))
        steps.extend(strategy.experimental_local_results(made))
    counter = [each for each in tf.global_variables() if "good_steps" in each.name][0]
    with tf.Session(config=config) as session:
        session.run(tf.global_variables_initializer())
        for _ in range(50):
            session.run(steps)
        print(*session.run(strategy.experimental_local_results(counter)))
"""


def test_under_a_strategy_steps_of_one_run_lose_no_adjustment(run_python):
    """Only this test finds optimizers that adjust a manager's scale at the same time."""
    assert run_python(SHARED).stdout.splitlines()[-1] == "300 300"


def test_a_manager_may_be_made_before_the_graph_and_used_in_several():
    manager = ExponentialUpdateLossScaleManager(8.0, 1000)
    for _ in range(2):
        with tf.Graph().as_default(), tf1.Session() as session:
            variable = tf1.get_variable("v", [], initializer=tf1.ones_initializer())
            optimizer = NPULossScaleOptimizer(tf1.train.GradientDescentOptimizer(0.1), manager)
            step = optimizer.minimize(tf.square(variable))
            session.run(tf1.global_variables_initializer())
            session.run(step)
            assert session.run([variable, "loss_scale:0"]) == [np.float32(0.8), 8.0]
            manager.get_loss_scale()
            assert len(tf1.global_variables()) == 4


MANAGERS = {
    "fixed": lambda: FixedLossScaleManager(8.0),
    "exponential": lambda: ExponentialUpdateLossScaleManager(8.0, incr_every_n_steps=1),
}


def step_with(manager):
    variable = tf1.get_variable("v", [], initializer=tf1.ones_initializer())
    optimizer = NPULossScaleOptimizer(tf1.train.GradientDescentOptimizer(0.1), manager)
    return optimizer.minimize(tf.square(variable))


@pytest.mark.parametrize("manager", MANAGERS.values(), ids=MANAGERS)
def test_the_scale_is_one_tensor_of_a_graph_that_may_be_finalized(manager):
    manager = manager()
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        step = step_with(manager)
        session.run(tf1.global_variables_initializer())
        graph.finalize()
        scales = [session.run([step, manager.get_loss_scale()])[1] for _ in range(3)]
        assert manager.get_loss_scale() is manager.get_loss_scale()
    assert scales == ([8.0] * 3 if manager.state.strategy.adjusts is False else [8.0, 16.0, 32.0])


@pytest.mark.parametrize("manager", MANAGERS.values(), ids=MANAGERS)
def test_a_finalized_graph_without_the_scale_says_what_to_do(manager):
    with tf.Graph().as_default() as graph:
        graph.finalize()
        with pytest.raises(RuntimeError, match="finalized, and nothing in it has this loss scale"):
            manager().get_loss_scale()


def test_where_ops_have_an_order_the_scale_is_read_anew():
    """After the step it is the new one, and in each iteration of a loop that of the iteration."""
    manager = MANAGERS["exponential"]()
    with tf.Graph().as_default(), tf1.Session() as session:
        step = step_with(manager)
        before = manager.get_loss_scale()
        with tf.control_dependencies([step, before]):
            after = manager.get_loss_scale()

        def body(i, scales):
            with tf.control_dependencies([manager.update_loss_scale(tf.constant(True))]):
                return i + 1, scales.write(i, manager.get_loss_scale())

        scales = tf.TensorArray(tf.float32, 3)
        looped = tf.while_loop(lambda i, _: i < 3, body, (0, scales), parallel_iterations=1)[1]
        session.run(tf1.global_variables_initializer())
        assert session.run([before, after]) == [8.0, 16.0]
        assert list(session.run(looped.stack())) == [32.0, 64.0, 128.0]


@pytest.mark.usefixtures("form")
def test_each_iteration_of_a_loop_reads_the_scale_anew():
    manager = MANAGERS["exponential"]()
    with tf.Graph().as_default(), tf1.Session() as session:
        before = manager.get_loss_scale()

        def body(i, scales):
            scale = manager.get_loss_scale()
            with tf.control_dependencies([scale]):
                updated = manager.update_loss_scale(tf.constant(True))
            with tf.control_dependencies([updated]):
                return i + 1, scales.write(i, scale)

        scales = tf.TensorArray(tf.float32, 3)
        looped = tf.while_loop(lambda i, _: i < 3, body, (0, scales), parallel_iterations=1)[1]
        session.run(tf1.global_variables_initializer())
        assert session.run(before) == 8.0
        assert list(session.run(looped.stack())) == [8.0, 16.0, 32.0]
