"""A transformer that reads digits row by row, in a custom training loop with npu_device.

The loop is in a tf.function, the gradients are clipped between unscaling and the step, and the
attention's softmax keeps its dtype.
"""

import argparse

import npu_device as npu
import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

parser = argparse.ArgumentParser()
parser.add_argument("--precision_mode", default="allow_mix_precision")
parser.add_argument("--loop_size", type=int, default=14)
parser.add_argument("--epochs", type=int, default=3)
args = parser.parse_args()

npu.global_options().precision_mode = args.precision_mode
npu.global_options().graph_memory_max_size = str(26 * 1024 * 1024 * 1024)
npu.open().as_default()
npu.set_npu_loop_size(args.loop_size)

WIDTH = 16
BATCH = 64


class Block(tf.keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.query_key_value = tf.keras.layers.Dense(3 * WIDTH)
        self.norm = tf.keras.layers.LayerNormalization(epsilon=1e-6)
        self.hidden = tf.keras.layers.Dense(4 * WIDTH)
        self.out = tf.keras.layers.Dense(WIDTH)

    def call(self, x):
        query, key, value = tf.split(self.query_key_value(x), 3, axis=-1)
        with npu.keep_dtype_scope():
            scores = tf.matmul(query, key, transpose_b=True) / WIDTH**0.5
            weights = tf.nn.softmax(scores)
        x = self.norm(x + tf.matmul(weights, value))
        return x + self.out(npu.ops.gelu(self.hidden(x)))


tf.keras.utils.set_random_seed(2)
images, labels = load_digits(return_X_y=True)
images = (images.reshape(-1, 8, 8) / 16).astype(np.float32)

inputs = tf.keras.Input([8, 8])
x = tf.keras.layers.Dense(WIDTH)(inputs)
x = Block()(x)
logits = tf.keras.layers.Dense(10)(tf.keras.layers.Flatten()(x))
model = tf.keras.Model(inputs, logits)
optimizer = npu.train.optimizer.NpuLossScaleOptimizer(
    tf.keras.optimizers.Adam(1e-2), dynamic=True, initial_scale=2.0**12
)
mean_loss = tf.Variable(0.0, trainable=False)


def train_step(batch):
    images, labels = batch
    with tf.GradientTape() as tape:
        logits = model(images, training=True)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        loss = tf.reduce_mean(losses)
        scaled_loss = optimizer.get_scaled_loss(loss)
    variables = model.trainable_variables
    gradients = optimizer.get_unscaled_gradients(tape.gradient(scaled_loss, variables))
    gradients, _ = tf.clip_by_global_norm(gradients, 1.0)
    optimizer.apply_gradients(zip(gradients, variables))
    return loss


@tf.function
def train_loop(iterator, steps):
    mean_loss.assign(0.0)
    for _ in tf.range(steps):
        loss = train_step(next(iterator))
        mean_loss.assign_add(loss / tf.cast(steps, tf.float32))


data = tf.data.Dataset.from_tensor_slices((images, labels))
data = data.shuffle(2000, seed=2).batch(BATCH, drop_remainder=True).repeat()
iterator = iter(data)
for epoch in range(args.epochs):
    train_loop(iterator, tf.constant(args.loop_size))
    print("epoch", epoch, "mean loss", mean_loss.numpy(), "scale", float(optimizer.loss_scale))
print("loss", float(mean_loss))
