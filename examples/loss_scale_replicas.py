import tensorflow as tf
from sklearn.datasets import load_digits

import npu_precision

# Two replicas on one CPU, to try it; with GPUs, MirroredStrategy() is enough.
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])

images, digits = load_digits(return_X_y=True)
data = tf.data.Dataset.from_tensor_slices((images.astype("float32") / 16, digits))
data = data.batch(64, drop_remainder=True).repeat().take(200)
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(128, "relu"), tf.keras.layers.Dense(10)])
    optimizer = tf.keras.optimizers.Adam(0.01)
    scaler = npu_precision.GradScaler(init_scale=2.0**24)


def in_each_replica(x, labels):
    with tf.GradientTape() as tape:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, model(x))
        loss = tf.nn.compute_average_loss(losses, global_batch_size=64)
        scaled = scaler.scale(loss)
    gradients = tape.gradient(scaled, model.trainable_variables)
    made = scaler.step(optimizer, zip(gradients, model.trainable_variables))
    scaler.update()
    return loss, made


@tf.function
def train_step(x, labels):
    losses, made = strategy.run(in_each_replica, args=(x, labels))
    return strategy.reduce("SUM", losses, axis=None), strategy.experimental_local_results(made)[0]


with npu_precision.autocast(precision_mode="allow_mix_precision"):
    for batch in strategy.experimental_distribute_dataset(data):
        value, made = train_step(*batch)
print("made", 200 - scaler.skipped_steps.numpy(), "of 200 steps")
print(f"last: loss {value:.2f}, scale {scaler.get_scale():.0f}, made {bool(made)}")
