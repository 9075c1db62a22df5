"""Clouds of points, meshes and heights: partners, planes, covariances, with places in metres."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from numerics.inputs import city, rotation_by
from numerics.program import Training, normal, of, program, uniform

_CLOUD, _TURN = uniform(0, 200, 3, low=-10, high=10), rotation_by(5)
_MOVED = (_CLOUD @ _TURN.T + [0.5, -0.2, 0.1]).astype(np.float32)


@of("ICP's residual: points turned and shifted, minus their partners", _CLOUD, _MOVED, _TURN)
def icp_residual(points, target, rotation):
    return tf.matmul(points, rotation, transpose_b=True) + [0.5, -0.2, 0.1] - target + 0.01


@of(
    "ICP: nearest partners by x²+y²-2xy, distances",
    city(2, 100),
    city(2, 100)[::-1] + np.float32(0.3),
)
def icp_nearest(points, target):
    squares = tf.reduce_sum(points**2, 1, keepdims=True) + tf.reduce_sum(target**2, 1)
    squares -= 2.0 * tf.matmul(points, target, transpose_b=True)
    nearest = tf.argmin(squares, 1)
    return tf.norm(points - tf.gather(target, nearest), axis=1)


@of("nearest neighbours in a room by x²+y²-2xy, the neighbours' distances", _CLOUD)
def knn(points):
    squares = tf.reduce_sum(points**2, 1)
    far = squares[:, None] + squares - 2.0 * tf.matmul(points, points, transpose_b=True)
    return tf.sqrt(tf.maximum(-tf.math.top_k(-far, 4).values[:, 1:], 0.0))


@of("Chamfer distance of near clouds by a product", _CLOUD, _CLOUD + normal(4, 200, 3, scale=0.1))
def chamfer(a, b):
    squares = tf.reduce_sum(a**2, 1)[:, None] + tf.reduce_sum(b**2, 1)
    squares -= 2.0 * tf.matmul(a, b, transpose_b=True)
    return tf.reduce_mean(tf.reduce_min(squares, 1)) + tf.reduce_mean(tf.reduce_min(squares, 0))


@of("Kabsch: rotation by the SVD of a covariance", _CLOUD, _MOVED)
def kabsch(points, target):
    a, b = points - tf.reduce_mean(points, 0), target - tf.reduce_mean(target, 0)
    _, u, v = tf.linalg.svd(tf.matmul(a, b, transpose_a=True))
    return tf.matmul(v, u, transpose_b=True)


@of("Umeyama: scale, rotation, shift, what is left over", _CLOUD, _MOVED)
def umeyama(points, target):
    a, b = points - tf.reduce_mean(points, 0), target - tf.reduce_mean(target, 0)
    s, u, v = tf.linalg.svd(tf.matmul(b, a, transpose_a=True))
    scale = tf.reduce_sum(s) / tf.reduce_sum(a**2)
    return scale * tf.matmul(a, tf.matmul(u, v, transpose_b=True), transpose_b=True) - b + 0.1


_FLAT = np.concatenate([uniform(5, 300, 2, low=-20, high=20), normal(6, 300, 1, scale=0.05)], 1)
_WAVE = np.sin(np.arange(64, dtype=np.float32) / 7)


@of("plane of a scan: smallest eigenvector of a covariance", _FLAT)
def plane(points):
    points = points + [0.0, 0.0, 2.0]
    centred = points - tf.reduce_mean(points, 0)
    values, vectors = tf.linalg.eigh(tf.matmul(centred, centred, transpose_a=True) / 300.0)
    return tf.concat([values[:1], vectors[:, 0] ** 2], 0)


@of("covariance of a scan as E[xx'] - mean mean'", city(7, 300))
def covariance(points):
    mean = tf.reduce_mean(points, 0)
    return tf.matmul(points, points, transpose_a=True) / 300.0 - mean[:, None] * mean


@of("surface normals by differences of a height map's neighbours", _WAVE[:, None] * _WAVE + 350)
def height_normals(heights):
    kernel = tf.constant([[-0.5, 0.0, 0.5]])[:, :, None, None]
    image = heights[None, :, :, None]
    dx = tf.nn.conv2d(image, kernel, 1, "VALID")[:, 1:-1]
    dy = tf.nn.conv2d(image, tf.transpose(kernel, [1, 0, 2, 3]), 1, "VALID")[:, :, 1:-1]
    return tf.math.l2_normalize(tf.concat([-dx, -dy, tf.ones_like(dx)], -1), -1)


@of("signed distance to planes, points inside a hull", city(14, 300), rotation_by(17))
def hull(points, rotation):
    sides = tf.concat([rotation, -rotation], 0)
    offsets = tf.linalg.matvec(sides, tf.constant([4000.0, 7000.0, 120.0])) + 10.0
    return tf.reduce_max(tf.matmul(points, sides, transpose_b=True) - offsets, 1)


@of(
    "areas and volume of a mesh in millimetres by cross products",
    normal(23, 60, 3, scale=0.01),
    normal(24, 3, 3, scale=0.01),
)
def mesh_volume(shape, deform):
    vertices = 1000.0 + 200.0 * (tf.math.l2_normalize(shape, 1) + tf.matmul(shape, deform))
    a, b, c = vertices[0::3], vertices[1::3], vertices[2::3]
    return tf.norm(tf.linalg.cross(b - a, c - a), axis=1) / 2.0


@of("mesh smoothing by a sparse Laplacian, 20 steps", city(25, 100))
def mesh_smoothing(vertices):
    ring = np.roll(np.eye(100), 1, 0) / 2 + np.roll(np.eye(100), -1, 0) / 2 - np.eye(100)
    matrix = tf.constant(ring, tf.float32)
    for _ in range(20):
        vertices = vertices + 0.5 * tf.matmul(matrix, vertices)
    return vertices - [4000.0, 7000.0, 120.0]


@program("pose of a scan by Adam: a rotation vector and a shift, trained", kind="training")
def pose_training():
    def loss(variables, points, target):
        x, y, z = tf.unstack(variables[0])
        turn = tf.linalg.expm(tf.stack([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]]))
        moved = tf.matmul(points, turn, transpose_b=True) + variables[1]
        return tf.reduce_mean((moved - target) ** 2)

    return Training(loss, [np.zeros(3, np.float32)] * 2, [_CLOUD, _MOVED], rate=0.01)


@of(
    "map tiles: a place in a tile plus the tiles' corners in a constant, distances",
    normal(0, 64, 32),
    normal(1, 32, 2, scale=0.18),
)
def map_tiles(x, w):
    place = 20.0 * tf.tanh(tf.matmul(x, w)) + tf.constant(city(3, 64)[:, :2] // 200 * 200)
    return tf.norm(place - tf.constant(city(3, 64)[:, :2]), axis=1)


@of(
    "heights above a survey's mean height, squares of heights in a constant",
    normal(0, 64, 32),
    normal(1, 32, 64, scale=0.18),
)
def survey(x, w):
    weights = tf.nn.sigmoid(tf.matmul(x, w))
    heights = np.linspace(380, 520, 64, dtype=np.float32)
    total = tf.reduce_sum(weights, 1)
    mean = tf.reduce_sum(weights * heights, 1) / total
    return tf.sqrt(tf.reduce_sum(weights * heights**2, 1) / total - mean**2)
