"""Control: systems of states and steps, filters, planners, values of policies, physics."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from numerics.forms import layer, loop
from numerics.program import Result, normal, program, uniform

_DT = np.float32(0.02)


def _double_integrator():
    """Position and speed of four axes: x' = Ax + Bu."""
    a = np.kron(np.eye(4), [[1.0, _DT], [0.0, 1.0]]).astype(np.float32)
    b = np.kron(np.eye(4), [[0.5 * _DT**2], [_DT]]).astype(np.float32)
    return a, b


@program("x = Ax + Bu for 500 steps, position and speed")
def integrator():
    step = lambda x, i, a, b, u: tf.matmul(a, x) + tf.matmul(b, u)  # noqa: E731
    start = np.array([[100.0], [3.0]] * 4, np.float32)
    return loop(step, 500, start, *_double_integrator(), normal(0, 4, 1, scale=0.1))


@program("x = xA in tf.scan, 300 steps of a pendulum's linear model")
def linear_pendulum():
    def function(x, a):
        return tf.scan(lambda x, _: tf.matmul(x, a), tf.zeros([300]), x)[::10]

    a = np.array([[1.0, _DT], [-9.81 * _DT, 1.0 - 0.1 * _DT]], np.float32).T
    return Result(function, [uniform(0, 8, 2), a])


@program("x = Ax, twelve steps written one by one")
def unrolled_system():
    def function(x, a):
        for _ in range(12):
            x = tf.matmul(a, x)
        return x - 100.0

    return Result(function, [np.full([8, 1], 100.0, np.float32), _double_integrator()[0]])


@program("a controller that follows a set point, u = K(r - x)")
def closed_loop():
    gain = np.kron(np.eye(4), [[4.0, 3.0]]).astype(np.float32)
    goal = np.array([[50.0], [0.0]] * 4, np.float32)

    def step(x, i, a, b, gain, goal):
        return tf.matmul(a, x) + tf.matmul(b, tf.matmul(gain, goal - x))

    start = np.array([[20.0], [0.0]] * 4, np.float32)
    result = loop(step, 400, start, *_double_integrator(), gain, goal)
    return Result(lambda *inputs: result.function(*inputs) - inputs[-1], result.inputs)


@program("Kalman filter of a vehicle at 8 km, measured to a metre")
def kalman():
    def function(measured, a, h, start):
        def step(before, z):
            x, p = before
            x, p = tf.matmul(a, x), tf.matmul(a, tf.matmul(p, a, transpose_b=True)) + 0.01 * eye
            s = tf.matmul(h, tf.matmul(p, h, transpose_b=True)) + tf.eye(4)
            gain = tf.transpose(tf.linalg.solve(s, tf.matmul(h, p)))
            x = x + tf.matmul(gain, z - tf.matmul(h, x))
            return x, p - tf.matmul(gain, tf.matmul(h, p))

        eye = tf.eye(8)
        return tf.scan(step, measured, (start, eye))[0][:, ::2, 0] - measured[:, :, 0]

    h = np.kron(np.eye(4), [[1.0, 0.0]]).astype(np.float32)
    times = np.arange(60, dtype=np.float32)[:, None, None] * _DT
    measured = 8000.0 + 20.0 * times + normal(0, 60, 4, 1)
    start = np.array([[8000.0], [20.0]] * 4, np.float32)
    return Result(function, [measured, _double_integrator()[0], h, start])


@program("innovation: a measured position less a predicted one")
def innovation():
    def function(x, h, z):
        return z - tf.matmul(x, h)

    x = np.stack([uniform(0, 64, low=900, high=1100), normal(1, 64)], 1)
    h = np.float32([[1.0], [0.1]])
    return Result(function, [x, h, x @ h + normal(2, 64, 1)])


@program("LQR by 200 steps of Riccati's equation, the gain")
def riccati():
    def step(p, i, a, b):
        pb = tf.matmul(p, b)
        s = tf.matmul(b, pb, transpose_a=True) + 0.1 * tf.eye(4)
        gain = tf.linalg.solve(s, tf.matmul(pb, a, transpose_a=True))
        return tf.eye(8) + tf.matmul(a, tf.matmul(p, a - tf.matmul(b, gain)), transpose_a=True)

    result = loop(step, 200, np.eye(8, dtype=np.float32), *_double_integrator())

    def function(p, a, b):
        pb = tf.matmul(result.function(p, a, b), b)
        return tf.linalg.solve(
            tf.matmul(b, pb, transpose_a=True) + 0.1 * tf.eye(4), tf.matmul(pb, a, transpose_a=True)
        )

    return Result(function, result.inputs)


