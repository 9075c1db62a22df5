"""One worker of `make bench SUITE=convergence`: for each line, a contender trains to the end.

    python benchmarks/convergence_worker.py OUT STEPS SEEDS

It answers with the loss of the last batch, and once before the first line, when it is ready. Its
place in the cluster is that of TF_CONFIG. The first worker writes the figures of each contender to
OUT/NAME.json, and its ledgers to OUT/NAME.
"""

from __future__ import annotations

import json
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

import npu_precision

FLOAT32 = "float32"
_DEALT_OTHERWISE = f"{FLOAT32}, dealt otherwise"
_OTHER_BATCHES = f"{FLOAT32}, other batches"
_BF16, _FP16 = ({"precision_mode": f"allow_mix_precision_{name}"} for name in ("bf16", "fp16"))
# The contenders in the order in which they train: name, and options (none for float32).
CONTENDERS: dict[str, dict[str, Any]] = {
    FLOAT32: {},
    _DEALT_OTHERWISE: {},
    _OTHER_BATCHES: {},
    "bfloat16": _BF16,
    "bfloat16, lowered": {**_BF16, "lower_collectives": True},
    "float16": _FP16,
    "float16, lowered": {**_FP16, "lower_collectives": True},
}

BATCH, _HELD_OUT = 128, 450
_RATE, _MOMENTUM = 0.05, 0.9
# Kernels of two convolutions and two dense layers; each has a bias. Gradients of more than 1024
# elements are lowered.
_KERNELS = [3, 3, 1, 16], [3, 3, 16, 32], [128, 128], [128, 10]

Arrays = Sequence[Any]


def _start(seed: int) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    weights = []
    for shape in _KERNELS:
        deviation = (2 / np.prod(shape[:-1])) ** 0.5
        weights.append(deviation * random.normal(size=shape).astype(np.float32))
        weights.append(np.zeros(shape[-1], np.float32))
    return weights


def _losses(weights: Arrays, images: Any, labels: Any) -> tuple[tf.Tensor, tf.Tensor]:
    """The loss and the predicted digit of each example."""
    x = tf.reshape(images, [-1, 8, 8, 1])
    for kernel, bias in zip(weights[0:4:2], weights[1:4:2]):
        x = tf.nn.relu(tf.nn.bias_add(tf.nn.convolution(x, kernel, 1, "SAME"), bias))
        x = tf.nn.max_pool2d(x, 2, 2, "SAME")
    x = tf.reshape(x, [-1, weights[4].shape[0]])
    x = tf.nn.relu(tf.nn.bias_add(tf.matmul(x, weights[4]), weights[5]))
    logits = tf.nn.bias_add(tf.matmul(x, weights[6]), weights[7])
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits), tf.argmax(logits, -1)


class Digits:
    """scikit-learn's 1,797 digits of 8 x 8 pixels: most to train on, the others held out."""

    def __init__(self) -> None:
        images, labels = load_digits(return_X_y=True)
        order = np.random.default_rng(0).permutation(len(images))
        images = (images[order] / 16).astype(np.float32)
        labels = labels[order].astype(np.int32)
        self.held_out = images[:_HELD_OUT], labels[:_HELD_OUT]
        self.trained = images[_HELD_OUT:], labels[_HELD_OUT:]

    def batches(self, contender: str, seed: int, steps: int) -> np.ndarray:
        """The indices of the examples of each step: epoch after epoch, each in another order."""
        random = np.random.default_rng([seed, contender == _OTHER_BATCHES])
        size = len(self.trained[0])
        epochs = -(-steps * BATCH // size)
        order = np.concatenate([random.permutation(size) for _ in range(epochs)])
        batches = order[: steps * BATCH].reshape([steps, BATCH])
        # The same batches, but each worker gets other examples: sums are added up in another order,
        # and float32 rounds them differently.
        return random.permuted(batches, axis=1) if contender == _DEALT_OTHERWISE else batches


def train(
    strategy: tf.distribute.Strategy, batches: Sequence[np.ndarray], digits: Digits
) -> tuple[float, list[list[np.ndarray]]]:
    """Trains a network per seed, all of them in one step, so that its cost is shared.

    Args:
        strategy: the strategy of the workers.
        batches: the examples of each step, [steps, batch], for each seed.
        digits: the data.

    Returns:
        The sum of the last losses, and the weights of each seed.
    """
    with strategy.scope():
        networks = [list(map(tf.Variable, _start(seed))) for seed in range(len(batches))]
        weights = [weight for network in networks for weight in network]
        rate = tf.keras.optimizers.schedules.CosineDecay(_RATE, batches[0].shape[0])
        optimizer = tf.keras.optimizers.SGD(rate, momentum=_MOMENTUM)

    def train_replica(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            losses = [
                tf.reduce_sum(_losses(network, images[k], labels[k])[0]) / BATCH
                for k, network in enumerate(networks)
            ]
            loss = tf.add_n(losses)
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
        return loss

    @tf.function
    def train_step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        losses = strategy.run(train_replica, args=(images, labels))
        return strategy.reduce("SUM", losses, axis=None)

    share = BATCH // strategy.num_replicas_in_sync
    first = share * strategy.cluster_resolver.task_id
    images, labels = digits.trained
    for mine in np.stack(batches, axis=1)[:, :, first : first + share]:
        loss = train_step(tf.constant(images[mine]), tf.constant(labels[mine]))
    return float(loss), [[weight.numpy() for weight in network] for network in networks]


def _distance(one: Arrays, other: Arrays) -> float:
    return float(sum(np.sum((a - b) ** 2) for a, b in zip(one, other)) ** 0.5)


def figures(
    ends: Sequence[Arrays], in_float32: Sequence[Arrays], digits: Digits
) -> dict[str, list[float]]:
    """For each seed: loss and accuracy, both computed in float32, and the distance from float32.

    The distance is that of all weights, as a fraction of how far float32 moved from the start.
    """
    found: dict[str, list[float]] = {"loss": [], "accuracy": [], "distance": []}
    for seed, (weights, same_seed) in enumerate(zip(ends, in_float32)):
        found["loss"].append(float(np.mean(_losses(weights, *digits.trained)[0])))
        right = _losses(weights, *digits.held_out)[1] == digits.held_out[1]
        found["accuracy"].append(float(np.mean(right)))
        way = _distance(same_seed, _start(seed))
        found["distance"].append(_distance(weights, same_seed) / way)
    return found


def main() -> None:
    """Answers each line with the training of the next contender."""
    out, steps, seeds = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    is_first = strategy.cluster_resolver.task_id == 0
    digits = Digits()
    in_float32: list[list[np.ndarray]] = []
    print(0.0, flush=True)
    for (name, options), _ in zip(CONTENDERS.items(), sys.stdin):
        if options:
            report_dir = str(out / name) if is_first else None
            npu_precision.enable(report_dir=report_dir, **options)
        batches = [digits.batches(name, seed, steps) for seed in range(seeds)]
        loss, ends = train(strategy, batches, digits)
        npu_precision.disable()
        in_float32 = in_float32 or ends
        if is_first:
            result = figures(ends, in_float32, digits)
            (out / f"{name}.json").write_text(json.dumps(result) + "\n")
        print(loss, flush=True)


if __name__ == "__main__":
    main()
