"""The demo's data, scikit-learn's handwritten digits, and its model, a convolutional net."""

import functools

import numpy as np
import tensorflow as tf
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


def training_batches(steps):
    """Batches of (images, labels), as many as there are steps; the same in every call."""
    images, labels = digits()
    data = tf.data.Dataset.from_tensor_slices((images[HELD_OUT:], labels[HELD_OUT:]))
    return data.shuffle(len(labels), seed=SEED).repeat().batch(BATCH).take(steps)


def held_out():
    """The images that training never sees, and their labels."""
    images, labels = digits()
    return images[:HELD_OUT], labels[:HELD_OUT]


def convolution(hidden, channels, name):
    """[batch, n, n, any] -> [batch, n, n, channels]: convolve, normalize, activate."""
    layers = tf.keras.layers
    convolve = layers.Conv2D(
        channels,
        3,
        padding="same",
        use_bias=False,
        kernel_initializer=tf.keras.initializers.HeNormal(SEED),
        name=f"{name}_conv",
    )
    # Few steps: the moving averages have to follow quickly.
    normalize = layers.BatchNormalization(momentum=0.9, name=f"{name}_norm")
    return layers.ReLU(name=f"{name}_relu")(normalize(convolve(hidden)))


def make_model():
    """The model, with the same initial weights in every call; it knows nothing about precision."""
    layers = tf.keras.layers
    inputs = hidden = tf.keras.Input([8, 8, 1], name="images")
    for number, channels in enumerate((128, 256), 1):
        hidden = convolution(hidden, channels, f"first{number}")
        hidden = convolution(hidden, channels, f"second{number}")
        hidden = layers.MaxPooling2D(name=f"pool{number}")(hidden)
    initializer = tf.keras.initializers.GlorotUniform(SEED)
    classify = layers.Dense(10, kernel_initializer=initializer, name="logits")
    return tf.keras.Model(inputs, classify(layers.Flatten(name="flatten")(hidden)), name="digits")


def cross_entropy(labels, logits):
    """The binary cross-entropy of ten yes-or-no questions, as scripts write it by hand.

    The clip keeps the logarithms finite, in float32. In bfloat16, 1 - 1e-7 is 1.
    """
    yes = tf.clip_by_value(tf.nn.sigmoid(logits), 1e-7, 1 - 1e-7)
    is_it = tf.one_hot(labels, 10)
    terms = is_it * tf.math.log(yes) + (1 - is_it) * tf.math.log(1 - yes)
    return -tf.reduce_mean(tf.reduce_sum(terms, axis=1))


def make_train_step(model, steps):
    """A tf.function that makes a training step with a batch and returns the loss."""
    optimizer = tf.keras.optimizers.SGD(
        tf.keras.optimizers.schedules.CosineDecay(0.005, steps), momentum=0.9
    )

    @tf.function
    def train_step(images, labels):
        with tf.GradientTape() as tape:
            logits = model(images, training=True)
            with tf.name_scope("loss"):
                loss = cross_entropy(labels, logits)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss

    return train_step
