"""Counts the nodes that are lowered around batch norms: ordinary ones, and those over replicas."""

import pathlib

import tensorflow as tf

import npu_precision
from npu_precision.amp.parallel import convert_syncbn_model

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
layers = tf.keras.layers


def lowered(name, convert, **batch_norm):
    npu_precision.enable(precision_mode="allow_mix_precision_bf16", report_dir=name)
    with strategy.scope():
        block = [layers.Conv2D(16, 3), layers.BatchNormalization(**batch_norm), layers.ReLU()]
        model = convert(tf.keras.Sequential([layers.Input([32, 32, 3]), *block]))

    def replica(images):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(images, training=True) ** 2)
        return tape.gradient(loss, model.trainable_variables)

    tf.function(lambda images: strategy.run(replica, args=(images,)))(tf.zeros([8, 32, 32, 3]))
    (report,) = pathlib.Path(name).glob("*lambda*.json")
    totals = npu_precision.Ledger.from_json(report.read_text()).totals
    print(name, totals["lowered"], "lowered,", totals["cast_bytes"], "bytes of casts")


lowered("ordinary", lambda model: model)
lowered("of_keras", lambda model: model, synchronized=True)
lowered("of_amp", convert_syncbn_model)
