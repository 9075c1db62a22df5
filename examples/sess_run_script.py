# ruff: noqa: F403, F405 - the star import is how npu_bridge scripts have it.
from sklearn.datasets import load_digits

from npu_precision.npu_init import *

tf.disable_eager_execution()
features = tf.placeholder(tf.float32, [None, 64])
labels = tf.placeholder(tf.int64, [None])
w1, b1 = tf.get_variable("w1", [64, 128]), tf.get_variable("b1", [128])
w2, b2 = tf.get_variable("w2", [128, 10]), tf.get_variable("b2", [10])
hidden = tf.nn.relu(tf.nn.xw_plus_b(features, w1, b1))
logits = tf.nn.xw_plus_b(hidden, w2, b2, name="logits")
loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
train_op = tf.train.AdamOptimizer().minimize(loss)

config = tf.ConfigProto(allow_soft_placement=True)
custom_op = config.graph_options.rewrite_options.custom_optimizers.add()
custom_op.name = "NpuOptimizer"
custom_op.parameter_map["use_off_line"].b = True
custom_op.parameter_map["precision_mode"].s = tf.compat.as_bytes("allow_mix_precision")
custom_op.parameter_map["modify_mixlist"].s = tf.compat.as_bytes("mixlist.json")
custom_op.parameter_map["report_dir"].s = tf.compat.as_bytes("tf1_ledgers")
config.graph_options.rewrite_options.remapping = RewriterConfig.OFF
config.graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF
images, digits = load_digits(return_X_y=True)
with tf.Session(config=config) as sess:
    sess.run(tf.global_variables_initializer())
    for _ in range(20):
        _, cost = sess.run([train_op, loss], {features: images / 16, labels: digits})
    print("loss", cost)
