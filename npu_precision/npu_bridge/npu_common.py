"""npu_bridge's npu_common: the class for an NPU's resources."""

from __future__ import annotations

from typing import Any

from npu_precision import _no_effect


class NPUBasics:
    """The holder of an NPU's resources; empty here, as the log says.

    Source: npu_bridge's npu_common.NPUBasics.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        del args, kwargs
        _no_effect.name_once("NPUBasics")
