"""npu_precision.amp with the optimizers of TF1, in graphs and sessions."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from support.amp_training import SESSION, SessionModel

from npu_precision import amp

tf1 = tf.compat.v1
INF, NAN = np.inf, np.nan
each_session = pytest.mark.parametrize("make", SESSION.values(), ids=SESSION)


@each_session
@pytest.mark.parametrize("combine_grad", [False, True])
def test_a_skipped_step_leaves_no_trace(make, combine_grad):
    model = SessionModel(amp, make, combine_grad=combine_grad)
    got = model.train(1.0, INF, 0.5, NAN, 1.0)
    assert model.session.run(model.steps) == 3
    state = amp.state_dict(model.session)
    assert state == {"loss_scaler0": {"loss_scale": 2.0**14, "unskipped": 1}}
    plain = SessionModel(amp, make, loss_scale=1.0).train(1.0, 0.5, 1.0)
    np.testing.assert_array_equal(got, plain)


def test_each_loss_has_its_scale():
    model = SessionModel(amp, SESSION["momentum"], num_losses=2)
    got = model.train([1.0, 1.0], [1.0, INF], [NAN, 1.0], [1.0, INF], [0.5, 2.0])
    state = amp.state_dict(model.session)
    assert [each["loss_scale"] for each in state.values()] == [2.0**15, 2.0**14]
    plain = SessionModel(amp, SESSION["momentum"], num_losses=2, loss_scale=1.0)
    np.testing.assert_array_equal(got, plain.train([1.0, 1.0], [0.5, 2.0]))


@pytest.mark.parametrize("scales", [False, True])
def test_minimize_takes_the_loss_scaled_or_not(scales):
    with tf.Graph().as_default() as graph:
        optimizer, config = amp.initialize(
            tf1.train.GradientDescentOptimizer(0.5), "O1", verbosity=0
        )
        weight = tf1.get_variable("w", initializer=1.0, use_resource=True)
        loss = weight * 1.0
        if scales:
            with amp.scale_loss(loss, optimizer) as loss:
                step = optimizer.minimize(loss)
        else:
            step = optimizer.minimize(loss)
        with tf1.Session(graph=graph, config=config) as session:
            session.run(tf1.global_variables_initializer())
            session.run(step)
            assert session.run(weight) == 0.5


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda o, s, w: o.minimize(tf.identity(s)), "this is not what it gave"),
        (lambda o, s, w: o.minimize(s + s), "this is not what it gave"),
        (
            lambda o, s, w: o.apply_gradients([(tf.gradients(s, w)[0], w)]),
            r"still scaled: .*call amp.unscale_gradients\(\)",
        ),
    ],
)
def test_gradients_that_stay_scaled_are_refused(use, message):
    with tf.Graph().as_default():
        plain = tf1.train.GradientDescentOptimizer(1.0)
        optimizer, _ = amp.initialize(plain, "O1", verbosity=0)
        weight = tf1.get_variable("w", initializer=1.0, use_resource=True)
        with amp.scale_loss(weight * 1.0, optimizer) as scaled:
            pass
        with pytest.raises(ValueError, match=message):
            use(optimizer, scaled, weight)


def test_a_loss_scaled_for_somebody_else_is_refused():
    with tf.Graph().as_default():
        first, second = (
            amp.initialize(tf1.train.GradientDescentOptimizer(1.0), "O1", verbosity=0)[0]
            for _ in range(2)
        )
        weight = tf1.get_variable("w", initializer=1.0, use_resource=True)
        with amp.scale_loss(weight * 1.0, first) as scaled:
            pass
        with pytest.raises(ValueError, match="for an optimizer of another initialize"):
            second.minimize(scaled)


def test_gradients_by_hand_are_unscaled_by_hand():
    with tf.Graph().as_default() as graph:
        plain = tf1.train.GradientDescentOptimizer(1.0)
        optimizer, config = amp.initialize(plain, "O1", verbosity=0)
        weight = tf1.get_variable("w", initializer=1.0, use_resource=True)
        with amp.scale_loss(weight * 0.5, optimizer) as scaled:
            grads = amp.unscale_gradients(tf.gradients(scaled, [weight]), optimizer)
        step = optimizer.apply_gradients(zip(grads, [weight]))
        with tf1.Session(graph=graph, config=config) as session:
            session.run(tf1.global_variables_initializer())
            session.run(step)
            assert session.run(weight) == 0.5


def test_an_overflow_after_unscaling_lowers_the_scale_of_the_only_loss():
    with tf.Graph().as_default() as graph:
        plain = tf1.train.GradientDescentOptimizer(1.0)
        optimizer, config = amp.initialize(plain, "O1", verbosity=0)
        weight = tf1.get_variable("w", initializer=1.0, use_resource=True)
        pairs = optimizer.compute_gradients(weight * 1.0, [weight])
        step = optimizer.apply_gradients([(grad / 0.0, each) for grad, each in pairs])
        with tf1.Session(graph=graph, config=config) as session:
            session.run(tf1.global_variables_initializer())
            session.run(step)
            assert session.run(weight) == 1.0
            assert amp.state_dict(session)["loss_scaler0"]["loss_scale"] == 2.0**15


def test_two_steps_of_one_optimizer_adjust_each_its_loss():
    with tf.Graph().as_default() as graph:
        plain = tf1.train.GradientDescentOptimizer(0.0)
        optimizer, config = amp.initialize(plain, "O1", num_losses=2, verbosity=0)
        weight = tf1.get_variable("w", initializer=1.0, use_resource=True)
        factors = [tf1.placeholder(tf.float32, []) for _ in range(2)]
        pairs = []
        for loss_id, factor in enumerate(factors):
            with amp.scale_loss(weight * factor, optimizer, loss_id) as scaled:
                pairs.append(optimizer.compute_gradients(scaled, [weight]))
        steps = [optimizer.apply_gradients(each) for each in pairs]
        with tf1.Session(graph=graph, config=config) as session:
            session.run(tf1.global_variables_initializer())
            session.run(steps[1], {factors[1]: INF})
            session.run(steps[0], {factors[0]: 1.0})
            state = amp.state_dict(session)
    assert [each["loss_scale"] for each in state.values()] == [2.0**16, 2.0**15]
    assert [each["unskipped"] for each in state.values()] == [1, 0]


def test_a_loss_that_the_graph_has_not_is_as_it_begins():
    with tf.Graph().as_default() as graph:
        plain = tf1.train.GradientDescentOptimizer(1.0)
        optimizer, _ = amp.initialize(plain, "O1", num_losses=2, verbosity=0)
        optimizer.minimize(tf1.get_variable("w", initializer=1.0, use_resource=True) * 1.0)
        with tf1.Session(graph=graph) as session:
            session.run(tf1.global_variables_initializer())
            state = amp.state_dict(session)
            assert state["loss_scaler1"] == {"loss_scale": 2.0**16, "unskipped": 0}
            state["loss_scaler0"]["loss_scale"] = 4.0
            with pytest.raises(RuntimeError, match="no loss has this scale"):
                amp.load_state_dict(state, session)
            assert amp.state_dict(session)["loss_scaler0"]["loss_scale"] == 2.0**16


def test_the_state_goes_on_in_another_session():
    first = SessionModel(amp, SESSION["adam"])
    first.train(INF, 1.0, 1.0)
    state = amp.state_dict(first.session)
    second = SessionModel(amp, SESSION["adam"])
    with second.session.as_default():
        amp.load_state_dict(state)
        assert amp.state_dict() == state
    second.train(INF)
    assert amp.state_dict(second.session)["loss_scaler0"]["loss_scale"] == 2.0**14


def test_a_state_in_a_graph_needs_its_session():
    model = SessionModel(amp, SESSION["adam"])
    with pytest.raises(RuntimeError, match="give the session"):
        amp.state_dict()
    with model.session.graph.as_default(), pytest.raises(RuntimeError, match="the session"):
        amp.state_dict()
