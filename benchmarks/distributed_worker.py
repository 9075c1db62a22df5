"""One worker of `make bench SUITE=distributed`: trains a model, a step for each line that it reads.

    python benchmarks/distributed_worker.py mlp modes "tf amp" full REPORT_DIR

It answers with the loss of the whole batch, and once before the first line, when it is ready. Its
place in the cluster is that of TF_CONFIG; its ledgers are in a folder of that number.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import contenders
import numpy as np
import tensorflow as tf

import npu_precision

layers = tf.keras.layers
CLASSES = 10
# Steps before the first answer: tracing, and allocations.
_WARM_UP = 2
_SEED = 7


@dataclasses.dataclass(frozen=True)
class Size:
    """How large the models are.

    Attributes:
        units: units of a dense layer.
        filters: filters of the first convolutions; the last ones have four times as many.
        words: rows of the embedding table.
        batch: examples of each worker.
    """

    units: int
    filters: int
    words: int
    batch: int


SIZES = {"full": Size(2048, 64, 200_000, 256), "quick": Size(128, 8, 2_000, 16)}
_EMBEDDED, _FIELDS, _FEATURES, _IMAGE = 64, 26, 1024, (32, 32, 3)


def _conv(size: Size) -> tf.keras.Model:
    model = tf.keras.Sequential()
    for factor in (1, 2, 4):
        for _ in range(2):
            model.add(layers.Conv2D(factor * size.filters, 3, padding="same", use_bias=False))
            model.add(layers.BatchNormalization())
            model.add(layers.ReLU())
        model.add(layers.MaxPool2D())
    model.add(layers.Flatten())
    model.add(layers.Dense(size.units // 4, "relu"))
    model.add(layers.Dense(CLASSES))
    return model


def _mlp(size: Size) -> tf.keras.Model:
    hidden = [layers.Dense(size.units, "relu") for _ in range(2)]
    return tf.keras.Sequential([*hidden, layers.Dense(CLASSES)])


def _embedding(size: Size) -> tf.keras.Model:
    """Looks up the categories of many fields in one table, followed by an MLP."""
    return tf.keras.Sequential(
        [
            layers.Embedding(size.words, _EMBEDDED),
            layers.Reshape([_FIELDS * _EMBEDDED]),
            layers.Dense(size.units // 2, "relu"),
            layers.Dense(size.units // 4, "relu"),
            layers.Dense(CLASSES),
        ]
    )


def _images(random: np.random.Generator, size: Size) -> np.ndarray:
    # A convolution does more arithmetic for an example than the other models.
    return random.normal(size=(size.batch // 8, *_IMAGE)).astype(np.float32)


def _features(random: np.random.Generator, size: Size) -> np.ndarray:
    return random.normal(size=(size.batch, _FEATURES)).astype(np.float32)


def _categories(random: np.random.Generator, size: Size) -> np.ndarray:
    return random.integers(0, size.words, (size.batch, _FIELDS)).astype(np.int32)


# By name of the model: its layers, and a batch of one worker.
MODELS: dict[
    str,
    tuple[
        Callable[[Size], tf.keras.Model],
        Callable[[np.random.Generator, Size], np.ndarray],
    ],
] = {"conv": (_conv, _images), "mlp": (_mlp, _features), "embedding": (_embedding, _categories)}


@dataclasses.dataclass(frozen=True)
class Contender:
    """How a model is trained.

    Attributes:
        enable: a function that is called with the folder for ledgers before the model is built.
        lowers: whether all-reduces are lowered.
        bytes_per_pack: the option of tf.distribute; 0 puts all gradients into one pack.
        scaler: makes the GradScaler. Its scale is one: only its communication counts here.
    """

    enable: Callable[[str], None]
    lowers: bool = False
    bytes_per_pack: int = 0
    scaler: Callable[[], npu_precision.GradScaler] | None = None


def training_step(model_name: str, size: Size, contender: Contender) -> Callable[[], float]:
    """A step that all workers take together; it returns the loss."""
    build, batch = MODELS[model_name]
    strategy = tf.distribute.MultiWorkerMirroredStrategy(
        communication_options=tf.distribute.experimental.CommunicationOptions(
            bytes_per_pack=contender.bytes_per_pack
        )
    )
    random = np.random.default_rng([_SEED, strategy.cluster_resolver.task_id])
    x = batch(random, size)
    labels = random.integers(0, CLASSES, len(x)).astype(np.int32)
    examples = len(x) * strategy.num_replicas_in_sync
    tf.keras.utils.set_random_seed(_SEED)
    with strategy.scope():
        model = build(size)
        model.build(x.shape)
        optimizer = tf.keras.optimizers.SGD(1e-3)
    scaler = contender.scaler and contender.scaler()

    def train_replica(x: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            logits = model(x, training=True)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            loss = tf.reduce_sum(losses) / examples
            scaled = scaler.scale(loss) if scaler else loss
        variables = model.trainable_variables
        pairs = list(zip(tape.gradient(scaled, variables), variables))
        if scaler:
            scaler.step(optimizer, pairs)
            scaler.update()
        else:
            optimizer.apply_gradients(pairs)
        return loss

    @tf.function
    def train(x: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        return strategy.reduce("SUM", strategy.run(train_replica, args=(x, labels)), axis=None)

    inputs = tf.constant(x), tf.constant(labels)
    return lambda: float(train(*inputs))


def _ours(report_dir: str, **options: Any) -> None:
    npu_precision.enable(
        precision_mode="allow_mix_precision_bf16", report_dir=report_dir, **options
    )


def _ours_lowered(report_dir: str) -> None:
    _ours(report_dir, lower_collectives=True)


def _scaler(**options: Any) -> Callable[[], npu_precision.GradScaler]:
    return lambda: npu_precision.GradScaler(1.0, growth_interval=1 << 20, **options)


_BASELINES = {
    contenders.BASELINE: Contender(lambda report_dir: None),
    contenders.TENSORFLOW: Contender(
        lambda report_dir: tf.config.optimizer.set_experimental_options(
            {"auto_mixed_precision_onednn_bfloat16": True}
        )
    ),
}
# The contenders, by the name of the comparison and by their own.
COMPARISONS: dict[str, dict[str, Contender]] = {
    "modes": {
        **_BASELINES,
        contenders.OURS: Contender(_ours),
        f"{contenders.OURS}, lowered": Contender(_ours_lowered, lowers=True),
    },
    # With a GradScaler: which component adds up gradients, when, and in how many packs.
    "packing": {
        **_BASELINES,
        "one pack": Contender(_ours, scaler=_scaler()),
        "packs of 1 MiB": Contender(_ours, scaler=_scaler(), bytes_per_pack=1 << 20),
        "combine_ddp": Contender(_ours, scaler=_scaler(combine_ddp=True)),
        "combine_ddp, lowered": Contender(
            _ours_lowered, scaler=_scaler(combine_ddp=True), lowers=True
        ),
    },
}


def main() -> None:
    """Answers each line with a step, until there are no more."""
    model_name, comparison, name, size, report_dir = sys.argv[1:]
    worker = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
    contender = COMPARISONS[comparison][name]
    contender.enable(os.path.join(report_dir, str(worker)))
    step = training_step(model_name, SIZES[size], contender)
    for _ in range(_WARM_UP):
        loss = step()
    print(loss, flush=True)
    for _ in sys.stdin:
        print(step(), flush=True)


if __name__ == "__main__":
    main()
    # Otherwise TensorFlow may wait for workers that have ended.
    os._exit(0)
