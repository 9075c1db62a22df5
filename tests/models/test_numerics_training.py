"""Training in mixed precision: the loss follows float32's, and variables stay float32."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import pytest
import tensorflow as tf
from support import numeric_models
from support.strict_zip import strict_zip
from support.tiers import mostly_full

import npu_precision

tf1 = tf.compat.v1

STEPS = 30
OPTIMIZERS = {
    "momentum": lambda: tf1.train.MomentumOptimizer(0.05, 0.9),
    "adam": lambda: tf1.train.AdamOptimizer(0.01),
}
# Half the distance of neighbouring numbers around one.
UNITS = {"allow_mix_precision": 2.0**-11, "allow_mix_precision_bf16": 2.0**-8}
# How far the loss of any step may be from float32's, while it falls from about 1.5 to less than
# half. Every step adds other errors to the weights and a ReLU may switch, so the curves differ by
# more than the error of one step, and not in proportion to the unit. Measured: up to 0.015.
DISTANCE = 0.04


def config_for(mode, report_dir=None):
    config = tf1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    if mode == "float32":
        return config
    return npu_precision.npu_config_proto(config, precision_mode=mode, report_dir=report_dir)


@dataclasses.dataclass(frozen=True)
class Training:
    losses: np.ndarray
    variables: dict[str, np.ndarray]


def train(
    name,
    optimizer,
    mode,
    *,
    steps=STEPS,
    seed=0,
    restore=None,
    save=None,
    report_dir=None,
    use_resource=True,
):
    """Trains a model from its fixed initial weights, or from a checkpoint.

    Returns:
        The loss of each step, and the variables after the last.
    """
    with tf.Graph().as_default(), tf1.Session(config=config_for(mode, report_dir)) as session:
        model = numeric_models.build(name, training=True, use_resource=use_resource)
        minimize = OPTIMIZERS[optimizer]().minimize(model.loss)
        step = tf.group(minimize, *tf1.get_collection(tf1.GraphKeys.UPDATE_OPS))
        saver = tf1.train.Saver()
        if restore is None:
            session.run(tf1.global_variables_initializer())
        else:
            saver.restore(session, restore)
        losses = []
        for inputs, labels in numeric_models.batches(name, steps, seed):
            feeds = {model.inputs: inputs, model.labels: labels}
            losses.append(session.run((model.loss, step), feeds)[0])
        variables = tf1.global_variables()
        values = session.run(variables)
        if save is not None:
            saver.save(session, save)
        names = [variable.op.name for variable in variables]
        return Training(np.array(losses), dict(strict_zip(names, values)))


@pytest.fixture(scope="module")
def float32_losses():
    @functools.lru_cache(maxsize=None)
    def losses(name, optimizer):
        return train(name, optimizer, "float32").losses

    return losses


@pytest.mark.parametrize("use_resource", [True, False], ids=["resource", "ref"])
@pytest.mark.parametrize("mode", UNITS)
@pytest.mark.parametrize("optimizer", mostly_full(OPTIMIZERS, ["adam"]))
@pytest.mark.parametrize("name", mostly_full(numeric_models.MODELS, numeric_models.MODELS_OF_TEST))
def test_loss_follows_float32(
    name, optimizer, mode, use_resource, float32_losses, ledgers, tmp_path
):
    expected = float32_losses(name, optimizer)
    found = train(name, optimizer, mode, report_dir=tmp_path, use_resource=use_resource)
    np.testing.assert_allclose(found.losses[0], expected[0], atol=2 * UNITS[mode])
    np.testing.assert_allclose(found.losses, expected, atol=DISTANCE)
    assert found.losses[-3:].mean() < 0.7 * found.losses[0]
    assert {value.dtype for value in found.variables.values()} <= {np.dtype(np.float32)}

    nodes = [node for ledger in ledgers(tmp_path) for node in ledger.nodes]
    lowered = {node.op for node in nodes if node.decision == "lowered"}
    assert "MatMul" in lowered
    assert not [op for op in lowered if "Apply" in op or "Variable" in op or "Assign" in op]


@pytest.mark.parametrize(
    ("first", "second"),
    [(mode, "float32") for mode in UNITS] + [("float32", mode) for mode in UNITS],
)
@pytest.mark.parametrize("name", mostly_full(["mlp", "cnn"], ["cnn"]))
def test_checkpoints_are_interchangeable(name, first, second, tmp_path):
    """A training continues from another mode's checkpoint as from its own, with the same values."""
    checkpoint = str(tmp_path / "model")
    saved = train(name, "adam", first, steps=10, save=checkpoint)
    reader = tf.train.load_checkpoint(checkpoint)
    assert set(reader.get_variable_to_dtype_map().values()) == {tf.float32}
    assert set(reader.get_variable_to_dtype_map()) == set(saved.variables)

    restored = train(name, "adam", second, steps=0, restore=checkpoint)
    for variable, value in saved.variables.items():
        np.testing.assert_array_equal(restored.variables[variable], value)
    losses = [
        train(name, "adam", mode, steps=10, seed=1, restore=checkpoint).losses
        for mode in (first, second)
    ]
    np.testing.assert_allclose(losses[1], losses[0], atol=DISTANCE)
    assert not np.array_equal(losses[1], losses[0])
