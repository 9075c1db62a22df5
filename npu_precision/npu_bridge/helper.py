"""npu_bridge's helper, by which scripts call ops of an NPU for which npu_bridge has no function."""

from __future__ import annotations

from typing import Any


class _GenOps:
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(
            f"{name} is an op of the NPU, which npu_precision does not have: use TensorFlow's own "
            "in its place"
        )


def get_gen_ops() -> Any:
    """Returns an object whose attributes all raise errors, because ops of an NPU do not exist here.

    Source: npu_bridge's helper.get_gen_ops().
    """
    return _GenOps()
