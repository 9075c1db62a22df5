"""Inputs that several rooms of the corpus share, in the units of their fields."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from numerics.program import normal, uniform

SIDE = 32  # of a frame of video(), in pixels
DAYS = 256  # of daily_prices()
RATE = 16000  # of chord(), in samples per second


def markov_chain(states: int = 30, seed: int = 5) -> np.ndarray:
    """A Markov chain that mostly stays where it is: each row sums to one."""
    p = np.exp(normal(seed, states, states, scale=2.0)) + 20.0 * np.eye(states)
    return (p / p.sum(1, keepdims=True)).astype(np.float32)


def daily_prices(start: float = 3000.0) -> np.ndarray:
    """Prices of 256 days that move by about one percent a day."""
    return (start * np.exp(np.cumsum(normal(7, DAYS, scale=0.01)))).astype(np.float32)


def video(frames: int = 16, speed: float = 0.7) -> np.ndarray:
    """A smooth scene up to 230 that moves by 0.7 pixels a frame: frames x 32 x 32 x 1."""
    y, x = np.mgrid[:SIDE, :SIDE]
    scenes = [
        140
        + 50 * np.sin((x - speed * t) / 5) * np.cos(y / 6)
        + 30 * np.sin((x + y - speed * t) / 3)
        for t in range(frames)
    ]
    noise = np.random.default_rng(4).normal(size=[frames, SIDE, SIDE])
    return (np.stack(scenes) + noise)[..., None].astype(np.float32)


def filtered_video(frames: tf.Tensor, kernel: np.ndarray, padding: str = "VALID") -> tf.Tensor:
    """A convolution in time, rows and columns with a kernel of three axes."""
    kernel = tf.constant(np.asarray(kernel, np.float32)[..., None, None])
    return tf.nn.conv3d(frames[None], kernel, [1] * 5, padding)[0]


def blurred_video(frames: tf.Tensor, size: int = 3, padding: str = "VALID") -> tf.Tensor:
    """The mean over `size` x `size` pixels of each frame."""
    return filtered_video(frames, np.full([1, size, size], 1 / size**2), padding)


def rotation_by(degrees: float, axis: tuple[float, ...] = (0.3, -0.5, 0.81)) -> np.ndarray:
    """The 3 x 3 matrix that turns points around an axis."""
    x, y, z = np.array(axis) / np.linalg.norm(axis)
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    angle = np.deg2rad(degrees)
    turned = np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross
    return turned.astype(np.float32)


def city(seed: int, count: int = 200, span: float = 20.0) -> np.ndarray:
    """Points in a city of 20 m around a place 4 km east and 7 km north of the map's origin."""
    return (uniform(seed, count, 3, low=-span, high=span) + [4000, 7000, 120]).astype(np.float32)


def chord(seconds: float = 0.25, notes: tuple[float, ...] = (220.0, 554.4, 1320.0)) -> np.ndarray:
    """A chord of three notes at 16 kHz, and a little noise; values below 1."""
    t = np.arange(int(seconds * RATE)) / RATE
    notes_together = sum(0.3 / (k + 1) * np.sin(2 * np.pi * f * t) for k, f in enumerate(notes))
    return (notes_together + np.random.default_rng(3).normal(scale=1e-3, size=t.shape)).astype(
        np.float32
    )


def frames_of_sound() -> np.ndarray:
    """chord() in frames of 512 samples, one every 128."""
    sound = chord()
    return np.stack([sound[i : i + 512] for i in range(0, 3488, 128)])


def decibels(power: tf.Tensor, least: float = 1e-10) -> tf.Tensor:
    """The power in decibels, of at least `least`."""
    return 10.0 * tf.math.log(tf.maximum(power, least)) / np.log(10.0)


def low_pass(cutoff: float, count: int = 63) -> np.ndarray:
    """A low-pass filter; the cutoff is a share of the sampling rate."""
    n = np.arange(count) - count // 2
    return (2 * cutoff * np.sinc(2 * cutoff * n) * np.hamming(count)).astype(np.float32)
