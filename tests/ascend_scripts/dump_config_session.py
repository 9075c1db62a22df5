"""A classifier of digits that dumps the tensors of two steps, as users do to compare operators."""

import argparse
import os
import tempfile

import numpy as np
import tensorflow.compat.v1 as tf
from npu_bridge.npu_init import *
from sklearn.datasets import load_digits

parser = argparse.ArgumentParser()
parser.add_argument("--precision_mode", default="allow_mix_precision")
parser.add_argument("--steps", type=int, default=40)
parser.add_argument("--dump_path", default="")
args = parser.parse_args()

tf.disable_eager_execution()
tf.set_random_seed(1)
dump_path = args.dump_path or tempfile.mkdtemp()
images, digits = load_digits(return_X_y=True)
images = (images / 16).astype("float32")

features = tf.placeholder(tf.float32, [None, 64], name="features")
labels = tf.placeholder(tf.int64, [None], name="labels")
hidden = tf.layers.dense(
    features,
    64,
    tf.nn.relu,
    kernel_initializer=tf.glorot_uniform_initializer(seed=1),
    name="hidden",
)
with npu_scope.keep_dtype_scope():
    logits = tf.layers.dense(
        hidden, 10, kernel_initializer=tf.glorot_uniform_initializer(seed=2), name="logits"
    )
loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
train_op = tf.train.AdamOptimizer(0.01).minimize(loss)

config = tf.ConfigProto()
custom_op = config.graph_options.rewrite_options.custom_optimizers.add()
custom_op.name = "NpuOptimizer"
custom_op.parameter_map["use_off_line"].b = True
custom_op.parameter_map["precision_mode"].s = tf.compat.as_bytes(args.precision_mode)
custom_op.parameter_map["enable_dump"].b = True
custom_op.parameter_map["dump_path"].s = tf.compat.as_bytes(dump_path)
custom_op.parameter_map["dump_step"].s = tf.compat.as_bytes("0|30")
custom_op.parameter_map["dump_mode"].s = tf.compat.as_bytes("all")
config.graph_options.rewrite_options.remapping = RewriterConfig.OFF
config.graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF

with tf.Session(config=config) as sess:
    sess.run(tf.global_variables_initializer())
    for _ in range(args.steps):
        cost, _ = sess.run([loss, train_op], {features: images, labels: digits})

products = [
    np.load(os.path.join(folder, name))
    for folder, _, names in os.walk(dump_path)
    for name in names
    if ".logits_MatMul." in name and ".output.0." in name
]
print("dumped", len(products), products[0].shape, float(np.abs(products[0]).max()) < 100)
print("loss", cost)
