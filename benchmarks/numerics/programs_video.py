"""Frames in time: volumes, motion, backgrounds and fields that evolve."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from numerics.inputs import SIDE, blurred_video, filtered_video, video
from numerics.program import Training, normal, of, program, uniform


def _line(values, axis):
    return np.expand_dims(np.array(values, np.float32), tuple({0, 1, 2} - {axis}))


@of("frame differences by a Conv3D of -1 and 1 in time", video())
def frame_differences(frames):
    return filtered_video(frames, _line([-1, 1], 0))


@of(
    "frame differences of blurred frames, the share that moves",
    video(),
    tolerance={"bfloat16": 0.1},
)
def moving_share(frames):
    blurred = blurred_video(frames)
    moved = tf.abs(blurred[1:] - blurred[:-1]) > 6.0
    return tf.reduce_mean(tf.cast(moved, tf.float32), [1, 2, 3])


@of("temporal Laplacian by a Conv3D, flicker", video())
def flicker(frames):
    return tf.reduce_mean(tf.abs(filtered_video(frames, _line([1, -2, 1], 0))), [1, 2, 3])


@of("temporal high-pass: a frame minus the mean of nine", video())
def temporal_high_pass(frames):
    return frames[4:-4] - filtered_video(frames, _line([1 / 9] * 9, 0))


_FILTERS = [normal(1, 3, 3, 3, 1, 8, scale=0.2), normal(2, 3, 3, 3, 8, 8, scale=0.07)]


@of("Conv3D of a clip in two layers, mean pooled", video() / np.float32(255), *_FILTERS)
def two_layers(frames, first, second):
    hidden = tf.nn.relu(tf.nn.conv3d(frames[None], first, [1] * 5, "SAME"))
    return tf.reduce_mean(tf.nn.conv3d(hidden, second, [1] * 5, "SAME"), [1, 2, 3])


@of("variance in time of a volume: Conv3D of x² minus the square", video())
def time_variance(frames):
    mean = filtered_video(frames, _line([1 / 8] * 8, 0))
    return filtered_video(frames * frames, _line([1 / 8] * 8, 0)) - mean * mean


@of("variance in pools of a volume, AvgPool3D of x² minus the square", video())
def pooled_variance(frames):
    blurred = blurred_video(frames)[None]
    mean = tf.nn.avg_pool3d(blurred, [4, 4, 4], [2, 2, 2], "VALID")
    return tf.nn.avg_pool3d(blurred**2, [4, 4, 4], [2, 2, 2], "VALID") - mean**2


@of("background by a running average of blurred frames, foreground", np.tile(video(), [8, 1, 1, 1]))
def background(frames):
    blurred = blurred_video(frames)
    back = tf.scan(lambda b, f: b + 0.02 * (f - b), blurred, tf.fill([30, 30, 1], 140.0))
    return (blurred[1:] - back[:-1])[::16]


@of("background with a mean and a variance per pixel, Mahalanobis", np.tile(video(), [4, 1, 1, 1]))
def background_variance(frames):
    def step(state, frame):
        miss = frame - state[0]
        return tf.stack([state[0] + 0.05 * miss, 0.95 * state[1] + 0.05 * miss**2])

    start = tf.stack([tf.fill([30, 30, 1], 140.0), tf.fill([30, 30, 1], 400.0)])
    state = tf.scan(step, blurred_video(frames), start)[-1]
    return (blurred_video(frames[-1:])[0] - state[0]) / tf.sqrt(state[1])


@of("background by a median of blurred frames, minus a frame", video(15))
def median_background(frames):
    blurred = blurred_video(frames)
    ordered = tf.sort(blurred, 0)
    return blurred - ordered[7]


@of("motion history: maximum of a decaying image and a stamp of time", video(40))
def motion_history(frames):
    moved = tf.abs(filtered_video(frames, _line([-1, 1], 0))) > 12.0
    stamps = 1000.0 + tf.range(39.0)

    def step(history, now):
        return tf.where(now[0], now[1], tf.maximum(history, 1000.0))

    stamped = (moved, tf.broadcast_to(stamps[:, None, None, None], tf.shape(moved)))
    return tf.scan(step, stamped, tf.fill([SIDE, SIDE, 1], 1000.0))[-1] - 1000.0


def _gradients(frames):
    dx = filtered_video(frames, _line([-0.5, 0, 0.5], 2))[:-1, 1:-1]
    dy = filtered_video(frames, _line([-0.5, 0, 0.5], 1))[:-1, :, 1:-1]
    return dx, dy, filtered_video(frames, _line([-1, 1], 0))[:, 1:-1, 1:-1]


_OF_DETERMINANTS = {"bfloat16": 0.06, "float16": 0.03}


@of("optical flow of Lucas and Kanade in windows of 9 pixels", video(), tolerance=_OF_DETERMINANTS)
def lucas_kanade(frames):
    dx, dy, dt = _gradients(frames)
    xx, xy, yy, xt, yt = (
        blurred_video(t, 9) for t in (dx * dx, dx * dy, dy * dy, dx * dt, dy * dt)
    )
    det = xx * yy - xy * xy + 1e-2
    return tf.concat([(xy * yt - yy * xt) / det, (xy * xt - xx * yt) / det], -1)[::4]


@of("optical flow of Horn and Schunck, 100 steps with averages of neighbours", video(3))
def horn_schunck(frames):
    dx, dy, dt = _gradients(frames)
    kernel = np.array([[[1, 2, 1], [2, 0, 2], [1, 2, 1]]]) / 12

    def step(i, u, v):
        mean_u, mean_v = filtered_video(u, kernel, "SAME"), filtered_video(v, kernel, "SAME")
        share = (dx * mean_u + dy * mean_v + dt) / (100.0 + dx**2 + dy**2)
        return i + 1, mean_u - dx * share, mean_v - dy * share

    zeros = tf.zeros_like(dx)
    return tf.stack(tf.while_loop(lambda i, *_: i < 100, step, (0, zeros, zeros))[1:])


@of(
    "flow of 60 frames summed into a track in pixels of 1920",
    normal(0, 60, 64),
    normal(1, 64, 2, scale=0.12),
)
def summed_flow(x, w):
    return tf.cumsum(tf.matmul(x, w)) * 0.5 + [960.0, 540.0]


@of(
    "tracks in pixels: place + flow, frame after frame, then the step",
    normal(0, 60, 64),
    normal(1, 64, 2, scale=0.12),
)
def track_steps(x, w):
    places = tf.scan(lambda p, f: p + f, tf.matmul(x, w), tf.constant([960.0, 540.0]))
    return places[1:] - places[:-1]


@of("block matching: sums of absolute differences of blurred blocks, the shift", video(2, 3.0))
def block_matching(frames):
    now, then = tf.unstack(blurred_video(frames)[..., 0])
    costs = [
        tf.reduce_sum(tf.abs(now[8:24, 8:24] - then[8:24, 8 + s : 24 + s])) for s in range(-6, 7)
    ]
    return tf.argmin(tf.stack(costs)) - 6


@of("block matching by squares: x² + y² - 2 xy of patches", video(2, 3.0))
def block_squares(frames):
    frames /= 255.0
    block, row = frames[0, 8:24, 8:24, 0], frames[1, 8:24, :, 0]
    patches = tf.stack([row[:, s : s + 16] for s in range(2, 15)])
    far = tf.reduce_sum(patches**2, [1, 2]) + tf.reduce_sum(block**2)
    return (far - 2.0 * tf.einsum("sij,ij->s", patches, block)) / 256.0


@of("time-lapse exposure: a frame's mean pulled to the clip's", video())
def exposure(frames):
    blurred = blurred_video(frames)
    means = tf.reduce_mean(blurred, [1, 2, 3], keepdims=True)
    return blurred * (tf.reduce_mean(means) / means)


@of(
    "temporal shift and a residual, clips of four frames",
    normal(15, 4, 8, 8, 16),
    normal(16, 3, 3, 16, 16, scale=0.08),
)
def temporal_shift(clips, kernel):
    for _ in range(4):
        moved = tf.concat([tf.roll(clips[..., :4], 1, 0), clips[..., 4:]], -1)
        clips = clips + tf.nn.conv2d(tf.nn.relu(moved), kernel, 1, "SAME")
    return clips


@of(
    "3-D max pool of a clip, where the top is",
    video() / np.float32(255),
    normal(17, 3, 3, 3, 1, 8, scale=0.2),
)
def clip_top(frames, kernel):
    pooled = tf.nn.max_pool3d(tf.nn.conv3d(frames[None], kernel, [1] * 5, "SAME"), 4, 4, "VALID")
    return tf.reduce_max(pooled, [1, 2, 3])


@of(
    "transposed Conv3D: a voxel grid twice as fine",
    normal(18, 1, 4, 4, 4, 8),
    normal(19, 3, 3, 3, 4, 8, scale=0.15),
)
def finer(grid, kernel):
    return tf.nn.conv3d_transpose(grid, kernel, [1, 8, 8, 8, 4], [1, 2, 2, 2, 1])


@of(
    "wave equation on a membrane, 200 frames of a stencil",
    np.exp(-(np.hypot(*(np.mgrid[:32, :32] - 16)) ** 2) / 30)[None, ..., None].astype(np.float32),
)
def wave(start):
    stencil = [[[0, 1, 0], [1, -4, 1], [0, 1, 0]]]

    def step(i, now, before):
        return i + 1, 2.0 * now - before + 0.1 * filtered_video(now, stencil, "SAME"), now

    return tf.while_loop(lambda i, *_: i < 200, step, (0, start, start))[1]


@of(
    "reaction and diffusion of Gray and Scott, 500 frames",
    (np.hypot(*(np.mgrid[:32, :32] - 16)) < 5)[None, ..., None].astype(np.float32),
)
def reaction(start):
    stencil = np.array([[[1, 4, 1], [4, -20, 4], [1, 4, 1]]]) / 20

    def step(i, u, v):
        meet = u * v * v
        u, v = (u + 0.16 * filtered_video(u, stencil, "SAME") * 3 - meet + 0.035 * (1 - u),
                v + 0.08 * filtered_video(v, stencil, "SAME") * 3 + meet - 0.1 * v)  # fmt: skip
        return i + 1, u, v

    return tf.while_loop(lambda i, *_: i < 500, step, (0, 1 - 0.5 * start, 0.25 * start))[1]


@program("a Conv3D learns a difference in time, trained", kind="training")
def learnt_difference():
    def loss(variables, frames):
        target = (frames[1:] - frames[:-1]) / 20.0
        made = tf.nn.conv3d(frames[None] / 255.0, variables[0], [1] * 5, "VALID")[0]
        return tf.reduce_mean((made - target) ** 2)

    return Training(loss, [normal(1, 2, 1, 1, 1, 1, scale=0.1)], [video()], steps=150, rate=0.1)


@of(
    "brightness of frames by a pool over a whole blurred frame of 64 x 64",
    uniform(20, 4, 64, 64, 4),
    normal(21, 3, 3, 4, 4, scale=0.02) + np.float32(0.03),
)
def whole_frame(frames, kernel):
    return tf.nn.avg_pool2d(tf.nn.relu(tf.nn.conv2d(frames, kernel, 1, "SAME")), 64, 1, "VALID")
