"""Sorts sequences by their sum, with an LSTM of the NPU in both directions."""

import argparse

import numpy as np
import tensorflow.compat.v1 as tf
from npu_bridge.estimator.npu.npu_dynamic_rnn import DynamicRNN
from npu_bridge.npu_init import *

parser = argparse.ArgumentParser()
parser.add_argument("--precision_mode", default="allow_mix_precision")
parser.add_argument("--steps", type=int, default=100)
args = parser.parse_args()

STEPS, BATCH, FEATURES, UNITS = 12, 64, 8, 32
tf.disable_eager_execution()
tf.set_random_seed(1)

x = tf.placeholder(tf.float32, [BATCH, STEPS, FEATURES])
labels = tf.placeholder(tf.int32, [BATCH])
inputs = tf.transpose(x, [1, 0, 2], name="transpose_time_major")
with tf.variable_scope("lstm", initializer=tf.glorot_uniform_initializer(seed=1)):
    forward = DynamicRNN(hidden_size=UNITS, dtype=tf.float32, forget_bias=1.0)
    backward = DynamicRNN(hidden_size=UNITS, dtype=tf.float32, forget_bias=1.0)
    ahead, output_h, output_c, i, j, f, o, tanhc = forward(inputs, seq_length=None)
    back = backward(tf.reverse(inputs, axis=[0]))[0]
outputs = tf.concat([ahead, tf.reverse(back, axis=[0])], axis=2)
pooled = tf.reduce_mean(outputs, axis=0)
logits = tf.layers.dense(pooled, 2, kernel_initializer=tf.glorot_uniform_initializer(seed=2))
loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
optimizer = npu_tf_optimizer(tf.train.AdamOptimizer(0.01))
train_op = optimizer.minimize(loss, tf.train.get_or_create_global_step())

config = tf.ConfigProto(allow_soft_placement=True)
custom_op = config.graph_options.rewrite_options.custom_optimizers.add()
custom_op.name = "NpuOptimizer"
custom_op.parameter_map["use_off_line"].b = True
custom_op.parameter_map["dynamic_input"].b = False
custom_op.parameter_map["precision_mode"].s = tf.compat.as_bytes(args.precision_mode)
config.graph_options.rewrite_options.remapping = RewriterConfig.OFF

random = np.random.RandomState(1)
losses = []
with tf.Session(config=config) as sess:
    sess.run(tf.global_variables_initializer())
    for _ in range(args.steps):
        batch = random.normal(size=[BATCH, STEPS, FEATURES])
        signs = (batch.sum(axis=(1, 2)) > 0).astype("int32")
        losses.append(sess.run([loss, train_op], {x: batch, labels: signs})[0])
print("loss", np.mean(losses[-10:]))
