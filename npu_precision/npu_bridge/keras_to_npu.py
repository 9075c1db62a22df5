"""npu_bridge's keras_to_npu: makes an Estimator of a Keras model."""

from __future__ import annotations

from typing import Any

from npu_precision import _no_effect
from npu_precision._tf_compat import tf1
from npu_precision.npu_bridge import estimator_loops, run_config


def model_to_npu_estimator(
    keras_model: Any = None,
    keras_model_path: str | None = None,
    custom_objects: Any = None,
    model_dir: str | None = None,
    checkpoint_format: str = "saver",
    config: Any = None,
    job_start_file: str = "",
) -> Any:
    """tf.keras.estimator.model_to_estimator, with the sessions of NPUEstimator.

    Args:
        keras_model: a compiled model.
        keras_model_path: the file of a compiled model; not with keras_model.
        custom_objects: as for model_to_estimator.
        model_dir: as for model_to_estimator.
        checkpoint_format: "saver" or "checkpoint".
        config: as for NPUEstimator.
        job_start_file: has no effect, as the log says.

    Returns:
        A tf.estimator.Estimator, which trains as NPUEstimator does.

    Raises:
        ValueError, TypeError: as model_to_estimator; as NPUEstimator, about config.
        RuntimeError: this TensorFlow has no tf.estimator.

    Source: npu_bridge's keras_to_npu.model_to_npu_estimator.
    """
    if job_start_file:
        _no_effect.name_once("model_to_npu_estimator", ["job_start_file"])
    # First, because it raises the error if there is no tf.estimator.
    config = run_config.npu_run_config_init(config)
    estimator = tf1.keras.estimator.model_to_estimator(
        keras_model=keras_model,
        keras_model_path=keras_model_path,
        custom_objects=custom_objects,
        model_dir=model_dir,
        config=config,
        checkpoint_format=checkpoint_format,
    )
    estimator_loops.train_in_loops(estimator)
    return estimator
