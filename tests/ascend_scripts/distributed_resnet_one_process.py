"""A residual network over the ranks of HCCL: each rank takes its part of the data.

Without RANK_ID and RANK_SIZE there is one rank, which takes all the data.
"""

import argparse

import numpy as np
import tensorflow.compat.v1 as tf
from hccl.manage.api import get_local_rank_id, get_rank_id, get_rank_size
from npu_bridge.hccl import hccl_ops
from npu_bridge.npu_init import *
from sklearn.datasets import load_digits

parser = argparse.ArgumentParser()
parser.add_argument("--precision_mode", default="allow_mix_precision")
parser.add_argument("--batch_size", type=int, default=64)
parser.add_argument("--steps", type=int, default=60)
args = parser.parse_args()

tf.disable_eager_execution()
tf.set_random_seed(1)
rank, size = get_rank_id(), get_rank_size()
print("rank %d of %d, local rank %d" % (rank, size, get_local_rank_id()))


def conv(net, filters, strides, name):
    kernel = tf.get_variable(
        name,
        [3, 3, int(net.shape[-1]), filters],
        initializer=tf.truncated_normal_initializer(
            stddev=np.sqrt(2.0 / (9 * int(net.shape[-1]))), seed=1
        ),
    )
    return tf.nn.conv2d(net, kernel, [1, strides, strides, 1], "SAME")


def batch_norm(net, name):
    with tf.variable_scope(name):
        channels = int(net.shape[-1])
        gamma = tf.get_variable("gamma", [channels], initializer=tf.ones_initializer())
        beta = tf.get_variable("beta", [channels], initializer=tf.zeros_initializer())
        return tf.nn.fused_batch_norm(net, gamma, beta, is_training=True)[0]


def block(net, filters, strides, name):
    with tf.variable_scope(name):
        shortcut = net
        if strides != 1 or int(net.shape[-1]) != filters:
            shortcut = batch_norm(conv(net, filters, strides, "shortcut"), "shortcut_bn")
        net = tf.nn.relu(batch_norm(conv(net, filters, strides, "conv1"), "bn1"))
        net = batch_norm(conv(net, filters, 1, "conv2"), "bn2")
        return tf.nn.relu(net + shortcut)


images, labels = load_digits(return_X_y=True)
images = images.reshape([-1, 8, 8, 1]).astype(np.float32) / 16
data = tf.data.Dataset.from_tensor_slices((images, labels)).shard(size, rank)
data = data.shuffle(2000, seed=1).repeat().batch(args.batch_size, drop_remainder=True)
image_batch, label_batch = tf.data.make_one_shot_iterator(data).get_next()

net = tf.nn.relu(batch_norm(conv(image_batch, 16, 1, "stem"), "stem_bn"))
net = block(net, 16, 1, "block1")
net = block(net, 32, 2, "block2")
net = tf.reduce_mean(net, axis=[1, 2])
weights = tf.get_variable("weights", [32, 10], initializer=tf.glorot_uniform_initializer(seed=1))
logits = tf.matmul(net, weights) + tf.get_variable(
    "biases", [10], initializer=tf.zeros_initializer()
)
loss = tf.reduce_mean(
    tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label_batch, logits=logits)
)
mean_loss = hccl_ops.allreduce(loss, "sum") / size

global_step = tf.train.get_or_create_global_step()
rate = tf.train.piecewise_constant(global_step, [args.steps // 2], [0.05 * size, 0.01 * size])
optimizer = NPUDistributedOptimizer(tf.train.MomentumOptimizer(rate, 0.9))
train_op = optimizer.minimize(loss, global_step=global_step)

variables = tf.trainable_variables()
synchronize = tf.group(
    *[
        tf.assign(variable, value)
        for variable, value in zip(
            variables, hccl_ops.broadcast([v.read_value() for v in variables], 0)
        )
    ]
)

config = tf.ConfigProto(allow_soft_placement=True)
custom_op = config.graph_options.rewrite_options.custom_optimizers.add()
custom_op.name = "NpuOptimizer"
custom_op.parameter_map["use_off_line"].b = True
custom_op.parameter_map["precision_mode"].s = tf.compat.as_bytes(args.precision_mode)
custom_op.parameter_map["hcom_parallel"].b = True
config.graph_options.rewrite_options.remapping = RewriterConfig.OFF

losses = []
hooks = npu_hooks_append(hooks_list=[tf.train.StopAtStepHook(last_step=args.steps)])
with tf.train.MonitoredTrainingSession(config=config, hooks=hooks) as sess:
    sess.run_step_fn(lambda step_context: step_context.session.run(synchronize))
    while not sess.should_stop():
        _, cost = sess.run([train_op, mean_loss])
        losses.append(cost)
        if len(losses) % 20 == 1 and rank == 0:
            print("step %d, loss %.4f" % (len(losses), cost))
print("loss", float(np.mean(losses[-10:])))
