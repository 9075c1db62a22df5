"""npu_bridge's helper: how scripts reach ops of an NPU that npu_bridge gives no function."""

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
    """An object of which each attribute is an error: there are no ops of an NPU.

    Source: npu_bridge's helper.get_gen_ops().
    """
    return _GenOps()
