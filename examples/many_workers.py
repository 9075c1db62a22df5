"""Trains a classifier with all the workers that TF_CONFIG names, or alone where it names none.

The gradients travel between the workers in bfloat16.
"""

import numpy as np
import tensorflow as tf

import npu_precision

npu_precision.enable(precision_mode="allow_mix_precision_bf16", lower_collectives=True)
strategy = tf.distribute.MultiWorkerMirroredStrategy()

BATCH, FEATURES, CLASSES = 64, 128, 10
rng = np.random.default_rng(0)
images = rng.normal(size=(1024, FEATURES)).astype(np.float32)
labels = np.argmax(images @ rng.normal(size=(FEATURES, CLASSES)), axis=-1)
batches = tf.data.Dataset.from_tensor_slices((images, labels)).repeat().batch(BATCH)
# Each worker takes its share of each batch.
options = tf.data.Options()
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
batches = strategy.experimental_distribute_dataset(batches.with_options(options))

tf.keras.utils.set_random_seed(0)
with strategy.scope():
    model = tf.keras.Sequential(
        [
            tf.keras.layers.Dense(256, "relu"),
            tf.keras.layers.Dense(CLASSES),
        ]
    )
    model.build((None, FEATURES))
    optimizer = tf.keras.optimizers.SGD(0.1)


def train_replica(images, labels):
    with tf.GradientTape() as tape:
        logits = model(images, training=True)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        loss = tf.reduce_sum(losses) / BATCH
    variables = model.trainable_variables
    optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
    return loss


@tf.function
def train(images, labels):
    losses = strategy.run(train_replica, args=(images, labels))
    return strategy.reduce("SUM", losses, axis=None)


for step, (some_images, some_labels) in zip(range(100), batches):
    loss = train(some_images, some_labels)
    if step % 33 == 0:
        print(f"step {step}: loss {float(loss):.1f}")
