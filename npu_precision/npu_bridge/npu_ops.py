"""npu_bridge's npu_ops: ops that initialize and shut down an NPU, dropout, and LARS."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from npu_precision import _errors
from npu_precision._tf_compat import tf1
from npu_precision.scope import keep_dtype_scope


def initialize_system(name: str | None = None) -> tf.Operation:
    """An op that does nothing: on one host there is nothing to initialise.

    Source: npu_bridge's npu_ops.initialize_system.
    """
    return tf.compat.v1.no_op(name=name)


def shutdown_system(name: str | None = None) -> tf.Operation:
    """An op that does nothing; see initialize_system.

    Source: npu_bridge's npu_ops.shutdown_system.
    """
    return tf.compat.v1.no_op(name=name)


def dropout(
    x: Any,
    keep_prob: Any,
    noise_shape: Any = None,
    seed: int | None = None,
    name: str | None = None,
) -> tf.Tensor:
    """Keeps each element with a probability, divided by that, and sets the others to zero.

    Args:
        x: a float tensor.
        keep_prob: the probability, above 0 and at most 1: a number, or a scalar tensor.
        noise_shape: the shape of the random choices, which broadcasts to that of x.
        seed: the seed of the random numbers.
        name: a name for its ops.

    Returns:
        A tensor of the shape and dtype of x.

    Raises:
        ValueError: keep_prob is out of its range, or x is no float tensor.

    Source: npu_bridge's npu_ops.dropout(x, keep_prob, noise_shape, seed, name).
    """
    return tf1.nn.dropout(x, rate=1 - keep_prob, noise_shape=noise_shape, seed=seed, name=name)


def LARS(
    inputs_w: Sequence[Any],
    inputs_g: Sequence[Any],
    weight_decay: Any,
    hyperpara: float = 0.001,
    epsilon: float = 1e-5,
    name: str | None = None,
) -> list[tf.Tensor]:
    """Applies LARSV2() to each weight and its gradient, without a learning rate.

    Args:
        inputs_w: the weights.
        inputs_g: their gradients, one per weight.
        weight_decay: as for LARSV2.
        hyperpara: as for LARSV2.
        epsilon: as for LARSV2.
        name: a name for the scope of its ops.

    Returns:
        The scaled gradients.

    Raises:
        ValueError: there are more weights than gradients, or fewer.

    Source: npu_bridge's npu_ops.LARS(inputs_w, inputs_g, weight_decay, hyperpara, epsilon, name).
    """
    weights, gradients = list(inputs_w), list(inputs_g)
    if len(weights) != len(gradients):
        raise ValueError(
            f"LARS: got {len(weights)} weights and {len(gradients)} gradients, expected as many"
        )
    with tf1.name_scope(name or "LARS"):
        return [
            LARSV2(weight, gradient, weight_decay, 1.0, hyperpara, epsilon)
            for weight, gradient in zip(weights, gradients)
        ]


def LARSV2(
    input_weight: Any,
    input_grad: Any,
    weight_decay: Any,
    learning_rate: Any,
    hyperpara: float = 0.001,
    epsilon: float = 1e-5,
    use_clip: bool = False,
    name: str | None = None,
) -> tf.Tensor:
    """Scales a gradient in proportion to the norm of its weight: layer-wise adaptive rate scaling.

    ratio = hyperpara * |w| / (|g| + weight_decay * |w| + epsilon), and the result is
    ratio * (g + weight_decay * w). With use_clip the ratio is divided by the learning rate and at
    most 1, so that no step is longer than without the scaling. It computes in float32 in every
    precision mode, because squares of gradients do not fit into float16.

    Args:
        input_weight: a variable or tensor, of a float type.
        input_grad: its gradient.
        weight_decay: a number, or a scalar tensor.
        learning_rate: the learning rate of the optimizer that gets the result; only read with
            use_clip.
        hyperpara: the trust coefficient.
        epsilon: keeps the denominator from zero.
        use_clip: see above.
        name: a name for the scope of its ops.

    Returns:
        A tensor of the shape and dtype of the gradient.

    Raises:
        ValueError: input_grad is an IndexedSlices; make a tensor of it first.

    Source: npu_bridge's npu_ops.LARSV2; its document names the arguments, and the formula is that
    of "Large Batch Training of Convolutional Networks" (arXiv:1708.03888), which Huawei's document
    of LARS in MindSpore gives.
    """
    if isinstance(input_grad, tf.IndexedSlices):
        raise ValueError(f"input_grad: got {_errors.got(input_grad)}, expected a dense tensor")
    with tf1.name_scope(name or "LARSV2"), keep_dtype_scope():
        gradient = tf.convert_to_tensor(input_grad)
        weight = tf.cast(input_weight, tf.float32)
        g = tf.cast(gradient, tf.float32)
        decay = tf.cast(weight_decay, tf.float32)
        length = tf.norm(weight)
        ratio = hyperpara * length / (tf.norm(g) + decay * length + epsilon)
        if use_clip:
            ratio = tf.minimum(ratio / tf.cast(learning_rate, tf.float32), 1.0)
        return tf.cast(ratio * (g + decay * weight), gradient.dtype)


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise AttributeError(
        f"npu_ops.{name} is an op of the NPU, which npu_precision does not have: use TensorFlow's "
        "own in its place"
    )
