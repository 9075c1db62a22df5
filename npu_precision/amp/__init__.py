"""amp, for Apex users: optimization levels, loss scaling, and registered functions."""

from npu_precision.amp.frontend import (
    initialize,
    load_state_dict,
    master_params,
    scale_loss,
    state_dict,
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

__all__ = [
    "custom_bwd",
    "custom_fwd",
    "float_function",
    "half_function",
    "promote_function",
    "initialize",
    "load_state_dict",
    "master_params",
    "register_float_function",
    "register_half_function",
    "register_promote_function",
    "scale_loss",
    "state_dict",
    "unscale_gradients",
]
