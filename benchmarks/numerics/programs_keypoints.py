"""Heat maps, keypoints, stereo depth and homographies, in pixels up to 4000."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from numerics.forms import of_network
from numerics.program import Result, normal, of, program, uniform


def _heat(name, tolerance=None):
    """Adds the program of a function of four heat maps, 4 x 48 x 48, with a wide top each."""

    def add(function):
        y, x = np.mgrid[:48, :48]
        tops = [np.exp(-((x - 20.3 - k) ** 2 + (y - 17.6 - 2 * k) ** 2) / 60) for k in range(4)]
        kernel = np.eye(4, dtype=np.float32)[None, None] + normal(7, 3, 3, 4, 4, scale=1e-3)
        inputs = [np.stack(tops, -1)[None].astype(np.float32), kernel]

        def whole(maps, kernel):
            return function(tf.transpose(tf.nn.conv2d(maps, kernel, 1, "SAME")[0], [2, 0, 1]))

        program(name, tolerance=tolerance)(lambda: Result(whole, inputs))
        return function

    return add


@_heat("number of peaks: a heat map equals its 3 x 3 max pool and is above 0.3")
def peaks(maps):
    top = tf.nn.max_pool2d(maps[..., None], 3, 1, "SAME")[..., 0]
    return tf.reduce_sum(tf.cast((maps == top) & (maps > 0.3), tf.float32), [1, 2])


@_heat(
    "keypoints: argmax, a quarter to the higher neighbour, stride 4", tolerance={"bfloat16": 0.1}
)
def quarter(maps):
    top = tf.argmax(tf.reshape(maps, [4, -1]), 1, output_type=tf.int32)
    at = tf.stack([tf.range(4), top // 48, top % 48], 1)
    side = tf.gather_nd(maps, at + [0, 0, 1]) - tf.gather_nd(maps, at - [0, 0, 1])
    return (tf.cast(at[:, 2], tf.float32) + 0.25 * tf.sign(side)) * 4.0


@_heat("keypoints: softmax of 50 times a map, places by tf.range, stride 8, minus 640")
def soft_places(maps):
    share = tf.reshape(tf.nn.softmax(50.0 * tf.reshape(maps, [4, -1])), [4, 48, 48])
    columns = tf.reduce_sum(share, 1) * tf.range(48.0) * 8.0 + tf.reduce_sum(share, 1) * 500.0
    return tf.reduce_sum(columns, 1) - 640.0


@_heat("keypoints: centre of mass of a map's own share, places in a constant")
def mass(maps):
    places = np.arange(900, 948, dtype=np.float32)
    share = maps / tf.reduce_sum(maps, [1, 2], keepdims=True)
    return tf.reduce_sum(share * places, [1, 2]) - 900.0


@_heat(
    "DARK: Newton's step of a log heat map by its second differences",
    tolerance={"bfloat16": 0.5, "float16": 0.03},
)
def dark(maps):
    logs = tf.math.log(tf.maximum(maps, 1e-10))[:, 17, 18:23]
    first = (logs[:, 3] - logs[:, 1]) / 2.0
    second = logs[:, 3] - 2.0 * logs[:, 2] + logs[:, 1]
    return -first / second


@_heat("Gaussian targets: focal loss with (1 - y)^4")
def heat_focal(maps):
    p = tf.clip_by_value(maps, 1e-4, 1 - 1e-4)
    y = tf.stop_gradient(tf.roll(p, 1, 2))
    return -tf.reduce_mean((1 - y) ** 4 * p**2 * tf.math.log(1 - p), [1, 2])


@of_network("depth from a disparity: focal length times baseline over pixels", 4)
def depth(deltas):
    return 721.0 * 0.54 / (40.0 + 30.0 * deltas)


@of_network(
    "depth from a disparity, difference to the ground of a plane in metres",
    4,
    uniform(8, 64, 4, low=0, high=0.01),
)
def ground_depth(deltas, noise):
    far = 1.0 / (0.02 + 0.001 * deltas)
    return far * (1.0 + noise) - far


@of(
    "stereo: costs by products of 32 features at 48 shifts, soft argmin",
    normal(9, 16, 32),
    normal(10, 16, 48, 32),
)
def stereo(left, right):
    costs = tf.einsum("nc,ndc->nd", left, right) / 6.0
    return tf.reduce_sum(tf.nn.softmax(costs) * tf.range(48.0), 1) * 4.0


@of(
    "stereo: disparity of rows, left-right check below one pixel",
    normal(9, 16, 32),
    normal(10, 16, 192, 32),
)
def left_right(left, right):
    share = tf.nn.softmax(tf.einsum("nc,ndc->nd", left, right))
    there = tf.reduce_sum(share * tf.range(192.0), 1)
    back = tf.reduce_sum(share * (191.0 - tf.range(192.0)), 1)
    return there + back - 191.0 + 1.0


@of(
    "scale of a depth map by its median and mean absolute deviation",
    normal(11, 64, 32),
    normal(12, 32, 16, scale=0.18),
)
def median_scale(x, w):
    depths = 40.0 + 0.5 * tf.matmul(x, w)
    median = tf.sort(tf.reshape(depths, [-1]))[512]
    return (depths - median) / tf.reduce_mean(tf.abs(depths - median))


_SQUARE = np.float32([[0, 0], [320, 0], [320, 240], [0, 240]])


def _homography(moved):
    """The 3 x 3 homography that moves the corners of 320 x 240 to the four given ones."""
    (x, y), (u, v) = _SQUARE.T, tf.unstack(moved, axis=1)
    o, i = np.zeros(4, np.float32), np.ones(4, np.float32)
    rows = [tf.stack([x, y, i, o, o, o, -x * u, -y * u], 1),
            tf.stack([o, o, o, x, y, i, -x * v, -y * v], 1)]  # fmt: skip
    h = tf.linalg.solve(tf.concat(rows, 0), tf.concat([u, v], 0)[:, None])[:, 0]
    return tf.reshape(tf.concat([h, [1.0]], 0), [3, 3])


def _warped(h, places):
    seen = tf.matmul(tf.pad(places, [[0, 0], [0, 1]], constant_values=1.0), h, transpose_b=True)
    return seen[:, :2] / seen[:, 2:]


@of_network(
    "homography of four moved corners by solve, warped places minus their own",
    4,
    tolerance={"bfloat16": 0.06, "float16": 0.01},
)
def four_points(deltas):
    places = tf.constant(uniform(2, 64, 2, low=0, high=240))
    return _warped(_homography(_SQUARE + 16.0 * deltas[:4, :2]), places) - places


@of(
    "homography's transfer error of matches in pixels of 4000",
    uniform(13, 64, 2, low=0, high=4000),
    normal(14, 64, 2),
)
def transfer(places, noise):
    h = tf.constant([[1.02, 0.01, 12.0], [-0.01, 0.99, -7.0], [1e-6, 2e-6, 1.0]])
    target = places * [1.02, 0.99] + tf.reverse(places, [1]) * [0.01, -0.01] + [12.0, -7.0]
    depth = 1.0 + tf.reduce_sum(places * [1e-6, 2e-6], 1, keepdims=True)
    return _warped(h, places) - (target / depth + noise)


@of(
    "inliers of a RANSAC: transfer error below 3 pixels, counted",
    uniform(13, 256, 2, low=0, high=4000),
    normal(14, 256, 2, scale=2.0),
    tolerance={"bfloat16": 0.1, "float16": 0.03},
)
def inliers(places, noise):
    h = tf.constant([[1.0, 0.01, 12.0], [-0.01, 1.0, -7.0], [0.0, 0.0, 1.0]])
    target = places + tf.reverse(places, [1]) * [0.01, -0.01] + [12.0, -7.0] + noise
    return tf.reduce_sum(tf.cast(tf.norm(_warped(h, places) - target, axis=1) < 3.0, tf.int32))


@of(
    "lens distortion: pixels undone by k1 r² and k2 r⁴, minus the pixels",
    uniform(15, 64, 2, low=0, high=1900),
)
def distortion(pixels):
    matrix = tf.constant([[1 / 1400.0, 0.0], [0.0, 1 / 1400.0], [-960 / 1400.0, -960 / 1400.0]])
    ray = tf.matmul(tf.pad(pixels, [[0, 0], [0, 1]], constant_values=1.0), matrix)
    r2 = tf.reduce_sum(ray**2, 1, keepdims=True)
    return ray * (1 - 0.1 * r2 + 0.01 * r2**2) * 1400.0 + 960.0 - pixels


@of(
    "deformable convolution: offsets of a network, 9 bilinear samples",
    normal(16, 1, 12, 12, 16),
    normal(17, 3, 3, 16, 18, scale=0.05),
    uniform(18, 14, 14, 4, low=0, high=200),
)
def deformable(features, kernel, values):
    offsets = tf.reshape(tf.nn.conv2d(features, kernel, 1, "SAME")[0], [12, 12, 9, 2])
    base = np.stack(np.mgrid[:12, :12], -1)[:, :, None] + np.stack(np.mgrid[:3, :3], -1).reshape(
        [9, 2]
    )
    place = tf.clip_by_value(offsets + base.astype(np.float32), 0.0, 12.99)
    low = tf.floor(place)
    at, share = tf.cast(low, tf.int32), place - low
    left = (
        tf.gather_nd(values, at) * (1 - share[..., 1:])
        + tf.gather_nd(values, at + [0, 1]) * share[..., 1:]
    )
    return tf.reduce_sum(left, 2)


@of(
    "SIFT's ratio test: nearest over second nearest by squared distances of a product",
    normal(19, 32, 64),
    normal(20, 64, 64) + 3,
    tolerance={"bfloat16": 0.06, "float16": 0.01},
)
def ratio_test(a, b):
    far = (
        tf.reduce_sum(a**2, 1)[:, None]
        + tf.reduce_sum(b**2, 1)
        - 2.0 * tf.matmul(a, b, transpose_b=True)
    )
    two = -tf.math.top_k(-far, 2).values
    return tf.sqrt(two[:, 0] / two[:, 1])
