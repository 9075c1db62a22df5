"""npu_bridge's NPUEstimator and NPUEstimatorSpec."""

import functools
from typing import Any

from npu_precision import _no_effect, _tf_compat
from npu_precision.hccl import ranks
from npu_precision.npu_bridge import estimator_loops, run_config
from npu_precision.npu_bridge.hooks import npu_hooks_append

_Estimator: Any = _tf_compat.estimator_class("Estimator")
_EstimatorSpec: Any = _tf_compat.estimator_class("EstimatorSpec")


class NPUEstimatorSpec(_EstimatorSpec):
    """A tf.estimator.EstimatorSpec that accepts npu_bridge's host_call.

    host_call, a (function, tensors) pair that the host runs beside the NPU, has no effect here,
    because everything runs on the host. The log says so, and the function is not called.

    Raises:
        ValueError, TypeError: as tf.estimator.EstimatorSpec.
        RuntimeError: this TensorFlow has no tf.estimator.

    Source: npu_bridge's NPUEstimatorSpec.
    """

    def __new__(cls, *args: Any, host_call: Any = None, **kwargs: Any) -> "NPUEstimatorSpec":
        if host_call is not None:
            _no_effect.name_once("NPUEstimatorSpec", ["host_call"])
        return super().__new__(cls, *args, **kwargs)


class NPUEstimator(_Estimator):
    """A tf.estimator.Estimator whose sessions run the precision optimizer.

    Args:
        model_fn: as for tf.estimator.Estimator.
        model_dir: as for tf.estimator.Estimator.
        config: an NPURunConfig, whose iterations_per_loop says how many steps each session.run
            makes; or a tf.estimator.RunConfig, to which NpuOptimizer is added with its default
            options; None for NPURunConfig().
        params: as for tf.estimator.Estimator.
        job_start_file: npu_bridge's file about an NPU cluster; has no effect, as the log says.
        warm_start_from: as for tf.estimator.Estimator.

    Raises:
        ValueError: as tf.estimator.Estimator; a wrong precision option in config, or a wrong
            iterations_per_loop.
        TypeError: config is no RunConfig.
        RuntimeError: this TensorFlow has no tf.estimator.

    Source: npu_bridge's NPUEstimator.
    """

    def __init__(
        self,
        model_fn: Any = None,
        model_dir: Any = None,
        config: Any = None,
        params: Any = None,
        job_start_file: str = "",
        warm_start_from: Any = None,
    ) -> None:
        if job_start_file:
            _no_effect.name_once("NPUEstimator", ["job_start_file"])
        super().__init__(
            model_fn=model_fn,
            model_dir=model_dir,
            config=run_config.npu_run_config_init(config),
            params=params,
            warm_start_from=warm_start_from,
        )
        estimator_loops.train_in_loops(self)
        where = ranks.current()
        # A tf.distribute strategy connects the workers of TF_CONFIG itself.
        if where.size > 1 and self.config.train_distribute is None:
            if where.source == "TF_CONFIG":
                raise ValueError(
                    f"NPUEstimator: TF_CONFIG names {where.size} ranks, and tf.estimator reads it "
                    "too, for parameter servers: give the config a train_distribute; or unset "
                    "TF_CONFIG, and set RANK_ID and RANK_SIZE, or RANK_TABLE_FILE"
                )
            # tf.estimator lets no class override it.
            own_train: Any = super().train
            self.train = functools.partial(_train_alike, own_train)


def _train_alike(train: Any, input_fn: Any, hooks: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Trains with the first rank's initial variables on all ranks."""
    return train(input_fn, npu_hooks_append(hooks), *args, **kwargs)
