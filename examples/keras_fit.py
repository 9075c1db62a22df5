import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

import npu_precision

images, digits = load_digits(return_X_y=True)
images = images.astype("float32") / 16
dense, inputs = tf.keras.layers.Dense, tf.keras.Input([64], name="inputs")
model = tf.keras.Sequential([inputs, dense(128, "relu", name="hidden"), dense(10, name="logits")])
loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile("adam", loss, metrics=["accuracy"])

# Applies to every tf.function from here on, so also to Keras' fit and predict.
npu_precision.enable(precision_mode="allow_mix_precision_bf16", report_dir="ledgers")
history = model.fit(images, digits, epochs=3, verbose=0).history
npu_precision.disable()
print("accuracy", history["accuracy"][-1])

model.export("model")  # Before TensorFlow 2.13: tf.saved_model.save(model, "model")
np.savez("inputs.npz", inputs=images)