@program("Lyapunov's equation by a sum of 500 terms")
def lyapunov():
    a = 0.995 * np.linalg.qr(normal(0, 8, 8))[0].astype(np.float32)
    step = lambda p, i, a: tf.matmul(a, tf.matmul(p, a), transpose_a=True) + tf.eye(8)  # noqa: E731
    return loop(step, 500, np.eye(8, dtype=np.float32), a)


@program("MPC: errors of predicted positions along a reference")
def prediction():
    def function(x, u, phi, gamma, reference):
        return tf.matmul(phi, x) + tf.matmul(gamma, u) - reference

    phi = np.stack([np.ones(40), np.arange(1, 41) * _DT], 1).astype(np.float32)
    gamma = np.tri(40).astype(np.float32) * _DT**2
    x, u = np.float32([[500.0], [5.0]]), normal(0, 40, 1, scale=5.0)
    return Result(function, [x, u, phi, gamma, phi @ x + 0.5 * normal(1, 40, 1)])


@program("MPC by 100 steps of a projected gradient")
def projected():
    def step(u, i, gram, right):
        return tf.clip_by_value(u - 0.02 * (tf.matmul(gram, u) - right), -1.0, 1.0)

    gram = (np.tri(30) @ np.tri(30).T / 30 + 0.1 * np.eye(30)).astype(np.float32)
    return loop(step, 100, np.zeros([30, 1], np.float32), gram, normal(0, 30, 1))


@program("a pendulum with a policy, 200 steps, its angle")
def pendulum():
    def step(state, i, w, v):
        angle, speed = state[:, :1], state[:, 1:]
        seen = tf.concat([tf.cos(angle), tf.sin(angle), speed], 1)
        push = tf.tanh(tf.matmul(tf.tanh(tf.matmul(seen, w)), v))
        speed += (15.0 * tf.sin(angle) + 3.0 * push - 0.1 * speed) * 0.01
        return tf.concat([angle + speed * 0.01, speed], 1)

    start = np.concatenate([uniform(0, 8, 1, low=2, high=4), np.zeros([8, 1])], 1)
    weights = [normal(1, 3, 16), normal(2, 16, 1, scale=0.25)]
    return loop(step, 200, start.astype(np.float32), *weights)


@program("a gyroscope: an orientation turned by 0.003 rad, 300 times")
def gyroscope():
    c, s = np.cos(np.float32(0.003)), np.sin(np.float32(0.003))
    turn = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]], np.float32)
    return loop(lambda r, i, turn: tf.matmul(r, turn), 300, np.eye(3, dtype=np.float32), turn)


@program("an orientation as a quaternion, turned by speeds from a product")
def quaternion():
    def step(q, i, x, w):
        speed = 0.3 + 0.1 * tf.tanh(tf.matmul(x, w))
        zero = tf.zeros_like(speed[:, :1])
        rate = tf.concat([zero, speed], 1)
        turned = tf.stack(
            [
                -q[:, 1] * rate[:, 1] - q[:, 2] * rate[:, 2] - q[:, 3] * rate[:, 3],
                q[:, 0] * rate[:, 1] + q[:, 2] * rate[:, 3] - q[:, 3] * rate[:, 2],
                q[:, 0] * rate[:, 2] - q[:, 1] * rate[:, 3] + q[:, 3] * rate[:, 1],
                q[:, 0] * rate[:, 3] + q[:, 1] * rate[:, 2] - q[:, 2] * rate[:, 1],
            ],
            1,
        )
        return tf.nn.l2_normalize(q + 0.5 * 0.01 * turned, -1)

    start = np.tile(np.float32([[1, 0, 0, 0]]), [8, 1])
    return loop(step, 300, start, normal(0, 8, 32), normal(1, 32, 3, scale=0.18))


