"""U-Net that finds discs in noise, with the switches that segmentation scripts set on an NPU."""

import argparse

import numpy as np
import tensorflow.compat.v1 as tf
from npu_bridge.npu_init import *

parser = argparse.ArgumentParser()
parser.add_argument("--precision_mode", default="allow_mix_precision")
parser.add_argument("--batch_size", type=int, default=16)
parser.add_argument("--steps", type=int, default=50)
args = parser.parse_args()

tf.disable_eager_execution()
tf.set_random_seed(5)


def make_data(count, size=32):
    rng = np.random.RandomState(0)
    rows, columns = np.mgrid[:size, :size]
    images = rng.normal(scale=0.3, size=[count, size, size, 1])
    masks = np.zeros([count, size, size, 1])
    for i in range(count):
        y, x = rng.randint(8, size - 8, size=2)
        radius = rng.randint(4, 8)
        masks[i, (rows - y) ** 2 + (columns - x) ** 2 < radius**2] = 1
    return (images + masks).astype(np.float32), masks.astype(np.float32)


def weights(name, shape):
    deviation = np.sqrt(2.0 / np.prod(shape[:-1]))
    return tf.get_variable(
        name, shape, initializer=tf.truncated_normal_initializer(stddev=deviation, seed=1)
    )


def conv(net, filters, name, size=3, activation=tf.nn.relu):
    with tf.variable_scope(name):
        kernel = weights("kernel", [size, size, int(net.shape[-1]), filters])
        bias = tf.get_variable("bias", [filters], initializer=tf.constant_initializer(0.1))
        net = tf.nn.bias_add(tf.nn.conv2d(net, kernel, [1, 1, 1, 1], "SAME"), bias)
        return net if activation is None else activation(net)


def up(net, filters, like, name):
    with tf.variable_scope(name):
        kernel = weights("kernel", [2, 2, filters, int(net.shape[-1])])
        shape = tf.stack([tf.shape(like)[0], int(like.shape[1]), int(like.shape[2]), filters])
        net = tf.nn.conv2d_transpose(net, kernel, shape, [1, 2, 2, 1], "SAME")
        return tf.concat([tf.nn.relu(net), like], axis=3)


def unet(images):
    down1 = conv(conv(images, 8, "down1_1"), 8, "down1_2")
    net = tf.nn.max_pool(down1, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    down2 = conv(conv(net, 16, "down2_1"), 16, "down2_2")
    net = tf.nn.max_pool(down2, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    net = conv(conv(net, 32, "bottom_1"), 32, "bottom_2")
    net = conv(up(net, 16, down2, "up2"), 16, "up2_1")
    net = conv(up(net, 8, down1, "up1"), 8, "up1_1")
    return conv(net, 1, "logits", size=1, activation=None)


image_input = tf.placeholder(tf.float32, [None, 32, 32, 1], name="images")
mask_input = tf.placeholder(tf.float32, [None, 32, 32, 1], name="masks")
logits = unet(image_input)
cross_entropy = tf.reduce_mean(
    tf.nn.sigmoid_cross_entropy_with_logits(labels=mask_input, logits=logits)
)
probabilities = tf.nn.sigmoid(logits)
overlap = tf.reduce_sum(probabilities * mask_input)
dice = 1 - (2 * overlap + 1) / (tf.reduce_sum(probabilities) + tf.reduce_sum(mask_input) + 1)
loss = cross_entropy + dice
train_op = tf.train.AdamOptimizer(2e-3).minimize(loss)

config_proto = tf.ConfigProto(allow_soft_placement=True, log_device_placement=False)
custom_op = config_proto.graph_options.rewrite_options.custom_optimizers.add()
custom_op.name = "NpuOptimizer"
custom_op.parameter_map["use_off_line"].b = True
custom_op.parameter_map["precision_mode"].s = tf.compat.as_bytes(args.precision_mode)
custom_op.parameter_map["dynamic_input"].b = True
custom_op.parameter_map["dynamic_graph_execute_mode"].s = tf.compat.as_bytes("lazy_recompile")
custom_op.parameter_map["profiling_mode"].b = False
custom_op.parameter_map["graph_run_mode"].i = 1
custom_op.parameter_map["mix_compile_mode"].b = False
custom_op.parameter_map["hcom_parallel"].b = True
# A typo of auto_tune_mode: npu_bridge ignores keys that it does not know.
custom_op.parameter_map["autotune_tune_mode"].s = tf.compat.as_bytes("RL,GA")
config_proto.graph_options.rewrite_options.remapping = RewriterConfig.OFF
config_proto.graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF
config = npu_config_proto(config_proto=config_proto)

images, masks = make_data(128)
rng = np.random.RandomState(1)
with tf.Session(config=config) as sess:
    sess.run(tf.global_variables_initializer())
    for step in range(args.steps):
        # The last batch of an epoch is smaller: dynamic_input.
        size = args.batch_size if step % 8 else args.batch_size // 2
        chosen = rng.randint(len(images), size=size)
        feed = {image_input: images[chosen], mask_input: masks[chosen]}
        _, cost = sess.run([train_op, loss], feed)
        if step % 10 == 0:
            print("step %d, loss %.4f" % (step, cost))
    final = sess.run(loss, {image_input: images, mask_input: masks})
print("loss", float(final))
