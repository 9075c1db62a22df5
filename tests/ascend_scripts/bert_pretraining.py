"""A tiny BERT that learns to fill gaps: LAMB, gelu and dropout of the NPU, and loss scaling."""

import math
import re

import numpy as np
import tensorflow.compat.v1 as tf
from npu_bridge.estimator import npu_ops
from npu_bridge.estimator.npu.npu_loss_scale_manager import ExponentialUpdateLossScaleManager
from npu_bridge.estimator.npu.npu_loss_scale_optimizer import NPULossScaleOptimizer
from npu_bridge.estimator.npu_unary_ops import npu_unary_ops
from npu_bridge.npu_init import *

flags = tf.flags
flags.DEFINE_string("precision_mode", "allow_mix_precision", "A precision mode of the NPU.")
flags.DEFINE_integer("train_steps", 250, "How many steps to train.")
flags.DEFINE_float("learning_rate", 0.02, "The rate after the warm-up.")
FLAGS = flags.FLAGS

tf.disable_eager_execution()
VOCABULARY, LENGTH, WIDTH, HEADS, LAYERS, BATCH, GAPS = 16, 8, 32, 2, 2, 32, 2
MASK = VOCABULARY - 1


class LAMBOptimizer(tf.train.Optimizer):
    """LAMB: Adam with steps scaled to the norm of the weight."""

    def __init__(self, learning_rate, weight_decay_rate=0.01, exclude=("norm", "bias")):
        super().__init__(False, "LAMBOptimizer")
        self.learning_rate = learning_rate
        self.weight_decay_rate = weight_decay_rate
        self.exclude = exclude

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        assignments = []
        for gradient, variable in grads_and_vars:
            if gradient is None:
                continue
            name = re.sub(":0$", "", variable.name)
            m, v = (
                tf.get_variable(
                    name + slot,
                    variable.shape.as_list(),
                    tf.float32,
                    tf.zeros_initializer(),
                    trainable=False,
                )
                for slot in ("/lamb_m", "/lamb_v")
            )
            next_m = 0.9 * m + 0.1 * gradient
            next_v = 0.999 * v + 0.001 * tf.square(gradient)
            step = tf.cast(global_step, tf.float32) + 1
            corrected_m = next_m / (1 - tf.pow(0.9, step))
            corrected_v = next_v / (1 - tf.pow(0.999, step))
            update = corrected_m / (tf.sqrt(corrected_v) + 1e-6)
            ratio = 1.0
            if not any(part in name for part in self.exclude):
                update += self.weight_decay_rate * variable
                w_norm, u_norm = tf.norm(variable), tf.norm(update)
                ratio = tf.where(
                    tf.logical_and(w_norm > 0, u_norm > 0), w_norm / u_norm, tf.ones_like(w_norm)
                )
            assignments += [
                variable.assign(variable - ratio * self.learning_rate * update),
                m.assign(next_m),
                v.assign(next_v),
            ]
        with tf.control_dependencies(assignments):
            return tf.assign_add(global_step, 1).op


def dense(inputs, units, name, activation=None):
    weights = tf.get_variable(
        name + "/kernel",
        [inputs.shape[-1], units],
        initializer=tf.truncated_normal_initializer(stddev=1 / math.sqrt(WIDTH), seed=len(name)),
    )
    bias = tf.get_variable(name + "/bias", [units], initializer=tf.zeros_initializer())
    outputs = tf.nn.bias_add(tf.matmul(inputs, weights), bias)
    return outputs if activation is None else activation(outputs)


def layer_norm(inputs, name):
    gamma = tf.get_variable(name + "/norm_gamma", [WIDTH], initializer=tf.ones_initializer())
    beta = tf.get_variable(name + "/norm_beta", [WIDTH], initializer=tf.zeros_initializer())
    mean, variance = tf.nn.moments(inputs, [-1], keepdims=True)
    return (inputs - mean) * tf.rsqrt(variance + 1e-12) * gamma + beta


def attention(inputs, mask, name):
    def heads(what):
        projected = tf.reshape(dense(inputs, WIDTH, name + what), [BATCH, LENGTH, HEADS, -1])
        return tf.transpose(projected, [0, 2, 1, 3])

    scores = tf.matmul(heads("/query"), heads("/key"), transpose_b=True)
    scores = scores / math.sqrt(WIDTH / HEADS) + (1.0 - mask[:, None, None, :]) * -10000.0
    weights = npu_ops.dropout(tf.nn.softmax(scores), 0.95, seed=1)
    context = tf.transpose(tf.matmul(weights, heads("/value")), [0, 2, 1, 3])
    return dense(tf.reshape(context, [-1, WIDTH]), WIDTH, name + "/output")


