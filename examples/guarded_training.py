import pathlib

import tensorflow as tf
from sklearn.datasets import load_digits

import npu_precision

images, digits = load_digits(return_X_y=True)
images = images.astype("float32") * 16  # From 0 to 255, as many data sets have them.
layers = tf.keras.layers


def wide(name):
    """A layer that begins too wide: values grow from one to the next."""
    initializer = tf.keras.initializers.RandomNormal(stddev=1.0)
    return layers.Dense(128, "relu", kernel_initializer=initializer, name=name)


def trained(callbacks):
    tf.keras.utils.set_random_seed(1)
    model = tf.keras.Sequential(
        [
            tf.keras.Input([64]),
            wide("first"),
            wide("second"),
            wide("third"),
            layers.BatchNormalization(name="norm"),
            layers.Dense(10, name="digits"),
        ],
        name="model",
    )
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, jit_compile=False)
    with npu_precision.autocast(dtype="float16"):
        history = model.fit(images, digits, epochs=3, verbose=0, callbacks=callbacks).history
    return history["loss"][-1]


print(f"loss {trained([]):.2f}")
guard = npu_precision.PrecisionGuard(mixlist="healed.json")
print(f"loss {trained([guard]):.2f}, heals: {guard.heals}")
print(pathlib.Path("healed.json").read_text(), end="")
