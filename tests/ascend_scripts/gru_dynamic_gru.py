"""Remembers the first word of a sequence, with a GRU of the NPU, in a loop of iterations."""

import argparse

import numpy as np
import tensorflow.compat.v1 as tf
from npu_bridge.estimator.npu import util
from npu_bridge.estimator.npu.npu_dynamic_rnn import DynamicGRUV2
from npu_bridge.npu_init import *

parser = argparse.ArgumentParser()
parser.add_argument("--precision_mode", default="allow_mix_precision")
parser.add_argument("--steps", type=int, default=240)
parser.add_argument("--iterations_per_loop", type=int, default=10)
args = parser.parse_args()

WORDS, STEPS, BATCH, UNITS = 8, 10, 64, 32
tf.disable_eager_execution()
tf.set_random_seed(1)

random = np.random.RandomState(1)
sentences = random.randint(0, WORDS, [4096, STEPS]).astype("int32")
lengths = random.randint(3, STEPS + 1, [4096]).astype("int32")
dataset = tf.data.Dataset.from_tensor_slices((sentences, lengths))
dataset = dataset.repeat().batch(BATCH, drop_remainder=True)
iterator = tf.data.make_initializable_iterator(dataset)
words, length = iterator.get_next()

embedded = tf.one_hot(tf.transpose(words), WORDS)
with tf.variable_scope("gru", initializer=tf.glorot_uniform_initializer(seed=1)):
    gru = DynamicGRUV2(hidden_size=UNITS, dtype=tf.float32)
    y, output_h, update, reset, new, hidden_new = gru(embedded, seq_length=length, init_h=None)
logits = tf.layers.dense(
    output_h[-1], WORDS, kernel_initializer=tf.glorot_uniform_initializer(seed=2)
)
loss = tf.losses.sparse_softmax_cross_entropy(words[:, 0], logits)
step = tf.train.get_or_create_global_step()
train_op = tf.train.AdamOptimizer(0.02).minimize(loss, step)

config = tf.ConfigProto(allow_soft_placement=True)
custom_op = config.graph_options.rewrite_options.custom_optimizers.add()
custom_op.name = "NpuOptimizer"
custom_op.parameter_map["use_off_line"].b = True
custom_op.parameter_map["enable_data_pre_proc"].b = True
custom_op.parameter_map["iterations_per_loop"].i = args.iterations_per_loop
custom_op.parameter_map["precision_mode"].s = tf.compat.as_bytes(args.precision_mode)
config.graph_options.rewrite_options.remapping = RewriterConfig.OFF

with tf.Session(config=config) as sess:
    sess.run(iterator.initializer)
    sess.run(tf.global_variables_initializer())
    train_op = util.set_iteration_per_loop(sess, train_op, args.iterations_per_loop)
    losses = []
    for _ in range(args.steps // args.iterations_per_loop):
        losses.append(sess.run([train_op, loss])[1])
    print("steps", sess.run(step))
print("loss", np.mean(losses[-3:]))
