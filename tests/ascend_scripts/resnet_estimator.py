"""A small ResNet on handwritten digits, with NPUEstimator, iterations per loop and loss scaling."""

import argparse
import tempfile

import tensorflow.compat.v1 as tf
from npu_bridge.estimator.npu.npu_config import NPURunConfig
from npu_bridge.estimator.npu.npu_estimator import NPUEstimator, NPUEstimatorSpec
from npu_bridge.estimator.npu.npu_loss_scale_manager import FixedLossScaleManager
from npu_bridge.estimator.npu.npu_loss_scale_optimizer import NPULossScaleOptimizer
from npu_bridge.estimator.npu.npu_optimizer import NPUDistributedOptimizer
from npu_bridge.npu_init import *
from sklearn.datasets import load_digits

parser = argparse.ArgumentParser()
parser.add_argument("--precision_mode", default="allow_mix_precision")
parser.add_argument("--steps", type=int, default=100)
parser.add_argument("--iterations_per_loop", type=int, default=20)
args = parser.parse_args()

tf.disable_eager_execution()
tf.logging.set_verbosity(tf.logging.ERROR)
images, digits = load_digits(return_X_y=True)
images = (images / 16).astype("float32").reshape(-1, 8, 8, 1)


def input_fn():
    data = tf.data.Dataset.from_tensor_slices((images, digits.astype("int32")))
    return data.shuffle(2000, seed=1).repeat().batch(64, drop_remainder=True)


def convolution(inputs, filters, stride=1):
    return tf.layers.conv2d(
        inputs,
        filters,
        3,
        stride,
        padding="same",
        use_bias=False,
        kernel_initializer=tf.variance_scaling_initializer(seed=1),
    )


def norm_relu(inputs, training):
    return tf.nn.relu(tf.layers.batch_normalization(inputs, momentum=0.9, training=training))


def block(inputs, filters, stride, training):
    shortcut = inputs if stride == 1 else convolution(inputs, filters, stride)
    hidden = norm_relu(convolution(inputs, filters, stride), training)
    return norm_relu(shortcut + convolution(hidden, filters), training)


def model_fn(features, labels, mode):
    training = mode == tf.estimator.ModeKeys.TRAIN
    hidden = norm_relu(convolution(features, 16), training)
    for filters, stride in ((16, 1), (32, 2)):
        hidden = block(hidden, filters, stride, training)
    logits = tf.layers.dense(
        tf.reduce_mean(hidden, [1, 2]), 10, kernel_initializer=tf.zeros_initializer()
    )
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    if mode == tf.estimator.ModeKeys.EVAL:
        accuracy = tf.metrics.accuracy(labels, tf.argmax(logits, 1))
        return NPUEstimatorSpec(mode, loss=loss, eval_metric_ops={"accuracy": accuracy})
    optimizer = NPUDistributedOptimizer(tf.train.MomentumOptimizer(0.05, 0.9))
    optimizer = NPULossScaleOptimizer(optimizer, FixedLossScaleManager(512))
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        train_op = optimizer.minimize(loss, tf.train.get_or_create_global_step())
    return NPUEstimatorSpec(mode, loss=loss, train_op=train_op)


config = NPURunConfig(
    model_dir=tempfile.mkdtemp(),
    tf_random_seed=1,
    save_checkpoints_steps=args.steps,
    iterations_per_loop=args.iterations_per_loop,
    session_config=tf.ConfigProto(allow_soft_placement=True),
    enable_data_pre_proc=True,
    precision_mode=args.precision_mode,
    hcom_parallel=True,
)
classifier = NPUEstimator(model_fn=model_fn, config=config)
classifier.train(input_fn=input_fn, max_steps=args.steps)
result = classifier.evaluate(input_fn=input_fn, steps=10)
print("accuracy", result["accuracy"])
print("loss", result["loss"])
