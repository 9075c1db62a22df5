"""Filters, colours, detections, depths and warps of images, behind convolutions and products."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from numerics.program import Result, normal, program, uniform

_SIDE = 64


def _smooth(channels=1, side=_SIDE):
    """A photo between 60 and 220: waves, a disk, and a little noise."""
    y, x = np.mgrid[:side, :side].astype(np.float32)
    waves = 140 + 40 * np.sin(x / 9) * np.cos(y / 11)
    disk = 30.0 * ((x - 40) ** 2 + (y - 22) ** 2 < 120)
    shades = [waves + disk + 8 * np.sin((x + k * y) / 5) for k in range(channels)]
    noise = np.random.default_rng(5).normal(size=[side, side, channels])
    return (np.stack(shades, -1) + noise)[None].astype(np.float32)


def _on_photo(name, channels=1, more=(), tolerance=None):
    """Adds the program of a function of a photo, 1 x 64 x 64 x channels."""

    def add(function):
        program(name, tolerance=tolerance)(lambda: Result(function, [_smooth(channels), *more]))
        return function

    return add


def _kernel(rows):
    return tf.constant(np.array(rows, np.float32)[:, :, None, None])


def _filtered(image, rows, padding="VALID"):
    return tf.nn.conv2d(image, _kernel(rows), 1, padding)


def _gauss(sigma, size=7):
    line = np.exp(-0.5 * ((np.arange(size) - size // 2) / sigma) ** 2)
    return np.outer(line, line) / np.outer(line, line).sum()


_SOBEL_X = [[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]]
_SOBEL_Y = np.transpose(_SOBEL_X)
_LAPLACE = [[0, 1, 0], [1, -4, 1], [0, 1, 0]]


def _box(image, size=5):
    return _filtered(image, np.full([size, size], 1 / size**2))


@_on_photo("Sobel edges of a photo up to 255")
def sobel(image):
    return tf.sqrt(_filtered(image, _SOBEL_X) ** 2 + _filtered(image, _SOBEL_Y) ** 2 + 1e-6)


@_on_photo("tf.image.sobel_edges of a photo up to 255")
def sobel_edges(image):
    return tf.image.sobel_edges(image)[:, 2:-2, 2:-2]


@_on_photo("Laplacian of a photo")
def laplacian(image):
    return _filtered(_filtered(image, _gauss(1.0)), _LAPLACE)


@_on_photo("sharpness: the variance of the Laplacian")
def sharpness(image):
    return tf.math.reduce_variance(_filtered(image, _LAPLACE))


@_on_photo("difference of Gaussians, blobs")
def blobs(image):
    return _filtered(image, _gauss(1.0)) - _filtered(image, _gauss(1.6))


@_on_photo("unsharp mask, clipped to uint8")
def unsharp(image):
    sharp = image + 1.5 * (image - _filtered(image, _gauss(2.0), "SAME"))
    return tf.cast(tf.clip_by_value(tf.round(sharp), 0.0, 255.0), tf.uint8)


@_on_photo("Harris corners", tolerance={"bfloat16": 0.06})
def harris(image):
    dx, dy = (_filtered(image / 255.0, kernel) for kernel in (_SOBEL_X, _SOBEL_Y))
    xx, yy, xy = (_filtered(t, _gauss(1.5)) for t in (dx * dx, dy * dy, dx * dy))
    return xx * yy - xy * xy - 0.05 * (xx + yy) ** 2


@_on_photo("local deviation by two box filters")
def local_deviation(image):
    return tf.sqrt(tf.maximum(_box(image * image) - _box(image) ** 2, 0.0))


@_on_photo("local deviation by average pools of a blurred photo")
def pooled_deviation(image):
    blurred = _filtered(image, _gauss(0.6))
    mean = tf.nn.avg_pool2d(blurred, 5, 1, "VALID")
    return tf.sqrt(tf.nn.avg_pool2d(blurred**2, 5, 1, "VALID") - mean**2 + 1e-3)


@_on_photo("guided filter with box filters, eps 4")
def guided(image):
    mean = _box(image)
    a = (_box(image * image) - mean * mean) / (_box(image * image) - mean * mean + 4.0)
    return _box(a) * image[:, 4:-4, 4:-4] + _box(mean - a * mean)


@_on_photo("Sauvola's threshold of a page, the dark share of each row")
def sauvola(image):
    mean = _box(image, 9)
    deviation = tf.sqrt(tf.maximum(_box(image**2, 9) - mean**2, 0.0))
    dark = image[:, 4:-4, 4:-4] < mean * (1.0 + 0.2 * (deviation / 128.0 - 1.0))
    return tf.reduce_mean(tf.cast(dark, tf.float32), 2)


@_on_photo("local contrast normalisation of a photo")
def local_contrast(image):
    centred = image - _filtered(image, _gauss(2.0), "SAME")
    return centred / tf.maximum(tf.sqrt(_filtered(centred**2, _gauss(2.0), "SAME")), 1.0)


@_on_photo("bilateral filter of a blurred photo by patches")
def bilateral(image):
    blurred = _filtered(image, _gauss(0.6))
    patches = tf.image.extract_patches(blurred, [1, 5, 5, 1], [1, 1, 1, 1], [1, 1, 1, 1], "VALID")
    weights = tf.exp(-((patches - blurred[:, 2:-2, 2:-2]) ** 2) / 50.0)
    return tf.reduce_sum(weights * patches, -1) / tf.reduce_sum(weights, -1)


@_on_photo("normalised cross-correlation with a template by convolutions", more=[normal(1, 7, 7)])
def template(image, pattern):
    pattern = (8.0 * pattern + 140.0)[:, :, None, None]
    count, mean = 49.0, _box(image, 7)
    both = tf.nn.conv2d(image, pattern, 1, "VALID") / count - mean * tf.reduce_mean(pattern)
    spread = tf.sqrt(_box(image**2, 7) - mean**2)
    return both / (spread * tf.math.reduce_std(pattern))


@_on_photo("histogram of oriented gradients, nine bins")
def oriented(image):
    dx, dy = _filtered(image, _SOBEL_X), _filtered(image, _SOBEL_Y)
    bins = tf.cast(tf.floor((tf.atan2(dy, dx) + np.pi) * 9 / (2 * np.pi + 1e-4)), tf.int32)
    size = tf.sqrt(dx**2 + dy**2)
    return tf.math.unsorted_segment_sum(tf.reshape(size, [-1]), tf.reshape(bins, [-1]), 9)


@_on_photo("heat equation on a photo, 100 steps of a stencil")
def heat(image):
    def step(i, u):
        return i + 1, u + 0.2 * _filtered(u, _LAPLACE, "SAME")

    return tf.while_loop(lambda i, u: i < 100, step, (0, image))[1]


@_on_photo("Poisson editing, 300 Jacobi steps with a kernel of neighbours")
def poisson_editing(image):
    source = _filtered(image, _LAPLACE, "SAME")
    ring = [[0, 1, 0], [1, 0, 1], [0, 1, 0]]

    def step(i, u):
        return i + 1, (_filtered(u, ring, "SAME") - source) / 4.0

    start = tf.zeros_like(image) + 100.0
    return tf.while_loop(lambda i, u: i < 300, step, (0, start))[1]


@_on_photo("Richardson-Lucy deconvolution, 20 steps")
def richardson_lucy(image):
    def step(i, u):
        ratio = image / (_filtered(u, _gauss(1.5), "SAME") + 1e-3)
        return i + 1, u * _filtered(ratio, _gauss(1.5), "SAME")

    return tf.while_loop(lambda i, u: i < 20, step, (0, tf.ones_like(image) * 128.0))[1]


@_on_photo("YCbCr of a greyish photo by a matrix, the chroma", channels=3)
def chroma(image):
    matrix = tf.constant([[0.299, -0.168736, 0.5], [0.587, -0.331264, -0.418688],
                          [0.114, 0.5, -0.081312]])  # fmt: skip
    return (tf.tensordot(image, matrix, 1) + [0.0, 128.0, 128.0])[..., 1:] - 128.0


@_on_photo("YCbCr by a matrix and back, to uint8", channels=3)
def ycbcr(image):
    matrix = np.array([[0.299, -0.1687, 0.5], [0.587, -0.3313, -0.4187], [0.114, 0.5, -0.0813]])
    ycc = tf.tensordot(image, tf.constant(matrix, tf.float32), 1) + [0.0, 128.0, 128.0]
    back = tf.tensordot(ycc - [0.0, 128.0, 128.0],
                        tf.constant(np.linalg.inv(matrix), tf.float32), 1)  # fmt: skip
    return tf.cast(tf.clip_by_value(back + 0.5, 0.0, 255.0), tf.uint8)


def _lab(image):
    matrix = tf.constant([[0.4124, 0.2126, 0.0193], [0.3576, 0.7152, 0.1192],
                          [0.1805, 0.0722, 0.9505]])  # fmt: skip
    f = (tf.tensordot((image / 255.0) ** 2.2, matrix, 1) / [0.9505, 1.0, 1.089]) ** (1 / 3)
    return tf.stack([116 * f[..., 1] - 16, 500 * (f[..., 0] - f[..., 1]),
                     200 * (f[..., 1] - f[..., 2])], -1)  # fmt: skip


@_on_photo("CIELAB of a photo, a and b", channels=3)
def lab(image):
    return _lab(image)[..., 1:]


@_on_photo("colour difference of a photo and its blur, CIE76", channels=3)
def colour_difference(image):
    blurred = tf.nn.avg_pool2d(image, 3, 1, "SAME")
    return tf.sqrt(tf.reduce_sum((_lab(image) - _lab(blurred)) ** 2, -1) + 1e-6)


@_on_photo("hue of a greyish photo after a colour matrix", channels=3)
def hue(image):
    mixed = tf.tensordot(image / 255.0, tf.eye(3) * 0.9 + 0.03, 1)
    high, low = tf.reduce_max(mixed, -1), tf.reduce_min(mixed, -1)
    return (mixed[..., 1] - mixed[..., 2]) / (high - low + 0.05)


@_on_photo("stains of a slide: optical density by the inverse of a matrix", channels=3)
def stains(image):
    density = -tf.math.log((image + 1.0) / 256.0)
    inverse = np.linalg.inv([[0.65, 0.70, 0.29], [0.07, 0.99, 0.11], [0.27, 0.57, 0.78]])
    return tf.tensordot(density, tf.constant(inverse, tf.float32), 1)


@_on_photo("JPEG: DCT of 8 x 8 blocks by matrices, quantised, and back")
def jpeg(image):
    k, n = np.mgrid[:8, :8]
    dct = np.sqrt(2 / 8) * np.cos(np.pi * (2 * n + 1) * k / 16)
    dct[0] /= np.sqrt(2)
    dct = tf.constant(dct, tf.float32)
    blocks = tf.reshape(tf.nn.space_to_depth(image - 128.0, 8), [64, 8, 8])
    coefficients = dct @ blocks @ tf.transpose(dct)
    return tf.transpose(dct) @ (tf.round(coefficients / 10.0) * 10.0) @ dct + 128.0


@_on_photo("nearest colour of a palette by x²+y²-2xy", channels=3,
           more=[uniform(7, 32, 3, low=100, high=190)], tolerance={"bfloat16": 0.2})  # fmt: skip
def palette(image, colours):
    pixels = tf.reshape(image, [-1, 3])
    squares = tf.reduce_sum(pixels**2, 1, keepdims=True) + tf.reduce_sum(colours**2, 1)
    nearest = tf.argmin(squares - 2.0 * tf.matmul(pixels, colours, transpose_b=True), 1)
    return tf.reduce_sum((pixels - tf.gather(colours, nearest)) ** 2, 1)


@_on_photo("moments of a segment: centre, covariance, orientation")
def moments(image):
    mask = tf.sigmoid((_filtered(image, _gauss(1.0), "SAME") - 150.0) / 8.0)[0, :, :, 0]
    y, x = (tf.constant(t.astype(np.float32)) for t in np.mgrid[400:464, 600:664])
    total = tf.reduce_sum(mask)
    cx, cy = tf.reduce_sum(mask * x) / total, tf.reduce_sum(mask * y) / total
    xx, yy = (
        tf.reduce_sum(mask * x * x) / total - cx**2,
        tf.reduce_sum(mask * y * y) / total - cy**2,
    )
    xy = tf.reduce_sum(mask * x * y) / total - cx * cy
    return tf.stack([xx / 100.0, yy / 100.0, xy / 100.0, tf.atan2(2 * xy, xx - yy)])


@_on_photo("moments of a segment with constants x² and y²")
def moments_squares(image):
    mask = tf.nn.relu(_filtered(image / 255.0, _gauss(1.0), "SAME") - 0.6)[0, :, :, 0]
    x = np.arange(600, 664, dtype=np.float32)
    total = tf.reduce_sum(mask)
    return tf.reduce_sum(mask * x**2) / total - (tf.reduce_sum(mask * x) / total) ** 2


@_on_photo("Otsu's threshold of a blurred photo")
def otsu(image):
    counts = tf.histogram_fixed_width(_filtered(image, _gauss(1.0)), [0.0, 255.0], 64)
    share = tf.cast(counts, tf.float32) / tf.cast(tf.reduce_sum(counts), tf.float32)
    low, mean = tf.cumsum(share), tf.cumsum(share * tf.range(64.0))
    return tf.math.divide_no_nan((mean[-1] * low - mean) ** 2, low * (1 - low))


@_on_photo("soft histogram of 64 bins after a blur")
def soft_histogram(image):
    values = tf.reshape(_filtered(image, _gauss(0.7)), [-1, 1])
    centres = np.arange(2, 256, 4, dtype=np.float32)
    return tf.reduce_mean(tf.exp(-0.5 * ((values - centres) / 2.0) ** 2), 0)


@_on_photo("connected components by max pools of numbers in a mask")
def components(image):
    mask = tf.cast(_filtered(image, _gauss(1.0), "SAME") > 141.5, tf.float32)
    ids = tf.reshape(tf.range(1.0, _SIDE**2 + 1.0), [1, _SIDE, _SIDE, 1])

    def step(i, label):
        return i + 1, tf.nn.max_pool2d(label, 3, 1, "SAME") * mask

    label = tf.while_loop(lambda i, u: i < 80, step, (0, ids * mask))[1]
    return tf.size(tf.unique(tf.reshape(label, [-1]))[0])


@_on_photo("distance to the nearest bright pixel, by 40 minima of neighbours + 1")
def distance_transform(image):
    far = tf.where(_filtered(image, _gauss(1.0), "SAME") > 190.0, 0.0, 1000.0)
    for _ in range(40):
        far = tf.minimum(far, 1.0 - tf.nn.max_pool2d(-far, 3, 1, "SAME"))
    return tf.minimum(far, 100.0)


@_on_photo("total variation denoising by 60 steps with kernels of differences")
def denoised(image):
    across, down = [[0, 0, 0], [0, -1, 1], [0, 0, 0]], [[0, 0, 0], [0, -1, 0], [0, 1, 0]]
    back = [np.rot90(t, 2) for t in (across, down)]

    def step(i, u):
        dx, dy = _filtered(u, across, "SAME"), _filtered(u, down, "SAME")
        size = tf.sqrt(dx**2 + dy**2 + 1.0)
        descent = _filtered(dx / size, back[0], "SAME") + _filtered(dy / size, back[1], "SAME")
        return i + 1, u - 0.1 * (2.0 * descent + u - image)

    result = tf.while_loop(lambda i, u: i < 60, step, (0, image))[1]
    return (image - result)[:, 2:-2, 2:-2]


@_on_photo("blur metric: a photo minus its reconstruction from a pyramid")
def pyramid(image):
    small = tf.nn.conv2d(image, _kernel(_gauss(1.0)), 2, "SAME")
    return image - tf.image.resize(small, [_SIDE, _SIDE])


@_on_photo("Haar wavelets of a photo, soft threshold, the details")
def haar(image):
    low, high = np.array([1, 1]) / 2, np.array([1, -1]) / 2
    bank = np.stack([np.outer(a, b) for a in (low, high) for b in (low, high)], -1)
    bands = tf.nn.conv2d(image, tf.constant(bank[:, :, None].astype(np.float32)), 2, "VALID")
    details = bands[..., 1:]
    return tf.sign(details) * tf.nn.relu(tf.abs(details) - 0.5)


@_on_photo("local binary patterns of a blurred photo", tolerance={"bfloat16": 0.2, "float16": 0.03})
def binary_patterns(image):
    blurred = _filtered(image, _gauss(1.0))
    code = 0.0
    for bit, (dy, dx) in enumerate([(0, 0), (0, 2), (2, 0), (2, 2)]):
        near = blurred[:, dy : dy + 56, dx : dx + 56]
        code += tf.cast(near > blurred[:, 1:57, 1:57], tf.float32) * 2.0**bit
    return tf.math.bincount(tf.cast(code, tf.int32), minlength=16)


@_on_photo("tone mapping of radiances up to 20000 by log luminance", channels=3)
def tone_mapping(image):
    radiance = (image / 220.0) ** 6 * 20000.0
    luminance = tf.tensordot(radiance, tf.constant([[0.2126], [0.7152], [0.0722]]), 1)
    key = tf.exp(tf.reduce_mean(tf.math.log(luminance + 1e-4)))
    scaled = 0.18 * luminance / key
    return radiance / luminance * scaled * (1 + scaled / 16.0) / (1 + scaled)


@_on_photo("grey world white balance, gains after a convolution", channels=3)
def white_balance(image):
    mixed = tf.nn.conv2d(image, tf.reshape(tf.eye(3) * 0.9 + 0.03, [1, 1, 3, 3]), 1, "SAME")
    means = tf.reduce_mean(mixed, [1, 2], keepdims=True)
    return mixed * (tf.reduce_mean(means) / means)
