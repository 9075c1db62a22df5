"""A small one-stage detector: anchor boxes on a grid, dropout, and non-maximum suppression.

The images show one bright rectangle each. The script writes the mixlist that it trains with.
"""

import argparse
import json
import os
import random

import numpy as np
import tensorflow.compat.v1 as tf
from npu_bridge.estimator import npu_ops
from npu_bridge.npu_init import *

SIZE, STRIDE = 32, 8
ANCHORS = np.array([[8.0, 8.0], [14.0, 14.0]], np.float32)
GRID = SIZE // STRIDE

parser = argparse.ArgumentParser()
parser.add_argument("--precision_mode", default="allow_mix_precision")
parser.add_argument("--batch_size", type=int, default=32)
parser.add_argument("--steps", type=int, default=80)
args = parser.parse_args()

tf.disable_eager_execution()
random.seed(1)
tf.set_random_seed(3)


def make_data(count):
    """Images, and their boxes as (y, x, height, width) of the centers."""
    rng = np.random.RandomState(0)
    images = 0.1 * rng.rand(count, SIZE, SIZE, 1)
    boxes = np.zeros([count, 4])
    for i in range(count):
        height, width = rng.randint(6, 16, size=2)
        y, x = rng.randint(0, SIZE - height), rng.randint(0, SIZE - width)
        images[i, y : y + height, x : x + width] += 0.5 + 0.5 * rng.rand()
        boxes[i] = y + height / 2, x + width / 2, height, width
    return images.astype(np.float32), boxes.astype(np.float32)


def make_targets(boxes):
    """Per cell and anchor, whether it is responsible for the box, and the offsets of the box."""
    objects = np.zeros([len(boxes), GRID, GRID, len(ANCHORS)], np.float32)
    offsets = np.zeros([len(boxes), GRID, GRID, len(ANCHORS), 4], np.float32)
    for i, (y, x, height, width) in enumerate(boxes):
        row, column = int(y // STRIDE), int(x // STRIDE)
        anchor = int(np.argmin(np.abs(ANCHORS - [height, width]).sum(1)))
        objects[i, row, column, anchor] = 1
        offsets[i, row, column, anchor] = (
            y / STRIDE - row - 0.5,
            x / STRIDE - column - 0.5,
            np.log(height / ANCHORS[anchor, 0]),
            np.log(width / ANCHORS[anchor, 1]),
        )
    return objects, offsets


def conv_bn_relu(net, filters, strides, training, name):
    with tf.variable_scope(name):
        net = tf.layers.conv2d(net, filters, 3, strides=strides, padding="same", use_bias=False)
        return tf.nn.relu(tf.layers.batch_normalization(net, training=training))


def network(images, keep_prob, training):
    net = conv_bn_relu(images, 16, 2, training, "stage1")
    net = conv_bn_relu(net, 32, 2, training, "stage2")
    net = conv_bn_relu(net, 64, 2, training, "stage3")
    net = npu_ops.dropout(net, keep_prob)
    net = tf.layers.conv2d(net, len(ANCHORS) * 5, 1, name="head")
    return tf.reshape(net, [-1, GRID, GRID, len(ANCHORS), 5])


def decode(predictions):
    """The corners and scores of all boxes of one image."""
    cells = np.stack(np.meshgrid(np.arange(GRID), np.arange(GRID), indexing="ij"), -1)
    centers = (cells[:, :, np.newaxis] + 0.5 + predictions[..., 1:3]) * STRIDE
    sizes = tf.exp(predictions[..., 3:5]) * ANCHORS
    corners = tf.concat([centers - sizes / 2, centers + sizes / 2], -1)
    return tf.reshape(corners, [-1, 4]), tf.reshape(tf.sigmoid(predictions[..., 0]), [-1])


image_input = tf.placeholder(tf.float32, [None, SIZE, SIZE, 1], name="images")
object_input = tf.placeholder(tf.float32, [None, GRID, GRID, len(ANCHORS)], name="objects")
offset_input = tf.placeholder(tf.float32, [None, GRID, GRID, len(ANCHORS), 4], name="offsets")
keep_prob = tf.placeholder_with_default(1.0, [], name="keep_prob")
predictions = network(image_input, keep_prob, training=True)

objectness = tf.nn.sigmoid_cross_entropy_with_logits(
    labels=object_input, logits=predictions[..., 0]
)
errors = tf.losses.huber_loss(offset_input, predictions[..., 1:], reduction="none")
box_loss = tf.reduce_sum(errors * object_input[..., tf.newaxis]) / tf.reduce_sum(object_input)
loss = tf.reduce_mean(tf.reduce_sum(objectness, axis=[1, 2, 3])) + 5.0 * box_loss
with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
    train_op = npu_tf_optimizer(tf.train.AdamOptimizer(3e-3)).minimize(loss)

boxes, scores = decode(predictions[0])
kept = tf.image.non_max_suppression(boxes, scores, max_output_size=3, iou_threshold=0.4)
best_boxes = tf.gather(boxes, kept)

config = tf.ConfigProto(allow_soft_placement=True)
custom_op = config.graph_options.rewrite_options.custom_optimizers.add()
custom_op.name = "NpuOptimizer"
custom_op.parameter_map["use_off_line"].b = True
custom_op.parameter_map["precision_mode"].s = tf.compat.as_bytes(args.precision_mode)
if args.precision_mode.startswith("allow_mix_precision"):
    mixlist = os.path.join(os.getcwd(), "ops_info.json")
    with open(mixlist, "w") as file:
        json.dump({"black-list": {"to-add": ["ReduceSumD", "Pow"]}, "gray-list": {}}, file)
    custom_op.parameter_map["modify_mixlist"].s = tf.compat.as_bytes(mixlist)
config.graph_options.rewrite_options.remapping = RewriterConfig.OFF

images, truth = make_data(512)
objects, offsets = make_targets(truth)
rng = np.random.RandomState(1)
with tf.Session(config=config) as sess:
    sess.run(tf.global_variables_initializer())
    for step in range(args.steps):
        chosen = rng.randint(len(images), size=args.batch_size)
        feed = {
            image_input: images[chosen],
            object_input: objects[chosen],
            offset_input: offsets[chosen],
            keep_prob: 0.9,
        }
        _, cost = sess.run([train_op, loss], feed)
        if step % 20 == 0:
            print("step %d, loss %.4f" % (step, cost))
    final = sess.run(loss, {image_input: images, object_input: objects, offset_input: offsets})
    found = sess.run(best_boxes, {image_input: images[:32]})
    y, x, height, width = truth[0]
    print("box", [y - height / 2, x - width / 2, y + height / 2, x + width / 2])
    print("found", found.round(1).tolist())
print("loss", float(final))
