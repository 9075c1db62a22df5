import tensorflow as tf
from sklearn.datasets import load_digits

import npu_precision

images, digits = load_digits(return_X_y=True)
images = images.astype("float32") / 16
model = tf.keras.Sequential([tf.keras.layers.Dense(128, "relu"), tf.keras.layers.Dense(10)])
compute_loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer = tf.keras.optimizers.Adam(0.01)
scaler = npu_precision.GradScaler(init_scale=2.0**24)


@tf.function
def train_step(x, labels):
    with tf.GradientTape() as tape:
        loss = compute_loss(labels, model(x))
        scaled = scaler.scale(loss)
    gradients = tape.gradient(scaled, model.trainable_variables)
    gradients = scaler.unscale_(optimizer, gradients)
    gradients, _ = tf.clip_by_global_norm(gradients, 1.0)
    made = scaler.step(optimizer, zip(gradients, model.trainable_variables))
    scaler.update()
    return loss, made


with npu_precision.autocast(precision_mode="allow_mix_precision"):
    for step in range(200):
        batch = slice(step % 20 * 64, step % 20 * 64 + 64)
        value, made = train_step(images[batch], digits[batch])
print("made", 200 - int(scaler.skipped_steps), "of 200 steps")
print(f"last: loss {value:.2f}, scale {scaler.get_scale():.0f}, made {bool(made)}")
