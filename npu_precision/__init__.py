"""Ascend's precision modes and mixlists for stock TensorFlow, on CPU and GPU.

Importing the package loads the optimizer. Sessions, Estimators and tf.functions then run it if
their ConfigProto names "NpuOptimizer" in rewrite_options.custom_optimizers.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import npu_precision_startup

# Imported first: its error says what to install if TensorFlow is missing.
from npu_precision import _library, _tf_compat  # noqa: F401
from npu_precision._version import __version__
from npu_precision.flight.recorder import FlightRecorder
from npu_precision.hccl.strategy import NPUStrategy
from npu_precision.hccl.training import NPUBroadcastGlobalVariablesHook, npu_allreduce
from npu_precision.ledger import Ledger, LedgerCast, LedgerNode
from npu_precision.loss_scaling.grad_scaler import GradScaler
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
from npu_precision.loss_scaling.strategies import DynamicLossScale, FixedLossScale, NoLossScale
from npu_precision.npu_bridge.alias import install_as_npu_bridge
from npu_precision.npu_bridge.hooks import npu_callbacks_append, npu_hooks_append
from npu_precision.offline import rewrite_graph_def
from npu_precision.offline.saved_model import convert_saved_model
from npu_precision.options import PrecisionOptions
from npu_precision.scope import keep_dtype_scope
from npu_precision.session import (
    close_session,
    init_resource,
    npu_config_proto,
    npu_graph_options,
    set_keras_session_npu_config,
    shutdown_resource,
)
from npu_precision.session.autocast import autocast
from npu_precision.session.functions import active_options, disable, enable
from npu_precision.util import keep_tensors_dtypes

if TYPE_CHECKING:
    from npu_precision import amp
    from npu_precision.estimator import NPUEstimator, NPUEstimatorSpec
    from npu_precision.guard.guard import PrecisionGuard
    from npu_precision.guard.healer import TrainingFailed
    from npu_precision.run_config import (
        DumpConfig,
        NPURunConfig,
        ProfilingConfig,
        npu_run_config_init,
    )

_tf_compat.convert_no_function_of(__name__)

# Public names by module, imported at their first use. tf.estimator, which two of them subclass,
# takes longer to import than the rest of the package.
_LATER: dict[str, tuple[str, ...]] = {
    "amp": (),
    "guard.guard": ("PrecisionGuard",),
    "guard.healer": ("TrainingFailed",),
    "estimator": ("NPUEstimator", "NPUEstimatorSpec"),
    "run_config": ("DumpConfig", "NPURunConfig", "ProfilingConfig", "npu_run_config_init"),
}

__all__ = [
    "DumpConfig",
    "DynamicLossScale",
    "ExponentialUpdateLossScaleManager",
    "FixedLossScale",
    "FixedLossScaleManager",
    "FlightRecorder",
    "GradScaler",
    "Ledger",
    "LedgerCast",
    "LedgerNode",
    "NPUBroadcastGlobalVariablesHook",
    "NPUDistributedOptimizer",
    "NPUEstimator",
    "NPUEstimatorSpec",
    "NPULossScaleOptimizer",
    "NPUOptimizer",
    "NPURunConfig",
    "NPUStrategy",
    "NoLossScale",
    "PrecisionGuard",
    "PrecisionOptions",
    "ProfilingConfig",
    "TrainingFailed",
    "__version__",
    "active_options",
    "amp",
    "autocast",
    "close_session",
    "convert_saved_model",
    "disable",
    "enable",
    "init_resource",
    "install_as_npu_bridge",
    "keep_dtype_scope",
    "keep_tensors_dtypes",
    "npu_allreduce",
    "npu_callbacks_append",
    "npu_config_proto",
    "npu_distributed_optimizer_wrapper",
    "npu_graph_options",
    "npu_hooks_append",
    "npu_keras_optimizer",
    "npu_run_config_init",
    "npu_tf_optimizer",
    "rewrite_graph_def",
    "set_keras_session_npu_config",
    "shutdown_resource",
]


def __getattr__(name: str) -> Any:
    for module, names in _LATER.items():
        if name == module or name in names:
            imported = importlib.import_module(f"{__name__}.{module}")
            return imported if name == module else getattr(imported, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def load_ipython_extension(shell: Any) -> None:
    """Registers the magic %npu_precision; IPython calls it for `%load_ext npu_precision`."""
    from npu_precision.launch import notebook

    notebook.load(shell)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER, *__all__})


npu_precision_startup.apply_after_package()
