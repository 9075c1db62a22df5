"""Numbers that are large, tiny or whole, next to a matrix product."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from numerics.program import Result, Training, classes, normal, program, uniform


def _product(function, *more):
    """`function(product, *more)`."""

    def whole(x, w, *rest):
        return function(tf.matmul(x, w), *rest)

    return Result(whole, [normal(0, 8, 16), normal(1, 16, 16, scale=0.25), *more])


@program("an index computed in float: row * width + column")
def float_index():
    """The row and the column come from the maximum of a product, as in a grid of a detector."""

    def function(z, table):
        row = tf.cast(tf.argmax(z[:, :8], 1), tf.float32)
        column = tf.cast(tf.argmax(z[:, 8:], 1), tf.float32)
        return tf.gather(table, tf.cast(row * 300.0 + column, tf.int32))

    return _product(function, uniform(2, 3000, 3))


@program("whole numbers from a floor of a product")
def floors():
    """A floor is not continuous, so the sums of its values are compared."""

    def function(z):
        steps = tf.floor(tf.sigmoid(z) * 1000.0)
        return tf.reduce_sum(steps * 1.0, 1) / 1000.0

    return _product(function)


@program("count of a mask, a sum of 5000 ones")
def count_of_mask():
    def function(x, w):
        mask = tf.cast(tf.matmul(x, w) < 100.0, tf.float32)
        return tf.reduce_sum(mask, 0)

    return Result(function, [normal(0, 5000, 16), normal(1, 16, 4, scale=0.25)])


@program("position in a padded sequence, cumsum of a mask")
def cumulative_mask():
    def function(x, w):
        mask = tf.nn.relu(tf.sign(tf.matmul(x, w) + 100.0))
        return tf.cumsum(mask, 0)[-5:]

    return Result(function, [normal(0, 3001, 16), normal(1, 16, 4, scale=0.25)])


@program("a mean as a sum divided by a count in float")
def mean_by_count():
    def function(x, w):
        z = tf.sigmoid(tf.matmul(x, w))
        ones = tf.ones_like(z)
        return tf.reduce_sum(z, 0) / tf.reduce_sum(ones, 0)

    return Result(function, [normal(0, 3001, 16), normal(1, 16, 4, scale=0.25)])


@program("mean by a product with ones")
def mean_by_product():
    def function(x, w):
        z = tf.sigmoid(tf.matmul(x, w))
        return tf.matmul(tf.ones([1, 3001]), z) / 3001.0

    return Result(function, [normal(0, 3001, 16), normal(1, 16, 4, scale=0.25)])


@program("a sum of squares of a large product")
def large_squares():
    return _product(lambda z: tf.reduce_sum(tf.square(500.0 * z), 1) / 1e6)


@program("a product of large products, scaled later")
def large_products():
    return _product(lambda z: tf.matmul(300.0 * z, 300.0 * z, transpose_b=True) / 90000.0)


@program("a square of a large product times 1e-6")
def large_square_scaled():
    return _product(lambda z: 1e-6 * (1000.0 * z) ** 2)


@program("cubes in a GELU of a large product")
def gelu():
    def function(z):
        z = 30.0 * z
        return 0.5 * z * (1.0 + tf.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3)))

    return _product(function)


@program("tiny numbers: a product times 1e-8, times 1e8")
def tiny():
    return _product(lambda z: (z * 1e-8 + 1e-9) * 1e8)


@program("a difference of large numbers: (x + 1000) - 1000")
def swamped():
    return _product(lambda z: (z + 1000.0) - 1000.0)


@program("unit conversion: Celsius to Kelvin, and a fourth power")
def kelvin():
    return _product(lambda z: 5.67e-8 * (20.0 + 5.0 * z + 273.15) ** 4)


@program("geographic coordinates: haversine of neighbours")
def haversine():
    """Degrees with 4 digits after the point; the distance is between rows that are near."""

    def function(z):
        latitude = (48.0 + 0.01 * z) * np.pi / 180.0
        longitude = (2.0 + 0.01 * tf.reverse(z, [1])) * np.pi / 180.0
        d_lat = latitude[1:] - latitude[:-1]
        d_lon = longitude[1:] - longitude[:-1]
        a = tf.sin(d_lat / 2.0) ** 2
        a += tf.cos(latitude[1:]) * tf.cos(latitude[:-1]) * tf.sin(d_lon / 2.0) ** 2
        return 6371.0 * 2.0 * tf.asin(tf.sqrt(a))

    return _product(function)


@program("softmax with a temperature of 0.01")
def sharp_softmax():
    return _product(lambda z: tf.nn.softmax(tf.sigmoid(z) / 0.01))


@program("1 - x where x is nearly 1")
def nearly_one():
    return _product(lambda z: 1e4 * (1.0 - (1.0 - 1e-4 * tf.sigmoid(z))))


@program("log of 1 - sigmoid of a large product")
def log_of_one_minus():
    return _product(lambda z: tf.math.log(1.0 - tf.sigmoid(3.0 * z) + 1e-7))


@program("odds: x / (1 - x + 1e-7)")
def odds():
    def function(z):
        chance = tf.sigmoid(2.0 * z)
        return tf.math.log(chance / (1.0 - chance + 1e-7))

    return _product(function)


@program("inverse sigmoid of a detector, clipped at 1e-5")
def inverse_sigmoid():
    def function(z):
        chance = tf.clip_by_value(tf.sigmoid(2.0 * z), 1e-5, 1.0 - 1e-5)
        return tf.math.log(chance / (1.0 - chance))

    return _product(function)


@program("atanh of a tanh of a product")
def atanh():
    return _product(lambda z: tf.atanh(tf.clip_by_value(tf.tanh(z), -1 + 1e-6, 1 - 1e-6)))


@program("acos of a cosine of unit vectors, in degrees")
def angles():
    def function(z):
        z = tf.math.l2_normalize(z, 1)
        cosines = tf.clip_by_value(tf.matmul(z, z, transpose_b=True), -1.0 + 1e-7, 1.0 - 1e-7)
        return tf.acos(cosines) * 180.0 / np.pi

    return _product(function)


@program("Poincaré distance with 1 - norm² + 1e-5")
def poincare():
    def function(z):
        z = 0.95 * z / (1e-7 + tf.norm(z, axis=1, keepdims=True))
        away = tf.reduce_sum(tf.square(z[1:] - z[:-1]), 1)
        room = 1.0 - tf.reduce_sum(tf.square(z), 1)
        return tf.acosh(1.0 + 2.0 * away / (room[1:] * room[:-1] + 1e-5))

    return _product(function)


@program("quantization aware: fake quantization with 8 bits", tolerance={"float16": 0.012})
def fake_quantization():
    """A value may be rounded to the next step, which is 8/255 away; values are at most 3."""
    return _product(lambda z: tf.quantization.fake_quant_with_min_max_args(z, -4.0, 4.0))


@program("a table of learnt buckets, searchsorted of a product")
def buckets():
    def function(z, edges):
        found = tf.searchsorted(edges, tf.reshape(z, [-1]))
        return tf.reduce_mean(tf.cast(found, tf.float32))[None]

    return _product(function, np.linspace(-3, 3, 2000).astype(np.float32))


def _trained(name, loss, targets, **options):
    @program(name, kind="training")
    def build():
        def of_variables(variables, x, y):
            w1, w2 = variables
            return loss(tf.matmul(tf.nn.relu(tf.matmul(x, w1)), w2), y)

        variables = [normal(1, 12, 16, scale=0.3), normal(2, 16, 4, scale=0.25)]
        return Training(of_variables, variables, [normal(0, 32, 12), targets()], **options)


_trained(
    "mean squared error by hand of targets around 1000",
    lambda z, y: tf.reduce_mean(tf.square(z - y)),
    lambda: 1000.0 + normal(3, 32, 4, scale=300.0),
)
_trained(
    "mean squared error by hand, (z - y) * (z - y), of targets around 1000",
    lambda z, y: tf.reduce_mean((z - y) * (z - y)),
    lambda: 1000.0 + normal(3, 32, 4, scale=300.0),
)
_trained(
    "relative error |z - y| / y of targets around 0.001",
    lambda z, y: tf.reduce_mean(tf.abs(0.001 * z - y) / (y + 1e-9)),
    lambda: uniform(3, 32, 4, low=5e-4, high=2e-3),
)
_trained(
    "sum of squares over a batch, not divided",
    lambda z, y: tf.reduce_sum(tf.square(z - y)) * 100.0,
    lambda: 10.0 * normal(3, 32, 4),
)
_trained(
    "a loss of 1e-6 of another, as a weight of an auxiliary loss",
    lambda z, y: 1e-6 * tf.reduce_mean(tf.square(z - y)),
    lambda: normal(3, 32, 4),
)
_trained(
    "R², 1 - a ratio of sums",
    lambda z, y: (
        tf.reduce_sum((z - y) ** 2) / (tf.reduce_sum((y - tf.reduce_mean(y, 0)) ** 2) + 1e-7)
    ),
    lambda: 50.0 + normal(3, 32, 4),
)
_trained(
    "correlation as a loss, covariance by E[xy]-E[x]E[y]",
    lambda z, y: (
        1.0
        - tf.reduce_mean(
            (tf.reduce_mean(z * y, 0) - tf.reduce_mean(z, 0) * tf.reduce_mean(y, 0))
            / (tf.math.reduce_std(z, 0) * tf.math.reduce_std(y, 0) + 1e-7)
        )
    ),
    lambda: 3.0 + normal(3, 32, 4),
)
_trained(
    "accuracy of classes as a part of the loss",
    lambda z, y: tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(tf.cast(y[:, 0], tf.int32), z)
    ),
    lambda: np.repeat(classes(3, 32, 4)[:, None].astype(np.float32), 4, 1),
)


def _sure(function):
    """A function of probabilities close to 1."""
    return _product(lambda z: function(tf.sigmoid(3.0 * z + 6.0)))


@program("-log(1 - p) of a sure model, as it is")
def minus_log():
    """TensorFlow fuses Log and Neg into one op."""
    return _sure(lambda p: -tf.math.log(1.0 - p))


@program("log of the square of 1 - p")
def log_of_square():
    return _sure(lambda p: tf.math.log(tf.square(1.0 - p)))


@program("log of a sum of 1 - p")
def log_of_sum():
    """The sum is computed in float32, but each of its terms is rounded before."""
    return _sure(lambda p: tf.math.log(tf.reduce_sum(1.0 - p, 1)))


@program("log of a product of 1 - p")
def log_of_survival():
    """The logarithm of the probability that none of several sure events happens."""
    return _sure(lambda p: tf.math.log(tf.reduce_prod(1.0 - p[:, :4], 1)))


@program("odds, p / (1 - p)")
def odds_of_sure():
    return _sure(lambda p: tf.math.log1p(p / (1.0 - p)))


@program("divide_no_nan by 1 - p")
def no_nan():
    return _sure(lambda p: tf.math.log1p(tf.math.divide_no_nan(1.0, 1.0 - p)))


@program("ratio of two small probabilities")
def small_ratio():
    return _product(lambda z: (1.0 - tf.sigmoid(z + 7.0)) / (1.0 - tf.sigmoid(z + 8.0)))
