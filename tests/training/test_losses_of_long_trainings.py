"""Over 200 steps, a mode's losses differ from float32's less than those of a second seed.

The updates are the library's own, which read gradients in the low type, and the weights that the
step reads are kept in it.
"""

from __future__ import annotations

import json
import sys

import pytest
from support.tf_versions import need_kernels, needs_functions_by_default

from npu_precision.cli.main import main

pytestmark = [needs_functions_by_default, pytest.mark.slow]

STEPS = 200
TRAINING = """
import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

IMAGES, DIGITS = load_digits(return_X_y=True)
IMAGES = IMAGES.reshape(-1, 8, 8, 1).astype(np.float32) / 16
layers, optimizers = tf.keras.layers, tf.keras.optimizers


def training(seed):
    order = np.random.default_rng(seed).permutation(len(IMAGES))[:1600]
    data = tf.data.Dataset.from_tensor_slices((IMAGES[order], DIGITS[order]))
    model = tf.keras.Sequential(
        [
            layers.Conv2D(16, 3, padding="same", use_bias=False),
            layers.BatchNormalization(),
            layers.ReLU(),
            layers.Reshape([8, 128]),
            layers.LSTM(32),
            layers.Dense(64, "relu"),
            layers.Dense(10),
        ]
    )
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(OPTIMIZER, loss, jit_compile=False)
    return model, data.batch(32).repeat()
"""
OPTIMIZERS = {
    "Adam": "optimizers.Adam(1e-3)",
    "SGD": "optimizers.SGD(0.05)",
    "momentum": "optimizers.SGD(0.02, momentum=0.9, nesterov=True)",
    "RMSprop": "optimizers.RMSprop(1e-3)",
    "Adagrad": "optimizers.Adagrad(0.05)",
}


@pytest.mark.parametrize(
    "mode",
    [pytest.param("allow_mix_precision", marks=pytest.mark.full), "allow_mix_precision_bf16"],
)
@pytest.mark.parametrize(
    "optimizer",
    ["Adam", *(pytest.param(name, marks=pytest.mark.full) for name in list(OPTIMIZERS)[1:])],
)
def test_a_mode_changes_losses_less_than_a_second_seed(
    optimizer, mode, tmp_path, monkeypatch, capsys
):
    need_kernels("bfloat16", "Conv2D", "MatMul")
    text = TRAINING.replace("OPTIMIZER", OPTIMIZERS[optimizer])
    (tmp_path / "long_training.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "long_training", raising=False)
    arguments = ["--mode", mode, "--steps", str(STEPS), "--json"]
    assert main(["compare", "--training", "long_training:training", *arguments]) == 0
    data = json.loads(capsys.readouterr().out)
    losses = data["losses"]["mode"]
    assert len(losses) == STEPS
    assert losses[-1] < 0.7 * losses[0], "it learns"
    assert data["within"], f"ratio {data['ratio']}"
