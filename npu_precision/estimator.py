"""Public path of NPUEstimator; the code is in npu_bridge/estimator.py."""

from npu_precision.npu_bridge.estimator import NPUEstimator, NPUEstimatorSpec

__all__ = ["NPUEstimator", "NPUEstimatorSpec"]
