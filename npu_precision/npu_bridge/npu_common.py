"""npu_bridge's npu_common."""

from __future__ import annotations

from typing import Any

from npu_precision import _no_effect


class NPUBasics:
    """What holds the resources of an NPU; nothing here, as the log says.

    Source: npu_bridge's npu_common.NPUBasics.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        del args, kwargs
        _no_effect.name_once("NPUBasics")
