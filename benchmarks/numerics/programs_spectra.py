"""Spectra of sound: transforms as products, mel, cepstra, pitches and phases."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from numerics.inputs import RATE, chord, decibels, frames_of_sound, low_pass
from numerics.program import normal, of, uniform

_FRAMES = frames_of_sound()


def _fourier(size, count=None):
    angle = 2 * np.pi * np.outer(np.arange(size), np.arange(count or size // 2 + 1)) / size
    return tf.constant(np.cos(angle), tf.float32), tf.constant(np.sin(angle), tf.float32)


@of(
    "spectrum by matrices of cosines and sines, in dB",
    _FRAMES,
    tolerance={"bfloat16": 0.1, "float16": 0.02},
)
def dft_decibels(frames):
    windowed = frames * tf.signal.hann_window(512)
    c, s = _fourier(512)
    return decibels(tf.matmul(windowed, c) ** 2 + tf.matmul(windowed, s) ** 2, 1.0)


@of("spectrogram by a convolution with windowed waves, STFT of nnAudio", chord())
def stft_convolution(sound):
    c, s = (w * tf.signal.hann_window(256)[:, None] for w in _fourier(256))
    bank = tf.concat([c, s], 1)[:, None]
    both = tf.nn.conv1d(sound[None, :, None], bank, 64, "VALID")
    return tf.sqrt(both[..., :129] ** 2 + both[..., 129:] ** 2 + 1e-8)


@of("spectrum to mel by a matrix, dB relative to the loudest, 80 dB of range", _FRAMES)
def mel_decibels(frames):
    power = tf.abs(tf.signal.rfft(frames * tf.signal.hann_window(512))) ** 2
    matrix = tf.signal.linear_to_mel_weight_matrix(40, 257, RATE, 60.0, 7600.0)
    levels = decibels(tf.matmul(power, matrix))
    return tf.maximum(levels, tf.reduce_max(levels) - 80.0)


@of("MFCCs by a matrix of cosines, means taken away", _FRAMES)
def mfcc_matrix(frames):
    power = tf.abs(tf.signal.rfft(frames)) ** 2
    matrix = tf.signal.linear_to_mel_weight_matrix(32, 257, RATE, 60.0, 7600.0)
    cosines = np.cos(np.pi / 32 * np.outer(np.arange(32) + 0.5, np.arange(13)))
    mfcc = tf.matmul(tf.math.log(tf.matmul(power, matrix) + 1e-6), tf.constant(cosines, tf.float32))
    return mfcc - tf.reduce_mean(mfcc, 0)


@of("deltas of cepstra by a convolution with -2 to 2", _FRAMES)
def deltas(frames):
    power = tf.abs(tf.signal.rfft(frames)) ** 2
    levels = tf.math.log(power[:, 4:44:4] + 1e-3) - 20.0
    taps = tf.reshape([-0.2, -0.1, 0.0, 0.1, 0.2], [5, 1, 1])
    return tf.nn.conv1d(levels[..., None], taps, 1, "VALID")


@of(
    "a formant's drift: slope of levels near -60 dB by a convolution",
    -60.0 + normal(5, 8, 64, scale=0.3),
)
def slope(levels):
    smooth = tf.cumsum(levels + 60.0, 1) * 0.1 - 60.0
    return tf.nn.conv1d(
        smooth[..., None], tf.reshape([-0.2, -0.1, 0.0, 0.1, 0.2], [5, 1, 1]), 1, "VALID"
    )


@of(
    "pitch: mean of 360 bins in cents around the highest, CREPE",
    normal(0, 20, 64),
    normal(1, 64, 360, scale=0.25),
)
def crepe(x, w):
    salience = tf.sigmoid(tf.matmul(x, w) * 0.3)
    bins = 1997.4 + 20.0 * np.arange(360, dtype=np.float32)
    middle = salience[:, 100:109]
    return tf.reduce_sum(middle * bins[100:109], 1) / tf.reduce_sum(middle, 1) - 4000.0


@of("pitch by autocorrelation as a product of shifted frames, the lag", _FRAMES[:4])
def autocorrelation(frames):
    shifted = tf.signal.frame(frames, 256, 1)[:, :200]
    far = tf.einsum("bi,bji->bj", frames[:, :256], shifted)
    return tf.argmax(far[:, 20:], 1) + 20


@of("pitch by YIN: squared differences r(0) + r(t) - 2 r(t), normalised", _FRAMES[:4])
def yin(frames):
    shifted = tf.signal.frame(frames, 256, 1)[:, :200]
    energy = tf.reduce_sum(shifted**2, -1)
    d = energy[:, :1] + energy - 2.0 * tf.einsum("bi,bji->bj", frames[:, :256], shifted)
    return (d * tf.range(200.0) / (tf.cumsum(d, 1) + 1e-6))[:, 20:]


@of(
    "delay of two microphones by a cross-correlation, parabola at its top",
    chord()[:1024],
    chord()[5:1029],
)
def delay(left, right):
    lags = tf.signal.frame(tf.pad(left, [[0, 32]]), 992, 1)[:33]
    far = tf.linalg.matvec(lags, right[:992])
    top = tf.minimum(tf.argmax(far), 31)
    a, b, c = far[top - 1], far[top], far[top + 1]
    return tf.cast(top, tf.float32) + 0.5 * (a - c) / (a - 2 * b + c)


@of("GCC-PHAT of sounds through a mixing matrix", chord()[:1024], chord()[7:1031])
def phat(left, right):
    mixed = tf.matmul(tf.constant([[0.9, 0.1], [0.1, 0.9]]), tf.stack([left, right]))
    spectra = tf.signal.rfft(mixed)
    cross = spectra[0] * tf.math.conj(spectra[1])
    cross /= tf.cast(tf.abs(cross) + 1e-3, tf.complex64)
    return tf.signal.irfft(cross)[:32]


@of("phase vocoder: phase advance of hops, unwrapped by round", _FRAMES)
def vocoder(frames):
    c, s = _fourier(512, 64)
    windowed = frames * tf.signal.hann_window(512)
    phase = tf.atan2(-tf.matmul(windowed, s), tf.matmul(windowed, c))[:, 6:8]
    bins = 2 * np.pi * 128.0 * tf.range(6.0, 8.0) / 512.0
    step = phase[1:] - phase[:-1] - bins
    return step - 2 * np.pi * tf.round(step / (2 * np.pi)) + bins


@of(
    "group delay: differences of unwrapped phases of a FIR",
    low_pass(0.2, 32),
    tolerance={"bfloat16": 0.1},
)
def group_delay(taps):
    c, s = _fourier(256, 24)
    real, imaginary = (tf.linalg.matvec(t[:32], taps, transpose_a=True) for t in (c, s))
    phase = tf.atan2(-imaginary, real)
    step = phase[1:] - phase[:-1]
    return step - 2 * np.pi * tf.round(step / (2 * np.pi))


@of("Griffin-Lim, 8 rounds after a mel inverse", _FRAMES)
def griffin_lim(frames):
    size = tf.nn.relu(tf.matmul(tf.abs(tf.signal.rfft(frames)), tf.eye(257) * 0.9)) + 0.01
    spectrum = tf.cast(size, tf.complex64)
    for _ in range(8):
        again = tf.signal.rfft(tf.signal.irfft(spectrum))
        spectrum = tf.cast(size, tf.complex64) * again / tf.cast(tf.abs(again) + 1e-8, tf.complex64)
    return tf.math.real(tf.signal.irfft(spectrum))


@of("linear prediction by Levinson's equations of an autocorrelation", _FRAMES[:8])
def prediction(frames):
    r = tf.einsum(
        "bi,bij->bj",
        frames[:, :400],
        tf.transpose(tf.signal.frame(frames, 400, 1)[:, :9], [0, 2, 1]),
    )
    lags = np.abs(np.subtract.outer(np.arange(8), np.arange(8)))
    return tf.linalg.solve(tf.gather(r, lags, axis=1) + 0.5 * tf.eye(8), r[:, 1:, None])[..., 0]


@of(
    "non-negative factors of a spectrogram, 50 multiplicative steps",
    uniform(7, 40, 30),
    uniform(8, 40, 5),
    uniform(9, 5, 30),
    tolerance={"float16": 0.01},
)
def factors(v, w, h):
    def step(i, w, h):
        h = h * (tf.matmul(w, v, transpose_a=True) / (tf.matmul(w, w @ h, transpose_a=True) + 1e-9))
        w = w * (tf.matmul(v, h, transpose_b=True) / (tf.matmul(w @ h, h, transpose_b=True) + 1e-9))
        return i + 1, w, h

    w, h = tf.while_loop(lambda i, *_: i < 50, step, (0, w, h))[1:]
    return tf.matmul(w, h)


@of(
    "a tone of 1 % on a level of 1, by a matrix of cosines",
    uniform(3, 50, 256, low=0.99, high=1.01),
)
def faint_tone(level):
    """The level is in the first column alone: the others sum to zero."""
    cosines, _ = _fourier(256, 127)
    return tf.matmul(level, cosines)[:, 1:]


@of("detail of a signal near 100 by Haar's filters, its mean beside", 100.0 + uniform(4, 2, 256, 1))
def haar(signal):
    bank = tf.constant([[[0.5, 0.5]], [[0.5, -0.5]]])
    return tf.nn.conv1d(signal, bank, 2, "VALID")[..., 1]
