import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

images, digits = load_digits(return_X_y=True)
images = images.astype("float32") / 16


def training(seed):
    dense = tf.keras.layers.Dense
    model = tf.keras.Sequential([dense(128, "relu", name="hidden"), dense(10, name="digits")])
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, jit_compile=False)
    order = np.random.default_rng(seed).permutation(len(images))
    data = tf.data.Dataset.from_tensor_slices((images[order], digits[order]))
    return model, data.batch(64, drop_remainder=True)
