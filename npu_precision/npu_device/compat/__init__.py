"""npu_device.compat: for TF1 scripts on TensorFlow 2; compat.v1 has npu_bridge's names."""

from npu_precision.npu_device.compat import v1

__all__ = ["enable_v1", "v1"]


def enable_v1() -> None:
    """Does nothing: sessions run here with TensorFlow 2 as they are.

    A script that builds its graph outside of a tf.Graph() calls
    tf.compat.v1.disable_eager_execution() itself, as on Ascend.

    Source: npu_device's compat.enable_v1().
    """
