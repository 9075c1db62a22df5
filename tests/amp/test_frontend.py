"""npu_precision.amp: arguments that it refuses for any optimizer, and code it does not change."""

from __future__ import annotations

import pytest
import tensorflow as tf
from support.amp_training import SESSION, SessionModel
from support.tf_versions import needs_functions_by_default

import npu_precision
from npu_precision import amp

tf1 = tf.compat.v1


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({}, r"got \[\], expected \['loss_scaler0'\]"),
        ({"loss_scaler0": {"loss_scale": 1.0}}, "expected loss_scale and unskipped"),
        (
            {"loss_scaler0": {"loss_scale": -1.0, "unskipped": 0}},
            "loss_scaler0: loss_scale: got -1.0",
        ),
        ({"loss_scaler0": {"loss_scale": 2.0**30, "unskipped": 0}}, "loss_scale: got 1073741824.0"),
        ({"loss_scaler0": {"loss_scale": 1.0, "unskipped": -1}}, "unskipped: got -1"),
        ({"loss_scaler0": 3, "loss_scaler1": 4}, "one for each of num_losses=1"),
        (7, "state_dict: got 7"),
    ],
)
def test_a_state_of_another_shape_is_refused(state, message):
    model = SessionModel(amp, SESSION["adam"])
    with pytest.raises(ValueError, match=message):
        amp.load_state_dict(state, model.session)


@pytest.mark.parametrize("loss_id", [-1, 2, True, 1.0, None])
def test_a_loss_that_there_is_not_is_refused(loss_id):
    optimizer, _ = amp.initialize(
        tf1.train.GradientDescentOptimizer(1.0), "O1", num_losses=2, verbosity=0
    )
    scaled = amp.scale_loss(tf.constant(1.0), optimizer, loss_id)
    with pytest.raises(ValueError, match="loss_id: got .*, expected a whole .* 0 to 1"), scaled:
        pass


def test_an_optimizer_of_somebody_elses_is_refused():
    scaled = amp.scale_loss(tf.constant(1.0), tf1.train.GradientDescentOptimizer(1.0))
    with pytest.raises(ValueError, match=r"expected what amp.initialize\(\) returned"), scaled:
        pass


def test_not_enabled_nothing_changes():
    optimizer, config = tf1.train.GradientDescentOptimizer(1.0), tf1.ConfigProto()
    got = amp.initialize(optimizer, "O3", config, enabled=False)
    assert got[0] is optimizer
    assert got[1] is config
    loss = tf.constant(1.0)
    with amp.scale_loss(loss, optimizer) as scaled:
        assert scaled is loss
    grads = [tf.constant(1.0), None]
    assert amp.unscale_gradients(grads, optimizer) == grads
    assert amp.state_dict() == {}
    amp.load_state_dict({"loss_scaler0": {"loss_scale": 4.0, "unskipped": 0}})
    assert npu_precision.active_options() is None


def test_the_same_optimizer_twice_is_refused():
    optimizer, _ = amp.initialize(tf1.train.GradientDescentOptimizer(1.0), "O1", verbosity=0)
    with pytest.raises(ValueError, match="which scales the loss already"):
        amp.initialize(optimizer, "O1")
    plain = tf1.train.GradientDescentOptimizer(1.0)
    with pytest.raises(ValueError, match="the same one twice"):
        amp.initialize([plain, plain], "O1")


@needs_functions_by_default
def test_the_same_optimizer_of_keras_twice_is_refused():
    optimizer, _ = amp.initialize(tf.keras.optimizers.SGD(), "O1", verbosity=0)
    with pytest.raises(ValueError, match="which scales the loss already"):
        amp.initialize(optimizer, "O1")


@pytest.mark.parametrize("optimizer", [None, "adam", 3, [object()], tf1.train.AdamOptimizer])
def test_what_is_no_optimizer_is_refused(optimizer):
    with pytest.raises(ValueError, match="optimizer: got .*, expected an optimizer of Keras or"):
        amp.initialize(optimizer, "O1")
