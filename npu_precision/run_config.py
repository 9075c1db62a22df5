"""Public path of NPURunConfig; the code is in npu_bridge/run_config.py."""

from npu_precision.npu_bridge.run_config import (
    DumpConfig,
    NPURunConfig,
    ProfilingConfig,
    npu_run_config_init,
)

__all__ = ["DumpConfig", "NPURunConfig", "ProfilingConfig", "npu_run_config_init"]