def _arm(angles, lengths):
    """The place of the hand of an arm of several joints, in millimetres."""
    place = tf.constant([[0.0], [0.0], [0.0], [1.0]])
    for k in reversed(range(6)):
        c, s = tf.cos(angles[k]), tf.sin(angles[k])
        row = [[c, -s, 0.0, lengths[k]], [s, c, 0.0, 0.0], [0.0, 0.0, 1.0, 10.0], [0, 0, 0, 1.0]]
        place = tf.matmul(tf.stack([tf.stack(line) for line in row]), place)
    return place[:2, 0]


@program("an arm of six joints, millimetres to a target")
def arm():
    lengths = np.float32([300.0, 300.0, 250.0, 200.0, 100.0, 80.0])
    angles = np.float32([0.1, 0.4, -0.2, 0.5, 0.3, -0.1])
    target = np.float32([1005.0, 590.0])
    return Result(lambda *inputs: _arm(*inputs[:2]) - inputs[2], [angles, lengths, target])


@program("damped least squares for the joints of an arm")
def inverse_kinematics():
    def function(jacobian, error):
        square = tf.matmul(jacobian, jacobian, transpose_b=True) + 0.01 * tf.eye(3)
        return tf.matmul(jacobian, tf.linalg.solve(square, error), transpose_a=True)

    jacobian = normal(0, 3, 7) * np.float32([[1.0], [1.0], [0.05]])
    return Result(function, [jacobian, normal(1, 3, 1)])


@program("a rigid motion between clouds of points, metres from the origin")
def rigid():
    def function(p, q):
        both = tf.matmul(p, q, transpose_a=True) / 64.0
        centre = tf.reduce_mean(p, 0, keepdims=True), tf.reduce_mean(q, 0, keepdims=True)
        return both - tf.matmul(*centre, transpose_a=True)

    p = normal(0, 64, 3) + np.float32([[30.0, 20.0, 5.0]])
    return Result(function, [p, p + np.float32([[0.5, 0.2, 0.0]])])


@program("a residual of ICP: matched points after a turn, 100 m away")
def icp():
    def function(p, q, turn, shift):
        return tf.matmul(p, turn) + shift - q

    turn = np.linalg.qr(normal(0, 3, 3))[0].astype(np.float32)
    p = normal(1, 64, 3, scale=5.0) + 100.0
    return Result(
        function,
        [p, p @ turn + 2.0 + normal(2, 64, 3, scale=0.05), turn, np.full(3, 2.0, np.float32)],
    )


@program("particle filter: weights by distances to a beacon")
def particles():
    def function(x, h, z):
        weights = tf.exp(-0.5 * tf.square((z - tf.matmul(x, h)) / 2.0))
        return weights / tf.reduce_sum(weights)

    x = np.float32([[400.0, 300.0]]) + normal(0, 200, 2, scale=3.0)
    return Result(function, [x, np.float32([[0.8], [0.6]]), np.float32([[500.0]])])


@program("bearing and range to landmarks from a moved robot")
def bearing():
    def function(z, robot, landmarks):
        away = landmarks - (robot + z)
        return tf.atan2(away[:, 1], away[:, 0]) + tf.norm(away, axis=1) / 100.0

    robot = np.float32([[1500.0, 2000.0]])
    return layer(function, robot, robot + normal(3, 64, 2, scale=20.0), outputs=2)


@program("a speed from positions, 1 ms apart")
def speed():
    def function(x, c):
        position = tf.matmul(x, c)
        return (position[1:] - position[:-1]) / 0.001

    times = np.arange(100, dtype=np.float32) * 0.001
    x = np.stack([2.0 + 3.0 * times, np.full(100, 0.5, np.float32)], 1)
    return Result(function, [x, np.float32([[1.0], [0.2]])])


@program("a dead zone around a set point")
def dead_zone():
    def function(z, reference):
        error = reference - (z + reference)
        return error - tf.clip_by_value(error, -0.5, 0.5)

    return layer(function, np.float32([[220.0]]))


@program("a recursive filter with poles at 0.99")
def recursive():
    def function(z, poles):
        def step(before, x):
            now = x + poles[0] * before[0] + poles[1] * before[1]
            return now, before[0]

        return tf.scan(step, z[:, 0], (0.0, 0.0))[0]

    return layer(function, np.float32([1.96, -0.9801]), rows=400)


