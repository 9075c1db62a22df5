"""Public path of npu_bridge's util; the code is in npu_bridge/util.py."""

from npu_precision.npu_bridge.util import (
    IterationPerLoop,
    keep_tensors_dtypes,
    set_graph_exec_config,
    set_iteration_per_loop,
    set_op_input_tensor_multi_dims,
)

__all__ = [
    "IterationPerLoop",
    "keep_tensors_dtypes",
    "set_graph_exec_config",
    "set_iteration_per_loop",
    "set_op_input_tensor_multi_dims",
]
