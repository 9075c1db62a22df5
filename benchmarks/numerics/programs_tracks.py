"""Tracks, particles, voxels and clouds of points from frame to frame."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from numerics.inputs import blurred_video, video
from numerics.program import normal, of, uniform

_NET = [normal(0, 64, 32), normal(1, 32, 4, scale=0.18)]


@of("Kalman filter of a box's place and speed in pixels, 100 frames",
     np.linspace(400, 1500, 100, dtype=np.float32) + normal(3, 100, scale=2.0))  # fmt: skip
def kalman(seen):
    f, h = tf.constant([[1.0, 1.0], [0.0, 1.0]]), tf.constant([[1.0, 0.0]])

    def step(state, z):
        x, p = tf.linalg.matvec(f, state[:, 0]), f @ state[:, 1:] @ tf.transpose(f)
        p += tf.constant([[0.05, 0.0], [0.0, 0.01]])
        gain = p @ tf.transpose(h) / (h @ p @ tf.transpose(h) + 4.0)
        x += gain[:, 0] * (z - x[0])
        return tf.concat([x[:, None], p - gain @ h @ p], 1)

    start = tf.constant([[400.0, 50.0, 0.0], [10.0, 0.0, 5.0]])
    return tf.scan(step, seen, start)[:, 1, 0]


@of(
    "particle filter: weights of a network's likelihoods, mean place",
    *_NET,
    uniform(2, 64, low=950, high=970),
)
def particles(x, w, places):
    log_weights = -2.0 * tf.matmul(x, w)[:, 0] ** 2
    weights = tf.exp(log_weights - tf.reduce_logsumexp(log_weights))
    return tf.stack([tf.reduce_sum(weights * places) - 950.0, 1.0 / tf.reduce_sum(weights**2)])


@of("particle filter: systematic resampling by a cumsum and searchsorted", *_NET)
def resampling(x, w):
    weights = tf.nn.softmax(tf.matmul(x, w)[:, 0])
    return tf.searchsorted(tf.cumsum(weights), (tf.range(64.0) + 0.37) / 64.0)


@of("correlation filter of a tracker: FFT of a blurred patch, the top", video(2, 3.0))
def correlation_filter(frames):
    now, then = tf.unstack(tf.cast(blurred_video(frames)[..., 0] - 140.0, tf.complex64))
    target, patch = tf.signal.fft2d(now), tf.signal.fft2d(then)
    response = tf.signal.ifft2d(
        patch * tf.math.conj(target) / (target * tf.math.conj(target) + 1e4)
    )
    return tf.argmax(tf.reshape(tf.math.real(response), [-1]))


@of(
    "matching of tracks by costs of cosines and boxes, greedy",
    normal(0, 12, 64),
    normal(1, 64, 32, scale=0.12),
)
def matching(x, w):
    seen = tf.math.l2_normalize(tf.matmul(x, w), 1)
    cost = 1.0 - tf.matmul(seen, tf.reverse(seen, [0]), transpose_b=True)
    return tf.argmin(cost, 1)


@of(
    "stabilisation: affine motion by least squares of pixels' places",
    uniform(5, 80, 2, low=0, high=1900),
    normal(6, 80, 2, scale=0.3),
)
def stabilisation(places, noise):
    moved = places + 0.001 * tf.reverse(places, [1]) * [1.0, -1.0] + [3.0, -2.0] + noise
    a = tf.pad(places, [[0, 0], [0, 1]], constant_values=1.0)
    normal_matrix = tf.matmul(a, a, transpose_a=True)
    fit = tf.linalg.solve(normal_matrix, tf.matmul(a, moved, transpose_a=True))
    return tf.matmul(a, fit) - places


@of(
    "points of a lidar turned into the map, to voxels of 0.2 m, counted",
    uniform(7, 500, 3, low=-20, high=20),
)
def voxels(points):
    c, s = np.cos(0.3), np.sin(0.3)
    turned = tf.matmul(points, tf.constant([[c, -s, 0], [s, c, 0], [0, 0, 1]], tf.float32))
    at = tf.cast(tf.floor((turned + 30.0) / 0.2), tf.int32)
    keys = (at[:, 0] * 300 + at[:, 1]) % 1024
    return tf.math.bincount(keys, minlength=1024)


@of(
    "points of a lidar minus their voxel's centre, PointPillars",
    uniform(8, 500, 3, low=-40, high=40),
)
def pillars(points):
    turned = tf.matmul(points, tf.constant([[0.8, -0.6, 0], [0.6, 0.8, 0], [0, 0, 1]], tf.float32))
    centre = (tf.floor(turned / 0.16) + 0.5) * 0.16
    return turned - centre


@of(
    "mean of a voxel's points, distance of each to it",
    uniform(9, 500, 3, low=0, high=70),
    np.random.default_rng(2).integers(0, 60, 500).astype(np.int32),
)
def voxel_means(points, ids):
    near = points * 0.01 + tf.cast(ids, tf.float32)[:, None]
    turned = tf.matmul(near, tf.constant([[0.8, -0.6, 0], [0.6, 0.8, 0], [0, 0, 1]], tf.float32))
    mean = tf.math.unsorted_segment_mean(turned, ids, 60)
    return turned - tf.gather(mean, ids)


@of(
    "PointNet: farthest point sampling after a transform net",
    uniform(10, 128, 3, low=-5, high=5),
    normal(1, 3, 3, scale=0.1),
)
def farthest(points, w):
    points = tf.matmul(points, tf.eye(3) + w)

    def step(i, chosen, far):
        at = tf.argmax(far, output_type=tf.int32)
        far = tf.minimum(far, tf.reduce_sum((points - points[at]) ** 2, 1))
        return i + 1, chosen.write(i, at), far

    start = (0, tf.TensorArray(tf.int32, 16), tf.fill([128], 1e6))
    return tf.while_loop(lambda i, *_: i < 16, step, start)[1].stack()


@of(
    "ball query: neighbours within 1 m in a turned cloud",
    uniform(11, 128, 3, low=-2, high=2) + np.float32(60),
)
def ball_query(points):
    turned = tf.matmul(points, tf.constant([[0.8, -0.6, 0], [0.6, 0.8, 0], [0, 0, 1]], tf.float32))
    far = tf.reduce_sum((turned[:, None] - turned) ** 2, -1)
    return tf.reduce_sum(tf.cast(far < 1.0, tf.int32), 1)


@of(
    "occupancy grid: log-odds of 50 scans, clipped",
    normal(12, 50, 100, 16),
    normal(1, 16, 1, scale=0.25),
)
def occupancy(scans, w):
    odds = tf.matmul(scans, w)[..., 0] * 0.4
    return tf.sigmoid(
        tf.scan(lambda s, o: tf.clip_by_value(s + o, -10.0, 10.0), odds, tf.zeros([100]))[-1]
    )


@of(
    "occupancy by trilinear samples of a volume at turned places",
    uniform(13, 100, 3, low=4, high=24),
    video(32),
)
def trilinear(points, volume):
    turned = tf.matmul(points, tf.constant([[1, -0.1, 0], [0.1, 1, 0], [0, 0, 1]], tf.float32))
    low = tf.floor(turned)
    share, at, total = turned - low, tf.cast(low, tf.int32), 0.0
    for corner in np.ndindex(2, 2, 2):
        weight = tf.reduce_prod(tf.where(np.array(corner) > 0, share, 1.0 - share), 1)
        total += weight * tf.gather_nd(volume[..., 0], at + np.array(corner, np.int32))
    return total


@of(
    "speed from a track's places by a Savitzky-Golay convolution",
    np.linspace(200, 260, 64, dtype=np.float32)[None, :, None] + normal(14, 1, 64, 1, scale=0.05),
)
def track_speed(places):
    return tf.nn.conv1d(places, tf.reshape([-0.2, -0.1, 0.0, 0.1, 0.2], [5, 1, 1]), 1, "VALID")


@of("rolling shutter: rows' times, a turn of each row", *_NET)
def rolling_shutter(x, w):
    rate = 0.5 * tf.tanh(tf.matmul(x, w)[:, :1])
    times = np.arange(1080, dtype=np.float32) / 1080 / 30
    return tf.sin(rate * times * 100.0)


@of("frame interpolation: two warps and a mask, bilinear", *_NET, video(2))
def interpolation(x, w, frames):
    flow = 2.0 * tf.tanh(tf.matmul(x, w))
    y, x_ = np.mgrid[4:28:3, 4:28:3]
    place = np.stack([y, x_], -1).reshape([64, 2]).astype(np.float32)

    def at(frame, places):
        low = tf.floor(places)
        share, corner = places - low, tf.cast(low, tf.int32)
        rows = [tf.gather_nd(frame, corner + [0, k]) for k in (0, 1)]
        return rows[0] + share[:, 1:] * (rows[1] - rows[0])

    mask = tf.sigmoid(flow[:, :1])
    return mask * at(frames[0], place + flow[:, :2]) + (1 - mask) * at(
        frames[1], place + flow[:, 2:]
    )


@of(
    "survival of tracks: products of the chances of 200 frames, by track",
    normal(22, 800, 32),
    _NET[1],
    np.repeat(np.arange(4), 200).astype(np.int32),
)
def survival(x, w, ids):
    return tf.math.unsorted_segment_prod(1.0 - 0.004 * tf.sigmoid(tf.matmul(x, w)[:, 0]), ids, 4)


@of(
    "sweeps of a lidar, 4 x 50 points by one pose, to voxels of 0.2 m",
    uniform(23, 4, 50, 3, low=-20, high=20),
)
def sweeps(points):
    c, s = np.cos(0.3), np.sin(0.3)
    turned = tf.matmul(points, tf.constant([[c, -s, 0], [s, c, 0], [0, 0, 1]], tf.float32))
    return tf.cast(tf.floor((turned + 30.0) / 0.2), tf.int32) % 16
