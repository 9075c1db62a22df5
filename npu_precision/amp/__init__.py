"""amp, for Apex users: optimization levels, loss scaling, and registered functions."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from npu_precision.amp.frontend import (
    initialize,
    master_params,
    scale_loss,
    unscale_gradients,
)
from npu_precision.amp.own_functions import (
    custom_bwd,
    custom_fwd,
    float_function,
    half_function,
    promote_function,
)
from npu_precision.amp.registered import (
    register_float_function,
    register_half_function,
    register_promote_function,
)
from npu_precision.amp.state import load_state_dict, state_dict

if TYPE_CHECKING:
    from npu_precision.amp import optimizers, parallel

__all__ = [
    "custom_bwd",
    "custom_fwd",
    "float_function",
    "half_function",
    "promote_function",
    "initialize",
    "load_state_dict",
    "master_params",
    "optimizers",
    "parallel",
    "register_float_function",
    "register_half_function",
    "register_promote_function",
    "scale_loss",
    "state_dict",
    "unscale_gradients",
]


def __getattr__(name: str) -> Any:
    if name in ("optimizers", "parallel"):  # They import Keras.
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
