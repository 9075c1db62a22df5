"""Boxes and anchors of detectors, in pixels up to 4000."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from numerics.forms import of_network
from numerics.program import Training, classes, normal, program, uniform


def _anchors(size=1300.0):
    """64 anchors as centre and size: centres up to 1300, sides of 16 to 128."""
    centres = uniform(3, 64, 2, low=100, high=size)
    return np.concatenate([centres, 2 ** uniform(4, 64, 2, low=4, high=7)], 1).astype(np.float32)


def _corners(centre, size):
    return tf.concat([centre - size / 2, centre + size / 2], 1)


def _iou(a, b):
    low, high = tf.maximum(a[:, None, :2], b[:, :2]), tf.minimum(a[:, None, 2:], b[:, 2:])
    both = tf.reduce_prod(tf.maximum(high - low, 0.0), -1)
    areas = [tf.reduce_prod(t[:, 2:] - t[:, :2], 1) for t in (a, b)]
    return both / (areas[0][:, None] + areas[1] - both)


def _decoded(deltas, anchors):
    size = anchors[:, 2:] * tf.exp(0.2 * deltas[:, 2:])
    return _corners(anchors[:, :2] + 0.1 * deltas[:, :2] * anchors[:, 2:], size)


@of_network(
    "Faster R-CNN: boxes of anchors as an argument, their IoU with the anchors", 4, _anchors()
)
def argument_anchors(deltas, anchors):
    return _iou(_decoded(deltas, anchors), _corners(anchors[:, :2], anchors[:, 2:]))


@of_network("Faster R-CNN: boxes of anchors in a constant, their IoU with the anchors", 4)
def constant_anchors(deltas):
    anchors = tf.constant(_anchors())
    return _iou(_decoded(deltas, anchors), _corners(anchors[:, :2], anchors[:, 2:]))


@of_network("YOLO: sigmoid plus a cell of 80, stride 8, widths from the corners", 4)
def yolo(deltas):
    cell = tf.constant(np.stack(np.mgrid[60:68, 70:78], -1).reshape([64, 2]).astype(np.float32))
    boxes = _corners((0.5 + 0.5 * deltas[:, :2] + cell) * 8.0, 12.0 * tf.exp(0.3 * deltas[:, 2:]))
    return boxes[:, 2:] - boxes[:, :2]


@of_network("FCOS: distances to four sides from places of a stride 8, overlap of neighbours", 4)
def fcos(deltas):
    place = tf.constant(np.arange(800, 800 + 64 * 8, 8, dtype=np.float32))[:, None] * tf.ones(
        [1, 2]
    )
    side = 12.0 * tf.exp(0.3 * deltas)
    boxes = tf.concat([place - side[:, :2], place + side[:, 2:]], 1)
    return _iou(boxes[1:], boxes[:-1])


@of_network("sides of detector boxes clipped to an image of 1333", 4, _anchors())
def clipped_sides(deltas, anchors):
    boxes = tf.clip_by_value(_decoded(deltas, anchors), 0.0, 1333.0)
    return boxes[:, 2:] - boxes[:, :2]


@of_network("soft NMS: scores times exp(-IoU² / 0.5) of boxes in pixels", 4, _anchors(300.0))
def soft_nms(deltas, anchors):
    overlap = tf.linalg.band_part(_iou(*2 * [_decoded(deltas, anchors)]), 0, -1)
    overlap -= tf.linalg.diag(tf.linalg.diag_part(overlap))
    return tf.reduce_prod(tf.exp(-(overlap**2) / 0.5), 0)


@of_network("combined non-max suppression, boxes in shares of 1000 pixels", 4, _anchors(900.0))
def combined(deltas, anchors):
    boxes = _decoded(deltas, anchors / 1000.0)[None, :, None]
    scores = tf.linspace(1.0, 0.1, 64)[None, :, None]
    return tf.image.combined_non_max_suppression(boxes, scores, 32, 32, 0.1)[1]


@of_network("best anchor of each truth by argmax of an IoU", 4, _anchors(300.0))
def best_anchor(deltas, anchors):
    return tf.argmax(_iou(_decoded(deltas, anchors), _corners(anchors[:, :2], anchors[:, 2:])), 1)


@of_network("targets of a second stage: box minus box over the anchor's sides", 4, _anchors(3000.0))
def targets(deltas, anchors):
    boxes = _decoded(deltas, anchors)
    centre, size = (boxes[:, 2:] + boxes[:, :2]) / 2, boxes[:, 2:] - boxes[:, :2]
    return tf.concat([(centre - anchors[:, :2]) / anchors[:, 2:] * 10.0,
                      tf.math.log(size / anchors[:, 2:]) * 5.0], 1)  # fmt: skip


@of_network(
    "pyramid level: floor(4 + log2(side / 224))", 4, _anchors(), tolerance={"bfloat16": 0.5}
)
def level(deltas, anchors):
    boxes = _decoded(deltas, anchors * 4.0)
    area = tf.reduce_prod(boxes[:, 2:] - boxes[:, :2], 1)
    return tf.cast(tf.floor(4.0 + tf.math.log(tf.sqrt(area) / 224.0) / np.log(2.0)), tf.int32)


@of_network("distribution focal: mean of 16 bins by a product with 0 to 15, times a stride", 4)
def bins(deltas):
    share = tf.nn.softmax(4.0 * tf.tile(deltas, [1, 4]))
    return tf.linalg.matvec(share, tf.range(16.0)) * 32.0 + 1000.0 - 1240.0


@of_network("rotated boxes: corners by sin and cos of an angle in degrees", 4)
def rotated(deltas):
    angle = deltas[:, :1] * 90.0 * np.pi / 180.0
    c, s, w, h = tf.cos(angle), tf.sin(angle), 60.0, 20.0
    return tf.concat([c * w - s * h, s * w + c * h, -c * w - s * h, c * h - s * w], 1)


@of_network("complete IoU loss: atan of sides and distance of centres in pixels", 4, _anchors())
def complete_iou(deltas, anchors):
    a, b = _decoded(deltas, anchors), _corners(anchors[:, :2], anchors[:, 2:])
    centre = (a[:, :2] + a[:, 2:] - b[:, :2] - b[:, 2:]) / 2
    hull = tf.maximum(a[:, 2:], b[:, 2:]) - tf.minimum(a[:, :2], b[:, :2])
    return tf.reduce_sum(centre**2, 1) / (tf.reduce_sum(hull**2, 1) + 1e-7)


@of_network("area of a polygon by the shoelace formula, vertices in pixels", 4, _anchors(3500.0))
def shoelace(deltas, anchors):
    x, y = tf.unstack((anchors[:, :2] + 20.0 * deltas[:, :2])[:60], axis=1)
    x, y = (tf.reshape(500.0 + t, [20, 3]) for t in (x, y))
    return tf.reduce_sum(x * tf.roll(y, -1, 1) - tf.roll(x, -1, 1) * y, 1) / 2.0


@of_network(
    "text lines: place along a baseline of 4000 pixels, sorted", 4, uniform(5, 64, low=0, high=4000)
)
def reading_order(deltas, places):
    return tf.argsort(tf.sort(places) + 4.0 * deltas[:, 0])


@of_network(
    "mean average precision: cumsum of hits in the order of scores",
    4,
    classes(6, 64, 2),
    tolerance={"bfloat16": 0.1},
)
def precision(deltas, hits):
    hit = tf.cast(tf.gather(hits, tf.argsort(-deltas[:, 0])), tf.float32)
    return tf.reduce_sum(tf.cumsum(hit) / tf.range(1.0, 65.0) * hit) / tf.reduce_sum(hit)


@program("boxes by Adam: a GIoU loss in pixels around 1500, trained", kind="training")
def giou_training():
    def loss(variables, x, target):
        boxes = 1500.0 + 10.0 * tf.matmul(x, variables[0])
        a, b = (
            tf.concat([t[:, :2] - 20.0, t[:, :2] + 20.0 + tf.nn.softplus(t[:, 2:] - 1500.0)], 1)
            for t in (boxes, target)
        )
        low, high = tf.maximum(a[:, :2], b[:, :2]), tf.minimum(a[:, 2:], b[:, 2:])
        both = tf.reduce_prod(tf.nn.relu(high - low), 1)
        union = (
            tf.reduce_prod(a[:, 2:] - a[:, :2], 1) + tf.reduce_prod(b[:, 2:] - b[:, :2], 1) - both
        )
        return tf.reduce_mean(1.0 - both / union)

    x = normal(0, 64, 16)
    target = 1500 + 10 * (x @ normal(2, 16, 4, scale=0.25))
    return Training(loss, [np.zeros([16, 4], np.float32)], [x, target], rate=0.02)


@of_network("width of boxes: right side minus left side of places in a constant", 4)
def widths(deltas):
    centre = tf.constant(_anchors(3000.0)[:, :2])
    return (centre + 8.0 * (1.5 + deltas[:, :2])) - (centre - 8.0 * (1.5 + deltas[:, 2:]))


@of_network(
    "age of tracks: frame numbers as an argument plus a shift, then differences",
    4,
    np.arange(30000, 30256, 4, dtype=np.float32),
)
def ages(deltas, frames):
    times = frames + deltas[:, 0]
    return times[1:] - times[:-1]


@of_network("mean of nine heights around 4000 mm, by a softmax", 4)
def nine_heights(deltas):
    heights = np.arange(4000, 4180, 20, dtype=np.float32)
    share = tf.nn.softmax(3.0 * tf.concat([deltas, deltas[::-1], deltas[:, :1]], 1))
    return tf.reduce_sum(share * heights, 1) - 4080.0


@of_network(
    "batched NMS: class number times 4096 added to boxes, and taken away", 4, classes(7, 64, 20)
)
def class_offsets(deltas, numbers):
    offset = tf.cast(numbers, tf.float32)[:, None] * 4096.0
    return (100.0 * deltas + offset) - offset


@of_network(
    "place of a track from a frame's whole number, shift within it",
    4,
    np.arange(3000, 3064, dtype=np.int32),
)
def whole_frames(deltas, frames):
    frames = tf.cast(frames, tf.float32)[:, None]
    return (frames + 0.3 * deltas) - frames


@of_network(
    "crop's corner as an argument: boxes in the image, back in the crop",
    4,
    np.float32([1500.0, 900.0, 1500.0, 900.0]),
)
def crop_corner(deltas, corner):
    return (40.0 * deltas + corner) - corner