@program("contact forces of 10⁴ N/m where a foot is below ground")
def contact():
    def function(z, ground):
        foot = ground + 0.01 * tf.tanh(z)
        return 1e4 * tf.nn.relu(ground - foot)

    return layer(function, uniform(2, 64, 1, low=1.0, high=2.0))


@program("an occupancy grid: log-odds of 200 scans")
def occupancy():
    step = lambda grid, i, x, w: grid + 0.02 * tf.tanh(tf.matmul(x, w))  # noqa: E731
    return loop(
        step, 200, np.zeros([16, 32], np.float32), normal(0, 16, 32), normal(1, 32, 32, scale=0.18)
    )


@program("time to collision of cars in a lane")
def collision():
    def function(z, place, speeds):
        ahead = place + z
        return (ahead[1:] - ahead[:-1]) / speeds[1:]

    place = np.cumsum(uniform(2, 64, 1, low=8, high=40), 0)
    return layer(function, place, uniform(3, 64, 1, low=1.0, high=5.0))


@program("an observer that corrects a linear model, 200 steps")
def observer():
    def step(x, i, a, gain, h, z):
        x = tf.matmul(a, x)
        return x + tf.matmul(gain, z - tf.matmul(h, x))

    h = np.kron(np.eye(4), [[1.0, 0.0]]).astype(np.float32)
    gain = np.kron(np.eye(4), [[0.1], [0.2]]).astype(np.float32)
    z = np.float32(120.0) + normal(0, 4, 1)
    start = np.zeros([8, 1], np.float32)
    result = loop(step, 200, start, _double_integrator()[0], gain, h, z)
    return Result(lambda *inputs: result.function(*inputs)[::2] - inputs[-1], result.inputs)


@program("areas of turned fields in metres, by the shoelace")
def areas():
    def function(x, turn):
        p = tf.reshape(tf.matmul(x, turn), [16, 4, 2])
        q = tf.roll(p, -1, 1)
        return 0.5 * tf.reduce_sum(p[..., 0] * q[..., 1] - q[..., 0] * p[..., 1], 1)

    corner = uniform(0, 16, 1, 2, low=500, high=1500)
    square = np.float32([[0, 0], [30, 0], [30, 40], [0, 40]])
    turn = np.float32([[0.8, -0.6], [0.6, 0.8]])
    return Result(function, [(corner + square).reshape([-1, 2]), turn])


@program("depth from the disparity of two cameras, pixels to 4000")
def disparity():
    def function(z, left):
        right = left - 20.0 - tf.tanh(z)
        return 1000.0 * 0.5 / (left - right)

    return layer(function, uniform(2, 64, 1, low=500, high=4000))


# A small difference of products of what the convolution rounds.
@program("corners by Harris, determinant and trace", tolerance={"bfloat16": 0.08, "float16": 0.01})
def harris():
    kernel = np.full([3, 3, 3, 3], 0, np.float32) + np.eye(3, dtype=np.float32) / 9.0

    def function(image):
        dy, dx = tf.image.image_gradients(image)
        smooth = tf.nn.conv2d(tf.concat([dx * dx, dy * dy, dx * dy], 3), kernel, 1, "SAME")
        a, c, b = tf.split(smooth, 3, 3)
        return (a * c - b * b - 0.05 * tf.square(a + c))[:, 4:-4, 4:-4]

    ramp = np.arange(32, dtype=np.float32) * 4.0
    return Result(
        function, [ramp[None, :, None, None] + ramp[None, None, :, None] + normal(0, 1, 32, 32, 1)]
    )


@program("a phase from a cumsum of 1 + 0.001 z, less the steps")
def phase():
    return layer(
        lambda z: tf.cumsum(1.0 + 0.001 * tf.nn.relu(z[:, 0])) - tf.range(1.0, 401.0), rows=400
    )


@program("Kalman filter: what a precise measurement leaves of the variance")
def precise_measurement():
    def left(p, noise):
        gain = tf.matmul(p, tf.linalg.inv(p + noise))
        return tf.linalg.diag_part(tf.matmul(tf.eye(4) - tf.matmul(gain, tf.eye(4)), p))

    spread = normal(0, 4, 4)
    covariance = 4.0 * np.eye(4, dtype=np.float32) + 0.1 * spread @ spread.T
    return Result(left, [covariance, 0.004 * np.eye(4, dtype=np.float32)])
