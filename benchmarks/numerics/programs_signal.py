"""Fourier transforms of products, and metrics of images after a convolution."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from numerics.program import Result, Training, normal, program, uniform


def _audio():
    """A framed signal through a layer: [4, 256] and the layer's weights."""
    return [normal(0, 4, 256), normal(1, 256, 256, scale=1 / 16)]


@program("stft of a product, magnitudes")
def stft():
    def function(x, w):
        return tf.abs(tf.signal.stft(tf.matmul(x, w), 64, 32))

    return Result(function, _audio())


@program("log-mel spectrogram with 1e-6", tolerance={"float16": 0.01})
def log_mel():
    """A logarithm of tiny values magnifies the rounding of the product, in every precision."""

    def function(x, w):
        power = tf.square(tf.abs(tf.signal.stft(tf.matmul(x, w), 64, 32)))
        matrix = tf.signal.linear_to_mel_weight_matrix(16, 33, 8000, 80.0, 4000.0)
        return tf.math.log(tf.tensordot(power, matrix, 1) + 1e-6)

    return Result(function, _audio())


@program("MFCCs of a spectrogram")
def mfcc():
    def function(x, w):
        power = tf.abs(tf.signal.stft(tf.matmul(x, w), 64, 32))
        matrix = tf.signal.linear_to_mel_weight_matrix(16, 33, 8000, 80.0, 4000.0)
        logs = tf.math.log(tf.matmul(power, matrix[None]) + 1e-6)
        return tf.signal.mfccs_from_log_mel_spectrograms(logs)

    return Result(function, _audio())


@program("fft of a product and back, times a filter")
def filtered():
    def function(x, w):
        spectrum = tf.signal.rfft(tf.matmul(x, w))
        spectrum *= tf.cast(tf.exp(-tf.range(129.0) / 20.0), tf.complex64)
        return tf.signal.irfft(spectrum)

    return Result(function, _audio())


# Logarithms of spectra near zero: two trainings differ by what rounds the product.
@program("multi-scale spectral loss, trained", kind="training", tolerance={"float16": 0.1})
def spectral_loss():
    def loss(variables, x, y):
        made = tf.matmul(x, variables[0])
        total = 0.0
        for size in (32, 64):
            a = tf.abs(tf.signal.stft(made, size, size // 2)) + 1e-3
            b = tf.abs(tf.signal.stft(y, size, size // 2)) + 1e-3
            total += tf.reduce_mean(tf.abs(a - b))
            total += tf.reduce_mean(tf.abs(tf.math.log(a) - tf.math.log(b)))
        return total

    x = normal(0, 4, 64)
    y = x @ normal(3, 64, 128, scale=1 / 8) + 0.1 * normal(2, 4, 128)
    variables = [normal(1, 64, 128, scale=1 / 8)]
    return Training(loss, variables, [x, y], steps=60, rate=0.002)


@program("signal-to-noise ratio in dB, 1e-8")
def signal_to_noise():
    def function(x, w):
        made = x + 0.1 * tf.matmul(x, w)
        noise = tf.reduce_sum(tf.square(made - x), 1)
        return 10.0 * tf.math.log(tf.reduce_sum(x * x, 1) / (noise + 1e-8)) / np.log(10.0)

    return Result(function, _audio())


def _images():
    """Images, and a kernel that blurs them a little."""
    kernel = np.zeros([3, 3, 3, 3], np.float32)
    kernel[:, :, range(3), range(3)] = 0.05
    kernel[1, 1, range(3), range(3)] = 0.6
    return [uniform(0, 2, 32, 32, 3), kernel]


def _compared(metric, scale=1.0):
    """`metric(image, blurred image)`."""

    def function(images, kernel):
        return metric(scale * images, scale * tf.nn.conv2d(images, kernel, 1, "SAME"))

    return Result(function, _images())


@program("ssim")
def ssim():
    return _compared(lambda a, b: tf.image.ssim(a, b, 1.0))


@program("ssim of a convolution and itself, quantized")
def ssim_same():
    def function(images, kernel):
        blurred = tf.nn.conv2d(images, kernel, 1, "SAME")
        return tf.image.ssim(blurred, tf.round(blurred * 255.0) / 255.0, 1.0)

    return Result(function, _images())


@program("ssim of images up to 255")
def ssim_255():
    return _compared(lambda a, b: tf.image.ssim(a, b, 255.0), 255.0)


@program("ssim, a metric within a loss, trained", kind="training")
def ssim_trained():
    def loss(variables, images):
        made = tf.nn.conv2d(images, variables[0], 1, "SAME")
        return 1.0 - tf.reduce_mean(tf.image.ssim(made, images, 1.0))

    return Training(loss, [normal(1, 3, 3, 3, 3, scale=0.2)], [_images()[0]], steps=40)


@program("psnr")
def psnr():
    return _compared(lambda a, b: tf.image.psnr(a, b, 1.0))


@program("psnr of images up to 255")
def psnr_255():
    return _compared(lambda a, b: tf.image.psnr(a, b, 255.0), 255.0)


@program("total variation of a convolution")
def total_variation():
    return _compared(lambda a, b: tf.image.total_variation(b))


@program("sobel edges of a convolution, root of squares + 1e-12")
def sobel():
    def metric(a, b):
        return tf.sqrt(tf.reduce_sum(tf.square(tf.image.sobel_edges(b)), -1) + 1e-12)

    return _compared(metric)


@program("HSV of a convolution, and back")
def hsv():
    def metric(a, b):
        hsv = tf.image.rgb_to_hsv(b)
        return tf.image.hsv_to_rgb(hsv * tf.constant([1.0, 0.9, 1.0]))

    return _compared(metric)


@program("gamma correction of a convolution, linear to sRGB")
def gamma():
    def metric(a, b):
        return tf.where(b > 0.0031308, 1.055 * tf.pow(b, 1 / 2.4) - 0.055, 12.92 * b)

    return _compared(metric)


@program("histogram equalization of a convolution")
def histogram():
    def metric(a, b):
        counts = tf.histogram_fixed_width(b, [0.0, 1.0], 16)
        return tf.cumsum(tf.cast(counts, tf.float32)) / tf.cast(tf.size(b), tf.float32)

    return _compared(metric)


@program("Gram matrices of features, style loss")
def gram():
    def function(images, kernel):
        features = tf.nn.relu(tf.nn.conv2d(images, kernel, 1, "SAME")) * 8.0
        gram = tf.einsum("bijc,bijd->bcd", features, features)
        return gram / (32.0 * 32.0)

    return Result(function, _images())


@program("resize of a convolution, and grid coordinates")
def resize():
    return _compared(lambda a, b: tf.image.resize(b, [47, 53]))


@program("soft argmax of a heat map, in pixels")
def soft_argmax():
    def function(images, kernel):
        heat = tf.reshape(tf.nn.conv2d(images, kernel, 1, "SAME")[..., 0], [2, -1])
        weights = tf.nn.softmax(20.0 * heat)
        return tf.reduce_sum(weights * tf.range(1024.0), 1)

    return Result(function, _images())
