import tensorflow as tf
from sklearn.datasets import load_digits

from npu_precision import amp

images, digits = load_digits(return_X_y=True)
images = images.astype("float32") / 16
model = tf.keras.Sequential([tf.keras.layers.Dense(128, "relu"), tf.keras.layers.Dense(10)])
optimizer = amp.optimizers.NpuFusedAdamW(lr=0.01, weight_decay=0.1, global_clipnorm=1.0)
amp.initialize(optimizer, "O2")

loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(optimizer, loss, metrics=["accuracy"])
history = model.fit(images, digits, batch_size=64, epochs=10, verbose=0).history
print(f"accuracy {history['accuracy'][-1]:.3f}")
