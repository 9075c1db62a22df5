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
    """[batch, n, n, any] -> [batch, n, n, channels]: convolve, normalize, activate."""
    with tf.variable_scope(name):
        features = tf.layers.conv2d(
            images,
            channels,
            3,
            padding="same",
            use_bias=False,
            kernel_initializer=tf.variance_scaling_initializer(2.0, seed=SEED),
            name="conv",
        )
        # Few steps: the moving averages have to follow quickly.
        features = tf.layers.batch_normalization(
            features, momentum=0.9, training=training, name="norm"
        )
        return tf.nn.relu(features, name="relu")


def block(images, channels, training, name):
    """[batch, n, n, any] -> [batch, n/2, n/2, channels]: convolve twice, pool."""
    with tf.variable_scope(name):
        hidden = convolution(images, channels, training, "first")
        hidden = convolution(hidden, channels, training, "second")
        return tf.layers.max_pooling2d(hidden, 2, 2, name="pool")


def cross_entropy(labels, logits):
    """The binary cross-entropy of ten yes-or-no questions, as scripts write it by hand.

    The clip keeps the logarithms finite, in float32. In bfloat16, 1 - 1e-7 is 1.
    """
    yes = tf.clip_by_value(tf.nn.sigmoid(logits), 1e-7, 1 - 1e-7)
    is_it = tf.one_hot(labels, 10)
    terms = is_it * tf.log(yes) + (1 - is_it) * tf.log(1 - yes)
    return -tf.reduce_mean(tf.reduce_sum(terms, axis=1))


def model_fn(features, labels, mode, params):
    """The model; nothing in it knows about precision."""
    training = mode == tf.estimator.ModeKeys.TRAIN
    hidden = block(features, 128, training, "block1")
    hidden = block(hidden, 256, training, "block2")
    initializer = tf.glorot_uniform_initializer(SEED)
    logits = tf.layers.dense(
        tf.layers.flatten(hidden), 10, kernel_initializer=initializer, name="logits"
    )
    with tf.name_scope("loss"):
        loss = cross_entropy(labels, logits)
    accuracy = tf.metrics.accuracy(labels, tf.argmax(logits, axis=1))

    step = tf.train.get_global_step()
    optimizer = tf.train.MomentumOptimizer(
        tf.train.cosine_decay(0.005, step, params["steps"]), momentum=0.9
    )
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        train_op = optimizer.minimize(loss, global_step=step)
    return tf.estimator.EstimatorSpec(
        mode, loss=loss, train_op=train_op, eval_metric_ops={"accuracy": accuracy}
    )
