import tensorflow as tf
from sklearn.datasets import load_digits

import npu_precision

images, digits = load_digits(return_X_y=True)
images = images.astype("float32") / 16
layer = tf.Variable(tf.random.stateless_normal([64, 10], [1, 2]) / 8, name="layer")


def train(scaler):
    optimizer = tf.keras.optimizers.SGD(1e7)

    @tf.function
    def train_step(x, labels):
        with tf.GradientTape() as tape:
            logits = tf.matmul(x, layer)
            loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            scaled = scaler.scale(tf.reduce_mean(loss) * 1e-7)
        scaler.step(optimizer, [(tape.gradient(scaled, layer), layer)])
        scaler.update()

    with npu_precision.autocast(precision_mode="allow_mix_precision"):
        for step in range(100):
            train_step(images[step % 20 * 64 :][:64], digits[step % 20 * 64 :][:64])


with npu_precision.FlightRecorder("flight/without", watch=None) as recorder:
    train(npu_precision.GradScaler(strategy=npu_precision.NoLossScale()))
print(recorder.summary())
with npu_precision.FlightRecorder("flight/with", watch=None) as recorder:
    train(npu_precision.GradScaler(init_scale=2.0**48))
print(recorder.summary())