def bert(ids, mask):
    table = tf.get_variable(
        "embeddings", [VOCABULARY, WIDTH], initializer=tf.truncated_normal_initializer(0, 0.1, 1)
    )
    positions = tf.get_variable(
        "positions", [LENGTH, WIDTH], initializer=tf.truncated_normal_initializer(0, 0.1, 2)
    )
    # The embedding is a matrix product, as in training scripts for an NPU.
    hidden = tf.matmul(tf.one_hot(tf.reshape(ids, [-1]), VOCABULARY), table)
    hidden = tf.reshape(tf.reshape(hidden, [BATCH, LENGTH, WIDTH]) + positions, [-1, WIDTH])
    hidden = layer_norm(hidden, "embeddings")
    for number in range(LAYERS):
        name = f"layer_{number}"
        hidden = layer_norm(hidden + attention(hidden, mask, name), name + "/attention")
        wide = dense(hidden, 4 * WIDTH, name + "/intermediate", npu_unary_ops.gelu)
        narrow = npu_ops.dropout(dense(wide, WIDTH, name + "/narrow"), keep_prob=0.95, seed=2)
        hidden = layer_norm(hidden + narrow, name + "/output")
    return hidden, table


def main(_):
    tf.set_random_seed(1)
    ids = tf.placeholder(tf.int32, [BATCH, LENGTH])
    mask = tf.placeholder(tf.float32, [BATCH, LENGTH])
    positions = tf.placeholder(tf.int32, [BATCH, GAPS])
    labels = tf.placeholder(tf.int32, [BATCH, GAPS])

    hidden, table = bert(ids, mask)
    flat = tf.reshape(positions + tf.range(BATCH)[:, None] * LENGTH, [-1])
    gaps = layer_norm(dense(tf.gather(hidden, flat), WIDTH, "gaps", npu_unary_ops.gelu), "gaps")
    logits = tf.matmul(gaps, table, transpose_b=True)
    likelihoods = tf.nn.log_softmax(logits, axis=-1)
    picked = tf.reduce_sum(likelihoods * tf.one_hot(tf.reshape(labels, [-1]), VOCABULARY), -1)
    loss = -tf.reduce_mean(picked)

    step = tf.train.get_or_create_global_step()
    done = tf.cast(step, tf.float32)
    warm_up, decay = (done + 1) / 20, 1 - done / FLAGS.train_steps
    rate = FLAGS.learning_rate * tf.minimum(warm_up, decay)
    manager = ExponentialUpdateLossScaleManager(
        init_loss_scale=2**32,
        incr_every_n_steps=1000,
        decr_every_n_nan_or_inf=2,
        decr_ratio=0.5,
    )
    train_op = NPULossScaleOptimizer(LAMBOptimizer(rate), manager).minimize(loss, step)

    config = tf.ConfigProto()
    custom_op = config.graph_options.rewrite_options.custom_optimizers.add()
    custom_op.name = "NpuOptimizer"
    custom_op.parameter_map["use_off_line"].b = True
    custom_op.parameter_map["precision_mode"].s = tf.compat.as_bytes(FLAGS.precision_mode)
    config.graph_options.rewrite_options.remapping = RewriterConfig.OFF
    config.graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF

    # Sentences of two words: one fills the first half, the other the second.
    random = np.random.RandomState(1)
    losses = []
    with tf.Session(config=npu_config_proto(config_proto=config)) as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(FLAGS.train_steps):
            words = np.repeat(random.randint(0, MASK, [BATCH, 2]), LENGTH // 2, axis=1)
            where = np.stack([random.choice(LENGTH, GAPS, replace=False) for _ in range(BATCH)])
            masked = words.copy()
            np.put_along_axis(masked, where, MASK, 1)
            feeds = {
                ids: masked,
                mask: np.ones([BATCH, LENGTH]),
                positions: where,
                labels: np.take_along_axis(words, where, 1),
            }
            _, cost, scale = sess.run([train_op, loss, "loss_scale:0"], feeds)
            losses.append(cost)
    print("loss scale", scale)
    print("loss", np.mean(losses[-10:]))


if __name__ == "__main__":
    tf.app.run()
