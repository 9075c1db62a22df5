"""A small ResNet on digits, with npu_device in Keras' fit()."""

import argparse
import ast
import os

import npu_device as npu
import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

parser = argparse.ArgumentParser()
parser.add_argument("--precision_mode", default="allow_mix_precision")
parser.add_argument("--mixlist_file", default="")
parser.add_argument("--data_dump_flag", type=ast.literal_eval, default=False)
parser.add_argument("--data_dump_path", default="dump")
parser.add_argument("--profiling", type=ast.literal_eval, default=False)
parser.add_argument("--auto_tune", type=ast.literal_eval, default=False)
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--batch_size", type=int, default=128)
args = parser.parse_args()


def npu_config():
    npu.global_options().precision_mode = args.precision_mode
    npu.global_options().modify_mixlist = args.mixlist_file
    npu.global_options().op_debug_level = 0
    npu.global_options().hcom_parallel = False
    if args.data_dump_flag:
        npu.global_options().dump_config.enable_dump = True
        npu.global_options().dump_config.dump_path = args.data_dump_path
        npu.global_options().dump_config.dump_step = "0|5"
        npu.global_options().dump_config.dump_mode = "all"
    if args.profiling:
        npu.global_options().profiling_config.enable_profiling = True
        npu.global_options().profiling_config.profiling_options = '{"training_trace": "on"}'
    if args.auto_tune:
        npu.global_options().auto_tune_mode = "RL,GA"
    npu.open(int(os.environ.get("ASCEND_DEVICE_ID", "0"))).as_default()


def residual_block(x, filters):
    shortcut = tf.keras.layers.Conv2D(filters, 1, padding="same")(x)
    x = tf.keras.layers.Conv2D(filters, 3, padding="same", use_bias=False)(x)
    x = tf.keras.layers.BatchNormalization()(x)
    x = tf.keras.layers.ReLU()(x)
    x = tf.keras.layers.Conv2D(filters, 3, padding="same")(x)
    return tf.keras.layers.ReLU()(tf.keras.layers.Add()([x, shortcut]))


def build_model():
    inputs = tf.keras.Input([8, 8, 1])
    x = residual_block(inputs, 8)
    x = tf.keras.layers.MaxPooling2D()(x)
    x = residual_block(x, 16)
    x = tf.keras.layers.GlobalAveragePooling2D()(x)
    return tf.keras.Model(inputs, tf.keras.layers.Dense(10, name="logits")(x))


def main():
    npu_config()
    tf.keras.utils.set_random_seed(1)
    images, labels = load_digits(return_X_y=True)
    images = (images.reshape(-1, 8, 8, 1) / 16).astype(np.float32)
    data = tf.data.Dataset.from_tensor_slices((images, labels))
    data = data.shuffle(2000, seed=1).batch(args.batch_size, drop_remainder=True).prefetch(2)

    model = build_model()
    optimizer = npu.train.optimizer.NpuLossScaleOptimizer(
        tf.keras.optimizers.Adam(1e-2), initial_scale=1024.0, dynamic_growth_steps=1000
    )
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=optimizer, loss=loss, metrics=["accuracy"])
    history = model.fit(data, epochs=args.epochs, verbose=2)
    print("accuracy", history.history["accuracy"][-1])
    print("loss", history.history["loss"][-1])


if __name__ == "__main__":
    main()
