"""DCGAN on the digits of scikit-learn, in a session: two networks, two scaled optimizers."""

import argparse
import random

import numpy as np
import tensorflow.compat.v1 as tf
from npu_bridge.npu_init import *
from sklearn.datasets import load_digits

parser = argparse.ArgumentParser()
parser.add_argument("--precision_mode", default="allow_mix_precision")
parser.add_argument("--batch_size", type=int, default=64)
parser.add_argument("--steps", type=int, default=60)
parser.add_argument("--z_dim", type=int, default=16)
args = parser.parse_args()

tf.disable_eager_execution()
random.seed(1)
tf.set_random_seed(1)


def generator(z):
    with tf.variable_scope("generator"):
        net = tf.layers.dense(z, 4 * 4 * 32, activation=tf.nn.relu, name="project")
        net = tf.reshape(net, [-1, 4, 4, 32])
        net = tf.layers.conv2d_transpose(net, 16, 3, strides=2, padding="same", name="up")
        net = tf.nn.relu(tf.layers.batch_normalization(net, training=True, name="bn"))
        return tf.layers.conv2d(net, 1, 3, padding="same", activation=tf.nn.tanh, name="image")


def discriminator(images, reuse=False):
    with tf.variable_scope("discriminator", reuse=reuse):
        net = tf.layers.conv2d(images, 16, 3, strides=2, padding="same", name="conv1")
        net = tf.nn.leaky_relu(net)
        net = tf.layers.conv2d(net, 32, 3, strides=2, padding="same", name="conv2")
        net = tf.nn.leaky_relu(tf.layers.batch_normalization(net, training=True, name="bn"))
        return tf.layers.dense(tf.layers.flatten(net), 1, name="logits")


def cross_entropy(logits, value):
    labels = tf.ones_like(logits) * value
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(logits=logits, labels=labels))


def scaled(optimizer):
    manager = ExponentialUpdateLossScaleManager(
        init_loss_scale=2**12, incr_every_n_steps=1000, decr_every_n_nan_or_inf=2, decr_ratio=0.5
    )
    return NPULossScaleOptimizer(optimizer, manager)


real = tf.placeholder(tf.float32, [args.batch_size, 8, 8, 1], name="real")
noise = tf.placeholder(tf.float32, [args.batch_size, args.z_dim], name="noise")
fake = generator(noise)
real_logits = discriminator(real)
fake_logits = discriminator(fake, reuse=True)
d_loss = cross_entropy(real_logits, 0.9) + cross_entropy(fake_logits, 0.0)
g_loss = cross_entropy(fake_logits, 1.0)

d_vars = [v for v in tf.trainable_variables() if v.name.startswith("discriminator")]
g_vars = [v for v in tf.trainable_variables() if v.name.startswith("generator")]
d_train = scaled(tf.train.AdamOptimizer(2e-4, beta1=0.5)).minimize(d_loss, var_list=d_vars)
g_train = scaled(tf.train.AdamOptimizer(2e-4, beta1=0.5)).minimize(g_loss, var_list=g_vars)

config = tf.ConfigProto()
custom_op = config.graph_options.rewrite_options.custom_optimizers.add()
custom_op.name = "NpuOptimizer"
custom_op.parameter_map["use_off_line"].b = True
custom_op.parameter_map["precision_mode"].s = tf.compat.as_bytes(args.precision_mode)
config.graph_options.rewrite_options.remapping = RewriterConfig.OFF
config.graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF

images = (load_digits().images[..., np.newaxis] / 8 - 1).astype(np.float32)
rng = np.random.RandomState(0)
losses = []
with tf.Session(config=config) as sess:
    sess.run(tf.global_variables_initializer())
    for step in range(args.steps):
        batch = images[rng.randint(len(images), size=args.batch_size)]
        z = rng.uniform(-1, 1, [args.batch_size, args.z_dim])
        _, d_cost = sess.run([d_train, d_loss], {real: batch, noise: z})
        _, g_cost = sess.run([g_train, g_loss], {real: batch, noise: z})
        losses.append(d_cost + g_cost)
        if step % 20 == 0:
            print("step %d, d_loss %.4f, g_loss %.4f" % (step, d_cost, g_cost))
print("loss", float(np.mean(losses[-10:])))
