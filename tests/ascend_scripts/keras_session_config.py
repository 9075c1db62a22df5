"""A convolutional Keras model of the digits, in the session that npu_bridge gives to Keras."""

import argparse
import random

import numpy as np
import tensorflow.compat.v1 as tf
from npu_bridge.npu_init import *
from sklearn.datasets import load_digits

parser = argparse.ArgumentParser()
parser.add_argument("--precision_mode", default="allow_mix_precision")
parser.add_argument("--batch_size", type=int, default=64)
parser.add_argument("--epochs", type=int, default=12)
args = parser.parse_args()

tf.disable_eager_execution()
random.seed(1)
tf.set_random_seed(1)
np.random.seed(1)

sess_config = tf.ConfigProto(allow_soft_placement=True)
custom_op = sess_config.graph_options.rewrite_options.custom_optimizers.add()
custom_op.name = "NpuOptimizer"
custom_op.parameter_map["precision_mode"].s = tf.compat.as_bytes(args.precision_mode)
custom_op.parameter_map["iterations_per_loop"].i = 1
sess_config.graph_options.rewrite_options.remapping = RewriterConfig.OFF
sess_config.graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF
sess = set_keras_session_npu_config(config=sess_config)

images, labels = load_digits(return_X_y=True)
images = images.reshape([-1, 8, 8, 1]).astype(np.float32) / 16

layers = tf.keras.layers
model = tf.keras.Sequential(
    [
        layers.Conv2D(16, 3, padding="same", input_shape=(8, 8, 1)),
        layers.BatchNormalization(momentum=0.9),
        layers.ReLU(),
        layers.MaxPooling2D(),
        layers.Conv2D(32, 3, padding="same", activation="relu"),
        layers.GlobalAveragePooling2D(),
        layers.Dense(64, activation="relu"),
        layers.Dropout(0.2, seed=7),
        layers.Dense(10),
    ]
)
optimizer = npu_keras_optimizer(tf.keras.optimizers.Adam(1e-3))
model.compile(
    optimizer=optimizer,
    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
callbacks = npu_callbacks_append()
history = model.fit(
    images,
    labels,
    batch_size=args.batch_size,
    epochs=args.epochs,
    shuffle=False,
    verbose=2,
    callbacks=callbacks,
)
_, accuracy = model.evaluate(images, labels, batch_size=args.batch_size, verbose=0)
close_session(sess)
print("accuracy", float(accuracy))
print("loss", float(history.history["loss"][-1]))
