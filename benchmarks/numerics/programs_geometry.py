"""Rotations, cameras, rays, fields and places on a map, in metres, degrees and pixels."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from numerics.forms import of_network
from numerics.inputs import city, rotation_by
from numerics.program import normal, of, uniform

_CLOUD, _TURN = uniform(0, 200, 3, low=-10, high=10), rotation_by(5)
_LAYER = [normal(0, 64, 32), normal(1, 32, 3, scale=0.18)]
_K = np.array([[1400, 0, 960], [0, 1400, 540], [0, 0, 1]], np.float32)


@of("map to body frame: rotate a city, then subtract the vehicle's place", city(0), rotation_by(30))
def map_to_body(points, rotation):
    turned = tf.matmul(points, rotation, transpose_b=True)
    return turned - tf.linalg.matvec(rotation, tf.constant([4000.0, 7000.0, 120.0]))


@of("homogeneous transform of a city, 4 x 4, to the camera", city(1), rotation_by(30))
def homogeneous(points, rotation):
    shift = -tf.linalg.matvec(rotation, tf.constant([4000.0, 7000.0, 120.0]))
    pose = tf.concat([tf.concat([rotation, shift[:, None]], 1), [[0.0, 0.0, 0.0, 1.0]]], 0)
    return tf.matmul(tf.pad(points, [[0, 0], [0, 1]], constant_values=1.0), pose, transpose_b=True)


@of("reprojection error of a camera of 1920 pixels", _CLOUD + np.float32([0, 0, 30]), _K,
     normal(3, 200, 2))  # fmt: skip
def reprojection(points, camera, noise):
    seen = tf.matmul(points, camera, transpose_b=True)
    pixels = seen[:, :2] / seen[:, 2:]
    exact = points[:, :2] / points[:, 2:] * 1400.0 + [960.0, 540.0]
    return pixels - (exact + noise)


@of("quaternions of a network turn points", *_LAYER, uniform(2, 64, 3, low=-50, high=50))
def quaternions(x, w, points):
    v = tf.tanh(tf.matmul(x, w))
    q = tf.math.l2_normalize(tf.concat([tf.ones([64, 1]), v], 1), 1)
    t = 2.0 * tf.linalg.cross(q[:, 1:], points)
    return points + q[:, :1] * t + tf.linalg.cross(q[:, 1:], t)


@of("angle between rotations, acos of (trace - 1) / 2", rotation_by(40), rotation_by(41))
def rotation_angle(a, b):
    cosine = (tf.linalg.trace(tf.matmul(a, b, transpose_a=True)) - 1.0) / 2.0
    return tf.acos(tf.clip_by_value(cosine, -1.0, 1.0)) * 180.0 / np.pi


@of("logarithm of a rotation by its skew part", rotation_by(40), rotation_by(41.5))
def rotation_log(a, b):
    turn = tf.matmul(a, b, transpose_b=True)
    skew = (turn - tf.transpose(turn)) / 2.0
    return tf.stack([skew[2, 1], skew[0, 2], skew[1, 0]]) * 180.0 / np.pi


@of("dead reckoning: SE(2) composed 300 times, 3 x 3", uniform(8, 300, 2, low=0.5, high=1.0))
def dead_reckoning(speeds):
    def step(i, pose):
        v, turn = speeds[i, 0], 0.02 * (speeds[i, 1] - 0.75)
        move = tf.stack([tf.cos(turn), -tf.sin(turn), v, tf.sin(turn), tf.cos(turn), 0.0,
                         0.0, 0.0, 1.0])  # fmt: skip
        return i + 1, tf.matmul(pose, tf.reshape(move, [3, 3]))

    return tf.while_loop(lambda i, p: i < 300, step, (0, tf.eye(3)))[1][:2]


@of("rotations composed 200 times, is it still one", rotation_by(1.8))
def composed(turn):
    result = tf.while_loop(lambda i, r: i < 200, lambda i, r: (i + 1, r @ turn), (0, tf.eye(3)))[1]
    return tf.matmul(result, result, transpose_b=True)


@of(
    "gyroscope: a quaternion integrated for 500 steps by a 4 x 4 product",
    uniform(9, 500, 3, low=-0.2, high=0.4),
)
def gyroscope(rates):
    def step(q, w):
        x, y, z = tf.unstack(w)
        rows = tf.stack([[0.0, -x, -y, -z], [x, 0.0, z, -y], [y, -z, 0.0, x], [z, y, -x, 0.0]])
        return tf.math.l2_normalize(q + 0.005 * tf.linalg.matvec(rows, q))

    return tf.scan(step, rates, tf.constant([1.0, 0.0, 0.0, 0.0]))[::50]


@of(
    "IMU: velocity and place by rotated accelerations, 400 steps",
    uniform(10, 400, 3, low=-1, high=1),
    rotation_by(20),
)
def imu(accelerations, rotation):
    def step(state, a):
        v = state[1] + 0.01 * (tf.linalg.matvec(rotation, a + [0.1, 0.0, 9.81]) - [3.2, -0.7, 9.2])
        return tf.stack([state[0] + 0.01 * v, v])

    return tf.scan(step, accelerations, tf.zeros([2, 3]))[::40]


@of("forward kinematics of a robot with 6 joints, millimetres", *_LAYER)
def kinematics(x, w):
    angles = np.pi * tf.tanh(tf.matmul(x, tf.tile(w, [1, 2])))
    pose = tf.eye(3, batch_shape=[64])
    for joint in range(6):
        c, s = tf.cos(angles[:, joint]), tf.sin(angles[:, joint])
        o, i = tf.zeros_like(c), tf.ones_like(c)
        pose = pose @ tf.reshape(tf.stack([c, -s, 350 * i, s, c, o, o, o, i], -1), [64, 3, 3])
    return pose[:, :2, 2]


@of("inverse kinematics: 30 steps by the Jacobian's transpose", np.float32([[0.3, 0.4, 0.2]]))
def inverse_kinematics(angles):
    def step(i, q):
        with tf.GradientTape() as tape:
            tape.watch(q)
            heading = tf.matmul(q, tf.linalg.band_part(tf.ones([3, 3]), 0, -1))
            place = tf.stack([tf.reduce_sum(tf.cos(heading)), tf.reduce_sum(tf.sin(heading))])
            miss = tf.reduce_sum((place - [1.2, 1.9]) ** 2)
        return i + 1, q - 0.05 * tape.gradient(miss, q)

    return tf.while_loop(lambda i, q: i < 30, step, (0, angles))[1]


@of(
    "rays of a pinhole camera through an inverse of K, hits on the ground",
    _K,
    rotation_by(-25, [1, 0, 0]),
)
def ground_hits(camera, rotation):
    x, y = np.meshgrid(np.arange(0, 1920, 120), np.arange(700, 1080, 40))
    pixels = np.stack([x, y, np.ones_like(x)], -1).reshape([-1, 3]).astype(np.float32)
    rays = tf.matmul(pixels, tf.matmul(rotation, tf.linalg.inv(camera)), transpose_b=True)
    return rays[:, ::2] / rays[:, 1:2] * 1.6


@of("rays and spheres: the nearer root of a quadratic", uniform(11, 256, 3, low=-0.2, high=0.2),
     uniform(12, 16, 3, low=-1, high=1))  # fmt: skip
def spheres(jitter, centres):
    rays = tf.math.l2_normalize(jitter + [0.0, 0.0, 1.0], 1)
    centres = centres * [4.0, 4.0, 1.0] + [0.0, 0.0, 30.0]
    b = tf.matmul(rays, centres, transpose_b=True)
    inside = b**2 - tf.reduce_sum(centres**2, 1) + 4.0
    hit = b - tf.sqrt(tf.maximum(inside, 0.0))
    return tf.where(inside > 0, hit, 0.0)


@of("ray and triangle by Möller-Trumbore, barycentric", uniform(13, 200, 2, low=-0.1, high=0.1))
def triangles(xy):
    ray = tf.concat([xy, tf.ones([200, 1])], 1)
    a, b, c = (tf.constant(p) for p in ([-2.0, -2.0, 20.0], [3.0, -1.0, 21.0], [0.0, 3.0, 19.0]))
    h = tf.linalg.cross(ray, tf.broadcast_to(c - a, [200, 3]))
    det = tf.linalg.matvec(h, b - a)
    q = tf.broadcast_to(tf.linalg.cross(-a, b - a), [200, 3])
    return tf.stack([tf.linalg.matvec(h, -a), tf.reduce_sum(ray * q, 1)], 1) / det[:, None]


@of("sphere tracing of a network's distances, 40 steps", *_LAYER, normal(2, 3, 32, scale=0.3))
def sphere_tracing(x, w, first):
    rays = tf.math.l2_normalize(tf.tanh(x @ w) * 0.2 + [0.0, 0.0, 1.0], 1)

    def step(i, depth):
        wave = tf.reduce_mean(tf.sin(tf.matmul(rays * depth, first)), 1, keepdims=True)
        return i + 1, depth + 0.7 * (tf.norm(rays * depth - [0.0, 0.0, 8.0], axis=1, keepdims=True)
                                     - 3.0 + 0.1 * wave)  # fmt: skip

    return tf.while_loop(lambda i, d: i < 40, step, (0, tf.zeros([64, 1])))[1]


@of(
    "eikonal loss, (|gradient of a distance| - 1)²",
    uniform(15, 64, 3, low=-1),
    normal(1, 3, 32),
    normal(2, 32, 1, scale=0.2),
)
def eikonal(points, w, v):
    with tf.GradientTape() as tape:
        tape.watch(points)
        distance = tf.matmul(tf.nn.softplus(10.0 * tf.matmul(points, w)) / 10.0, v)
    return (tf.norm(tape.gradient(distance, points), axis=1) - 1.0) ** 2


@of(
    "radiance field: alphas, transmittance, expected depth of 64 samples",
    normal(0, 32, 64, 16),
    normal(1, 16, 1),
)
def volume_rendering(features, w):
    density = tf.nn.softplus(tf.matmul(features, w)[..., 0])
    depths = tf.linspace(200.0, 600.0, 64)
    alpha = 1.0 - tf.exp(-density * 0.02)
    weights = alpha * tf.math.cumprod(1.0 - alpha + 1e-10, 1, exclusive=True)
    return tf.reduce_sum(weights * depths, 1) / tf.reduce_sum(weights, 1) - 300.0


@of(
    "hash grid: corners of the cells of turned places, hashed, mixed",
    uniform(2, 64, 3, low=-0.3, high=0.3),
    rotation_by(25),
    normal(5, 1024, 2),
)
def hash_grid(points, rotation, table):
    place = (0.5 + tf.matmul(points, rotation)) * 128.0
    low = tf.floor(place)
    share = place - low
    total = 0.0
    for corner in ([0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 1]):
        at = tf.cast(low, tf.int32) + corner
        key = tf.bitwise.bitwise_xor(at[:, 0], at[:, 1] * 265443576 % 1024) + at[:, 2]
        weight = tf.reduce_prod(
            tf.where(tf.constant(corner) > 0, share, 1 - share), 1, keepdims=True
        )
        total += weight * tf.gather(table, key % 1024)
    return total


@of(
    "GPS: haversine from degrees after a calibration matrix",
    uniform(16, 64, 2, low=47.0, high=47.01),
)
def haversine(places):
    p = tf.matmul(places, tf.eye(2) * 1.0001) * (np.pi / 180.0)
    a = tf.sin((p[1:, 0] - p[:-1, 0]) / 2) ** 2
    a += tf.cos(p[1:, 0]) * tf.cos(p[:-1, 0]) * tf.sin((p[1:, 1] - p[:-1, 1]) / 2) ** 2
    return 2 * 6371000.0 * tf.asin(tf.sqrt(a))


@of(
    "GPS plus a network's correction in degrees, local metres",
    *_LAYER,
    uniform(17, 64, 2, low=47.0, high=47.01),
)
def gps_metres(x, w, places):
    corrected = places + 1e-4 * tf.tanh(tf.matmul(x, w)[:, :2])
    return (corrected - [47.005, 47.005]) * [111320.0, 75900.0]


@of("speeds along a track: places plus a network's correction, differences", *_LAYER, city(18, 64))
def track_speeds(x, w, places):
    smooth = tf.cumsum(places - [4000.0, 7000.0, 120.0]) * 0.02 + [4000.0, 7000.0, 120.0]
    corrected = smooth + 0.3 * tf.tanh(tf.matmul(x, w))
    return tf.norm(corrected[1:] - corrected[:-1], axis=1)


@of("UTM zone, easting and tile from a longitude that a product gives", *_LAYER)
def utm(x, w):
    longitude = 11.0 + 6.0 * tf.tanh(tf.matmul(x, w)[:, 0])
    zone = tf.floor((longitude + 180.0) / 6.0) + 1.0
    centre = zone * 6.0 - 183.0
    return 500000.0 + (longitude - centre) * 75000.0


@of("Mercator tile and pixel at zoom 12 of a place of a product", *_LAYER)
def mercator(x, w):
    place = np.pi / 180 * (47.0 + 0.5 * tf.tanh(tf.matmul(x, w)))
    y = (1.0 - tf.math.log(tf.tan(place[:, 0]) + 1.0 / tf.cos(place[:, 0])) / np.pi) / 2.0
    pixel = y * 256.0 * 4096.0
    return tf.floor(pixel / 256.0) - 1400.0


@of("fundamental matrix: epipolar residual x'Fx of pixels", uniform(19, 100, 2, low=0, high=1900),
     normal(20, 3, 3, scale=1e-3))  # fmt: skip
def epipolar(pixels, f):
    first = tf.pad(pixels, [[0, 0], [0, 1]], constant_values=1.0)
    lines = tf.matmul(first, f)
    nearest = -lines[:, 2:] * lines[:, :2] / tf.reduce_sum(lines[:, :2] ** 2, 1, keepdims=True)
    second = tf.pad(nearest, [[0, 0], [0, 1]], constant_values=1.0)
    return tf.reduce_sum(tf.matmul(first, f) * (second + [0.1, 0.0, 0.0]), 1)


@of(
    "triangulation of two views by least squares",
    uniform(21, 64, 3, low=-5, high=5) + np.float32([0, 0, 25]),
    rotation_by(3, [0, 1, 0]),
)
def triangulation(points, rotation):
    other = tf.matmul(points, rotation, transpose_b=True) - [1.0, 0.0, 0.0]
    first, second = points / points[:, 2:], other / other[:, 2:]
    a = tf.stack([tf.matmul(first, rotation, transpose_b=True), -second], 2)
    b = tf.broadcast_to(tf.constant([[1.0], [0.0], [0.0]]), [64, 3, 1])
    return tf.linalg.lstsq(a, b)[:, 0, 0]


@of(
    "bundle adjustment: Gauss-Newton step of a pose, J'J and J'r",
    _CLOUD + np.float32([0, 0, 30]),
    normal(22, 200, 2, scale=0.5),
)
def gauss_newton(points, residual):
    x, y, z = tf.unstack(points, axis=1)
    o = tf.zeros_like(x)
    a, b = x / z, y / z
    rows = [[1 / z, o, -a / z, -a * b, 1 + a * a, -b], [o, 1 / z, -b / z, -1 - b * b, a * b, a]]
    j = 1400.0 * tf.reshape(tf.stack([tf.stack(row, 1) for row in rows], 1), [400, 6])
    right = tf.matmul(j, tf.reshape(residual, [400, 1]), transpose_a=True)
    return tf.linalg.solve(tf.matmul(j, j, transpose_a=True) + 1e-3 * tf.eye(6), right)


@of(
    "fog: transmittance of 500 thin samples as a product of 1 - alpha",
    normal(0, 500, 16),
    normal(1, 16, 4, scale=0.25),
)
def fog(x, w):
    return tf.math.cumprod(1.0 - 0.002 * tf.sigmoid(tf.matmul(x, w)))


@of_network("caliper: 500 mm times (2 + z / 100), minus 1000 mm", 3)
def caliper(z):
    return 500.0 * (2.0 + 0.01 * z) - 1000.0


@of_network("stretch: (1 + z / 100)² - 1, strain of Green", 3)
def strain(z):
    return (1.0 + 0.01 * z) ** 2 - 1.0


@of_network("wheel radius of 5 + z / 100, largest minus smallest", 3)
def radius(z):
    radii = 5.0 + 0.01 * z
    return tf.reduce_max(radii, 0) - tf.reduce_min(radii, 0)
