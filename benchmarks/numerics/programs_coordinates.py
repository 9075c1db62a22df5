"""Coordinates and angles behind a matrix product: what is sampled there, not the coordinate."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from numerics.program import Result, normal, program, uniform

_SIZE = 300


def _image():
    """A smooth image, 1 x 300 x 300 x 2: a pixel is about 0.2 away from the next one."""
    places = np.arange(_SIZE, dtype=np.float32)
    wave = np.sin(places / 5.0)
    return np.stack([wave[:, None] * wave, wave[:, None] + wave], -1)[None].astype(np.float32)


def _grid():
    rows, columns = np.meshgrid(*2 * [np.arange(20, _SIZE - 20, 10)], indexing="ij")
    return np.stack([rows, columns], -1).reshape([-1, 2]).astype(np.float32)


def _sampled(image, places):
    """Bilinear samples of an image at rows and columns, as flow and warps take them."""
    low = tf.clip_by_value(tf.floor(places), 0.0, _SIZE - 2.0)
    share = places - low
    corner = tf.cast(low, tf.int32)

    def at(row, column):
        return tf.gather_nd(image[0], corner + [row, column])

    top = at(0, 0) + share[:, 1:] * (at(0, 1) - at(0, 0))
    bottom = at(1, 0) + share[:, 1:] * (at(1, 1) - at(1, 0))
    return top + share[:, :1] * (bottom - top)


def _of_flow(function):
    """`function(image, flow)`, with a flow of about a pixel at each place of the grid."""
    count = len(_grid())

    def whole(x, w, image):
        return function(image, tf.tanh(tf.matmul(x, w)))

    return Result(whole, [normal(0, count, 32), normal(1, 32, 2, scale=0.18), _image()])


@program("flow plus a grid of pixels, bilinear")
def flow():
    return _of_flow(lambda image, flow: _sampled(image, flow + _grid()))


@program("flow plus tf.meshgrid, bilinear")
def flow_meshgrid():
    def function(image, flow):
        steps = tf.range(20.0, _SIZE - 20.0, 10.0)
        rows, columns = tf.meshgrid(steps, steps, indexing="ij")
        return _sampled(image, flow + tf.reshape(tf.stack([rows, columns], -1), [-1, 2]))

    return _of_flow(function)


@program("flow in shares of the image, a grid from -1 to 1, bilinear")
def normalised_flow():
    def function(image, flow):
        grid = _grid() / (_SIZE / 2.0) - 1.0
        return _sampled(image, (flow * 0.01 + grid + 1.0) * (_SIZE / 2.0))

    return _of_flow(function)


def _theta(z):
    """Two rows of an affine transform near the identity."""
    return tf.reshape(tf.constant([1.0, 0.0, 0.0, 0.0, 1.0, 0.0]) + z, [2, 3])


def _of_theta(function):
    def whole(x, w, image):
        return function(image, 0.002 * tf.tanh(tf.matmul(x, w))[0])

    return Result(whole, [normal(0, 1, 32), normal(1, 32, 6, scale=0.18), _image()])


@program("an affine grid in pixels, bilinear")
def affine_grid():
    def function(image, z):
        ones = np.ones([len(_grid()), 1], np.float32)
        homogeneous = np.concatenate([_grid(), ones], 1)
        return _sampled(image, tf.matmul(homogeneous, _theta(z), transpose_b=True))

    return _of_theta(function)


@program("ImageProjectiveTransformV2 by a transform near the identity")
def projective():
    def function(image, z):
        transform = tf.concat([tf.reshape(_theta(z), [1, 6]), tf.zeros([1, 2])], 1)
        return tf.raw_ops.ImageProjectiveTransformV2(
            images=image,
            transforms=transform,
            output_shape=[_SIZE, _SIZE],
            interpolation="BILINEAR",
        )[:, 20:-20, 20:-20]

    return _of_theta(function)


def _boxes(z):
    """Boxes of 0.2 x 0.2 of the image, moved by less than 0.05."""
    corners = np.stack(np.meshgrid(np.arange(0.1, 0.7, 0.15), np.arange(0.1, 0.7, 0.15)), -1)
    corners = corners.reshape([-1, 2]).astype(np.float32)
    moved = corners + 0.05 * z
    return tf.concat([moved, moved + 0.2], 1)


def _of_boxes(function):
    def whole(x, w, image):
        return function(image, _boxes(tf.tanh(tf.matmul(x, w))))

    return Result(whole, [normal(0, 16, 32), normal(1, 32, 2, scale=0.18), _image()])


@program("crop_and_resize of boxes that a product moves")
def crops():
    def function(image, boxes):
        return tf.image.crop_and_resize(image, boxes, tf.zeros([16], tf.int32), [30, 30])

    return _of_boxes(function)


@program("boxes of a product in pixels, non-maximum suppression")
def suppressed_boxes():
    def function(image, boxes):
        pixels = boxes * 1000.0
        scores = tf.range(1.0, 17.0)
        kept = tf.image.non_max_suppression(pixels, scores, 16, iou_threshold=0.02)
        return tf.one_hot(kept, 16)

    return _of_boxes(function)


@program("splines: a segment and a place in it")
def splines():
    def function(image, boxes):
        knots = image[0, 7, :, 0]
        place = boxes[:, 0] * 290.0
        segment = tf.floor(place)
        share = place - segment
        left = tf.cast(segment, tf.int32)
        return (1.0 - share) * tf.gather(knots, left) + share * tf.gather(knots, left + 1)

    return _of_boxes(function)


@program("a delay line: samples between samples")
def delays():
    def function(x, w, sound):
        delay = 20.0 + 5.0 * tf.tanh(tf.matmul(x, w))[:, 0]
        place = tf.range(1000.0, 2000.0) - delay
        low = tf.floor(place)
        at = tf.cast(low, tf.int32)
        share = place - low
        return tf.gather(sound, at) * (1 - share) + tf.gather(sound, at + 1) * share

    sound = np.sin(np.arange(2100, dtype=np.float32) / 3.0)
    return Result(function, [normal(0, 1000, 32), normal(1, 32, 1, scale=0.18), sound])


def _waves(angle):
    return tf.concat([tf.sin(angle), tf.cos(angle)], -1)


def _frequencies(count, base=10000.0):
    return (base ** (-np.arange(count, dtype=np.float32) / count))[None]


@program("time steps of a diffusion by a product with frequencies")
def time_steps():
    def function(t, frequencies):
        return _waves(tf.matmul(t, frequencies))

    times = np.linspace(1, 999, 32, dtype=np.float32)[:, None]
    return Result(function, [times, _frequencies(16)])


@program("rotary positions of 1000 by a product of inner size 1")
def rotary():
    def function(x, w, frequencies):
        z = tf.matmul(x, w)
        angle = tf.matmul(tf.range(1000.0)[:, None], frequencies)
        first, second = z[:, :16], z[:, 16:]
        return first * tf.cos(angle) - second * tf.sin(angle)

    inputs = [normal(0, 1000, 32), normal(1, 32, 32, scale=0.18), _frequencies(16)]
    return Result(function, inputs)


@program("rotary positions by an einsum of an outer product")
def rotary_einsum():
    def function(positions, frequencies):
        return _waves(tf.einsum("i,j->ij", positions, frequencies))

    return Result(function, [np.arange(1000, dtype=np.float32), _frequencies(16)[0]])


@program("Fourier features of three coordinates")
def fourier():
    def function(x, b):
        return _waves(2.0 * np.pi * tf.matmul(x, b))

    return Result(function, [uniform(0, 64, 3), normal(1, 3, 32, scale=5.0)])


@program("Fourier features of sixteen numbers")
def fourier_of_many():
    def function(x, b):
        return _waves(2.0 * np.pi * tf.matmul(x, b))

    return Result(function, [uniform(0, 64, 16), normal(1, 16, 32, scale=2.0)])


@program("positions of a radiance field: sines of 2^k x")
def radiance_field():
    def function(x, w):
        z = tf.sigmoid(tf.matmul(x, w))
        octaves = 2.0 ** np.arange(8, dtype=np.float32)
        return _waves((x[:, :3, None] * octaves) * np.pi) + z[:, :3, None]

    return Result(function, [uniform(0, 64, 32), normal(1, 32, 32, scale=0.18)])


@program("a camera: points projected to pixels, bilinear")
def camera():
    def function(points, pose, image):
        seen = tf.matmul(points, pose)
        return _sampled(image, 150.0 + 100.0 * seen[:, :2] / seen[:, 2:])

    points = np.concatenate([uniform(0, 64, 2, low=-1), uniform(1, 64, 1, low=4, high=5)], 1)
    return Result(function, [points, np.eye(3, dtype=np.float32), _image()])


@program("the phase of an oscillator, a cumsum of a frequency")
def oscillator():
    def function(x, w):
        frequency = 100.0 + 20.0 * tf.tanh(tf.matmul(x, w))[:, 0]
        return tf.sin(2 * np.pi * tf.cumsum(frequency) / 8000.0)

    return Result(function, [normal(0, 400, 32), normal(1, 32, 1, scale=0.18)])
