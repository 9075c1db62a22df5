"""CRNN that reads lines of digits: convolutions, an LSTM by dynamic_rnn, and the CTC loss."""

import argparse
import random

import numpy as np
import tensorflow.compat.v1 as tf
from npu_bridge.estimator.npu import npu_scope
from npu_bridge.npu_init import *
from sklearn.datasets import load_digits

LENGTH, CLASSES = 4, 11  # Digits in a line; the last class is the blank.
WIDTH = 8 * LENGTH

parser = argparse.ArgumentParser()
parser.add_argument("--precision_mode", default="allow_mix_precision")
parser.add_argument("--batch_size", type=int, default=32)
parser.add_argument("--steps", type=int, default=60)
parser.add_argument("--hidden", type=int, default=48)
args = parser.parse_args()

tf.disable_eager_execution()
random.seed(1)
tf.set_random_seed(1)


def make_lines(count):
    digits = load_digits()
    chosen = np.random.RandomState(0).randint(len(digits.images), size=[count, LENGTH])
    lines = np.concatenate([digits.images[chosen[:, i]] for i in range(LENGTH)], axis=2)
    return lines[..., np.newaxis].astype(np.float32) / 16, digits.target[chosen].astype(np.int32)


def features(images):
    net = tf.layers.conv2d(images, 16, 3, padding="same", activation=tf.nn.relu, name="conv1")
    net = tf.layers.max_pooling2d(net, 2, 2)
    net = tf.layers.conv2d(net, 32, 3, padding="same", name="conv2")
    net = tf.nn.relu(tf.layers.batch_normalization(net, training=True, name="bn2"))
    net = tf.transpose(net, [0, 2, 1, 3])  # Columns become steps.
    return tf.reshape(net, [-1, WIDTH // 2, 4 * 32])


image_input = tf.placeholder(tf.float32, [args.batch_size, 8, WIDTH, 1], name="images")
label_input = tf.placeholder(tf.int32, [args.batch_size, LENGTH], name="labels")
cell = tf.nn.rnn_cell.LSTMCell(args.hidden)
steps = tf.fill([args.batch_size], WIDTH // 2)
outputs, _ = tf.nn.dynamic_rnn(cell, features(image_input), sequence_length=steps, dtype=tf.float32)
logits = tf.transpose(tf.layers.dense(outputs, CLASSES, name="logits"), [1, 0, 2])

with npu_scope.without_npu_compile_scope():
    indices = np.stack(np.meshgrid(range(args.batch_size), range(LENGTH), indexing="ij"), -1)
    labels = tf.SparseTensor(
        indices.reshape([-1, 2]), tf.reshape(label_input, [-1]), [args.batch_size, LENGTH]
    )
    loss = tf.reduce_mean(tf.nn.ctc_loss(labels, logits, steps))
    decoded, _ = tf.nn.ctc_greedy_decoder(logits, steps)
    mistakes = tf.reduce_mean(tf.edit_distance(tf.cast(decoded[0], tf.int32), labels))

optimizer = npu_tf_optimizer(tf.train.AdamOptimizer(5e-3))
gradients, variables = zip(*optimizer.compute_gradients(loss))
clipped, _ = tf.clip_by_global_norm(gradients, 5.0)
train_op = optimizer.apply_gradients(zip(clipped, variables))

config = tf.ConfigProto(allow_soft_placement=True)
custom_op = config.graph_options.rewrite_options.custom_optimizers.add()
custom_op.name = "NpuOptimizer"
custom_op.parameter_map["use_off_line"].b = True
custom_op.parameter_map["mix_compile_mode"].b = True
custom_op.parameter_map["precision_mode"].s = tf.compat.as_bytes(args.precision_mode)
config.graph_options.rewrite_options.remapping = RewriterConfig.OFF
config.graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF

images, texts = make_lines(512)
rng = np.random.RandomState(1)
losses = []
with tf.Session(config=config) as sess:
    sess.run(tf.global_variables_initializer())
    for step in range(args.steps):
        chosen = rng.randint(len(images), size=args.batch_size)
        feed = {image_input: images[chosen], label_input: texts[chosen]}
        _, cost, wrong = sess.run([train_op, loss, mistakes], feed)
        losses.append(cost)
        if step % 20 == 0:
            print("step %d, loss %.4f, edit distance %.3f" % (step, cost, wrong))
print("loss", float(np.mean(losses[-10:])))
