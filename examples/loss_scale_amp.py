import tensorflow as tf
from sklearn.datasets import load_digits

from npu_precision import amp

images, digits = load_digits(return_X_y=True)
images = images.astype("float32") / 16
model = tf.keras.Sequential([tf.keras.layers.Dense(128, "relu"), tf.keras.layers.Dense(10)])
compute_loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model, optimizer = amp.initialize(model, tf.keras.optimizers.Adam(0.01), opt_level="O2")


@tf.function
def train_step(x, labels):
    with tf.GradientTape() as tape:
        loss = compute_loss(labels, model(x))
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            gradients = tape.gradient(scaled_loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


for step in range(200):
    batch = slice(step % 20 * 64, step % 20 * 64 + 64)
    value = train_step(images[batch], digits[batch])
scale = amp.state_dict()["loss_scaler0"]["loss_scale"]
print("made", int(optimizer.iterations), "of 200 steps")
print(f"last: loss {value:.2f}, scale {scale:.0f}")
