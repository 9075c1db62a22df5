"""The demo's data, scikit-learn's handwritten digits, and its model, as a TF1 script has them."""

import functools

import numpy as np
import tensorflow.compat.v1 as tf
from sklearn.datasets import load_digits

SEED = 1
BATCH = 128
HELD_OUT = 360


@functools.lru_cache(maxsize=None)
def digits():
    """The digits, shuffled: images [1797, 8, 8, 1] in 0..1 and labels [1797] in 0..9."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(SEED).permutation(len(labels))
    images = (images[order] / 16).astype(np.float32).reshape(-1, 8, 8, 1)
    return images, labels[order].astype(np.int32)


def train_input():
    """Endless batches of (image, label); every call yields them in the same order."""
    images, labels = digits()
    data = tf.data.Dataset.from_tensor_slices((images[HELD_OUT:], labels[HELD_OUT:]))
    return data.shuffle(len(labels), seed=SEED).repeat().batch(BATCH)


def held_out_input():
    """The images that training never sees, as one batch."""
    images, labels = digits()
    return tf.data.Dataset.from_tensors((images[:HELD_OUT], labels[:HELD_OUT]))


def convolution(images, channels, training, name):
    """[batch, n, n, any] -> [batch, n/2, n/2, channels]: convolve, normalize, activate, pool."""
    with tf.variable_scope(name):
        features = tf.layers.conv2d(
            images,
            channels,
            3,
            padding="same",
            use_bias=False,
            kernel_initializer=tf.glorot_uniform_initializer(SEED),
            name="conv",
        )
        # Few steps: the moving averages have to follow quickly.
        features = tf.layers.batch_normalization(
            features, momentum=0.9, training=training, name="norm"
        )
        return tf.layers.max_pooling2d(tf.nn.relu(features, name="relu"), 2, 2, name="pool")


def dense(features, units, name):
    return tf.layers.dense(
        features, units, kernel_initializer=tf.glorot_uniform_initializer(SEED), name=name
    )


def model_fn(features, labels, mode, params):
    """The model; nothing in it knows about precision."""
    training = mode == tf.estimator.ModeKeys.TRAIN
    hidden = convolution(features, 32, training, "block1")
    hidden = convolution(hidden, 64, training, "block2")
    hidden = tf.nn.relu(dense(tf.layers.flatten(hidden), 64, "hidden"))
    logits = dense(hidden, 10, "logits")
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    accuracy = tf.metrics.accuracy(labels, tf.argmax(logits, axis=1))

    step = tf.train.get_global_step()
    optimizer = tf.train.MomentumOptimizer(
        tf.train.cosine_decay(0.05, step, params["steps"]), momentum=0.9
    )
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        train_op = optimizer.minimize(loss, global_step=step)
    return tf.estimator.EstimatorSpec(
        mode, loss=loss, train_op=train_op, eval_metric_ops={"accuracy": accuracy}
    )
