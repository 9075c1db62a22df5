"""The names that TF1 scripts import from npu_bridge: `from npu_precision.npu_init import *`.

As with npu_bridge's own npu_init, the star import also defines `tf`: here tensorflow.compat.v1
(with TensorFlow 1.15, tensorflow itself).
"""

from tensorflow.core.protobuf import config_pb2, rewriter_config_pb2
from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig

from npu_precision._tf_compat import tf_of_scripts as tf
from npu_precision.hccl import hccl_ops
from npu_precision.hccl.manage.api import (
    create_group,
    destroy_group,
    get_group_rank_from_world_rank,
    get_local_rank_id,
    get_local_rank_size,
    get_rank_id,
    get_rank_size,
    get_world_rank_from_group_rank,
)
from npu_precision.hccl.split.api import set_split_strategy_by_idx, set_split_strategy_by_size
from npu_precision.hccl.strategy import NPUStrategy
from npu_precision.hccl.training import NPUBroadcastGlobalVariablesHook, npu_allreduce
from npu_precision.loss_scaling.managers import (
    ExponentialUpdateLossScaleManager,
    FixedLossScaleManager,
)
from npu_precision.loss_scaling.npu_loss_scale_optimizer import NPULossScaleOptimizer
from npu_precision.loss_scaling.npu_optimizer import (
    NPUDistributedOptimizer,
    NPUOptimizer,
    npu_distributed_optimizer_wrapper,
    npu_keras_optimizer,
    npu_tf_optimizer,
)
from npu_precision.npu_bridge import npu_ops, npu_plugin, npu_rnn, npu_scope, npu_unary_ops, util
from npu_precision.npu_bridge.estimator import NPUEstimator, NPUEstimatorSpec
from npu_precision.npu_bridge.hooks import npu_callbacks_append, npu_hooks_append
from npu_precision.npu_bridge.npu_hook import NPUCheckpointSaverHook, NPUOutputTensorHook
from npu_precision.npu_bridge.run_config import (
    DumpConfig,
    ExperimentalConfig,
    MemoryConfig,
    NPURunConfig,
    ProfilingConfig,
    npu_run_config_init,
)
from npu_precision.session.sessions import (
    close_session,
    init_resource,
    npu_config_proto,
    npu_graph_options,
    set_keras_session_npu_config,
    shutdown_resource,
)

__all__ = [
    "DumpConfig",
    "ExperimentalConfig",
    "ExponentialUpdateLossScaleManager",
    "FixedLossScaleManager",
    "MemoryConfig",
    "NPUBroadcastGlobalVariablesHook",
    "NPUCheckpointSaverHook",
    "NPUDistributedOptimizer",
    "NPUEstimator",
    "NPUEstimatorSpec",
    "NPULossScaleOptimizer",
    "NPUOptimizer",
    "NPUOutputTensorHook",
    "NPURunConfig",
    "NPUStrategy",
    "ProfilingConfig",
    "RewriterConfig",
    "close_session",
    "config_pb2",
    "create_group",
    "destroy_group",
    "get_group_rank_from_world_rank",
    "get_local_rank_id",
    "get_local_rank_size",
    "get_rank_id",
    "get_rank_size",
    "get_world_rank_from_group_rank",
    "hccl_ops",
    "init_resource",
    "npu_allreduce",
    "npu_callbacks_append",
    "npu_config_proto",
    "npu_distributed_optimizer_wrapper",
    "npu_graph_options",
    "npu_hooks_append",
    "npu_keras_optimizer",
    "npu_ops",
    "npu_plugin",
    "npu_rnn",
    "npu_run_config_init",
    "npu_scope",
    "npu_tf_optimizer",
    "npu_unary_ops",
    "rewriter_config_pb2",
    "set_keras_session_npu_config",
    "set_split_strategy_by_idx",
    "set_split_strategy_by_size",
    "shutdown_resource",
    "tf",
    "util",
]
