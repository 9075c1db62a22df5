import tensorflow as tf
from sklearn.datasets import load_digits

import npu_precision

images, digits = load_digits(return_X_y=True)
images = images.astype("float32") / 16
tf.keras.utils.set_random_seed(1)
dense = tf.keras.layers.Dense
model = tf.keras.Sequential([dense(128, "relu", name="hidden"), dense(10, name="digits")])
loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile("adam", loss, jit_compile=False)

recorder = npu_precision.FlightRecorder("flight", every_n_steps=20)
with recorder, npu_precision.autocast(dtype="float16"):
    model.fit(images, digits, batch_size=64, epochs=10, verbose=0)
print(recorder.summary())
