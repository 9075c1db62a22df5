"""npu_bridge's npu_cpu_ops: an op of an NPU's own CPU, composed of TensorFlow's ops."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from npu_precision._tf_compat import tf1


def dense_image_warp(image: Any, flow: Any, name: str | None = None) -> tf.Tensor:
    """Warps an image: pixel [y, x] is the given image's at [y, x] - flow[y, x], interpolated.

    Values between pixels are weighted linearly from the four around; beyond an edge, the edge
    counts.

    Args:
        image: [batch, height, width, channels], at least 2 by 2 pixels, of a float type.
        flow: [batch, height, width, 2], in pixels: down, and to the right.
        name: a name for the scope of its ops.

    Returns:
        A tensor of the shape and dtype of image.

    Source: npu_bridge's npu_cpu_ops.dense_image_warp(image, flow, name), which computes what
    tf.contrib.image.dense_image_warp does.
    """
    with tf1.name_scope(name or "dense_image_warp"):
        image, flow = tf.convert_to_tensor(image), tf.convert_to_tensor(flow)
        shape = tf.shape(image)
        rows, columns = tf.meshgrid(tf.range(shape[1]), tf.range(shape[2]), indexing="ij")
        batch = tf.broadcast_to(tf.reshape(tf.range(shape[0]), [-1, 1, 1]), shape[:3])
        top, down = _floor_and_rest(tf.cast(rows, flow.dtype) - flow[..., 0], shape[1])
        left, right = _floor_and_rest(tf.cast(columns, flow.dtype) - flow[..., 1], shape[2])

        def pixels(below: int, beside: int) -> tf.Tensor:
            return tf.gather_nd(image, tf.stack([batch, top + below, left + beside], axis=-1))

        down, right = (tf.cast(each[..., tf.newaxis], image.dtype) for each in (down, right))
        upper = pixels(0, 0) + right * (pixels(0, 1) - pixels(0, 0))
        lower = pixels(1, 0) + right * (pixels(1, 1) - pixels(1, 0))
        return upper + down * (lower - upper)


def _floor_and_rest(positions: tf.Tensor, size: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The index below each position, at most the last but one, and the distance from it, 0 to 1."""
    last = tf.cast(size - 2, positions.dtype)
    floor = tf.minimum(tf.maximum(tf.floor(positions), 0.0), last)
    rest = tf.minimum(tf.maximum(positions - floor, 0.0), 1.0)
    return tf.cast(floor, tf.int32), rest


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise AttributeError(
        f"npu_cpu_ops.{name} is an op of the NPU, which npu_precision does not have: use "
        "TensorFlow's own in its place"
    )
