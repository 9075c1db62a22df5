"""Matrix factorization of ratings on as many NPUs as RANK_SIZE says, with npu_device.distribute.

Each rank takes its part of the data. Gradients are averaged; those of the embeddings are sparse.
"""

import argparse
import os

import npu_device as npu
import numpy as np
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("--precision_mode", default="allow_mix_precision")
parser.add_argument("--rank_size", type=int, default=int(os.environ.get("RANK_SIZE", "1")))
parser.add_argument("--batch_size", type=int, default=256, help="over all ranks")
parser.add_argument("--epochs", type=int, default=3)
args = parser.parse_args()

npu.global_options().precision_mode = args.precision_mode
npu.global_options().hcom_parallel = True
npu.open().as_default()

USERS, ITEMS, WIDTH = 200, 100, 16


def ratings(count=8192):
    random = np.random.default_rng(3)
    users, items = random.integers(USERS, size=count), random.integers(ITEMS, size=count)
    taste, kind = random.normal(size=[USERS, 4]), random.normal(size=[ITEMS, 4])
    scores = (taste[users] * kind[items]).sum(1) / 2 + random.normal(size=count) / 10
    return users, items, scores.astype(np.float32)


class Ratings(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.users = tf.keras.layers.Embedding(USERS, WIDTH)
        self.items = tf.keras.layers.Embedding(ITEMS, WIDTH)
        self.hidden = tf.keras.layers.Dense(64, "relu")
        self.score = tf.keras.layers.Dense(1)

    def call(self, pair):
        user, item = self.users(pair[0]), self.items(pair[1])
        features = tf.concat([user, item, user * item], axis=-1)
        return tf.squeeze(self.score(self.hidden(features)), axis=-1)


def main():
    tf.keras.utils.set_random_seed(3)
    data = tf.data.Dataset.from_tensor_slices(ratings())
    if args.rank_size > 1:
        data, batch_size = npu.distribute.shard_and_rebatch_dataset(data, args.batch_size)
    else:
        batch_size = args.batch_size
    data = data.shuffle(8192, seed=3).batch(batch_size, drop_remainder=True)

    model = Ratings()
    model((tf.constant([0]), tf.constant([0])))
    npu.distribute.broadcast(model.trainable_variables, root_rank=0)
    optimizer = tf.keras.optimizers.Adam(1e-2)
    optimizer = npu.distribute.npu_distributed_keras_optimizer_wrapper(optimizer)

    @tf.function
    def train_step(users, items, scores):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model((users, items)) - scores))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    for epoch in range(args.epochs):
        losses = [train_step(*batch) for batch in data]
        loss = npu.distribute.all_reduce(tf.reduce_mean(losses), reduction="mean")
        print("epoch", epoch, "of rank loss", float(loss))
    print("loss", float(loss))


if __name__ == "__main__":
    main()
