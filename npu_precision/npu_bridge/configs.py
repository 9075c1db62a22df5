"""npu_bridge's records of settings: arguments of NPURunConfig."""

from __future__ import annotations

from typing import Any

from npu_precision import _library, _no_effect
from npu_precision.npu_bridge import dump_settings


class _Record:
    """A record whose arguments become attributes."""

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({fields})"


class DumpConfig(_Record):
    """Lets sessions write the tensors of some steps, or their statistics; see npu_bridge.dumps.

    Its arguments become attributes.

    Args:
        enable_dump: whether tensors are written.
        dump_path: the folder, which is created if missing.
        dump_step: the steps, as "0|5|10-20", from 0; None for all.
        dump_mode: "input", "output" or "all": which tensors of an op.
        enable_dump_debug: npu_bridge's detection of overflow; has no effect here, as the log says,
            where emulate with overflow="saturate" and the flight recorder show it.
        dump_debug_mode: the same.
        dump_data: "tensor", or "stats" for the statistics of each op's tensors in a .csv file.
        dump_layer: the names of ops, with spaces between them; None for all.
        **others: accepted, and without effect.

    Raises:
        ValueError: enable_dump is set, and dump_path is not, or another value is not valid.

    Source: npu_bridge's DumpConfig(enable_dump=False, dump_path=None, dump_step=None,
    dump_mode="output", enable_dump_debug=False, dump_debug_mode="all", dump_data="tensor",
    dump_layer=None).
    """

    def __init__(
        self,
        enable_dump: bool = False,
        dump_path: str | None = None,
        dump_step: str | None = None,
        dump_mode: str = "output",
        enable_dump_debug: bool = False,
        dump_debug_mode: str = "all",
        dump_data: str = "tensor",
        dump_layer: str | None = None,
        **others: Any,
    ) -> None:
        self.enable_dump = enable_dump
        self.dump_path = dump_path
        self.dump_step = dump_step
        self.dump_mode = dump_mode
        self.enable_dump_debug = enable_dump_debug
        self.dump_debug_mode = dump_debug_mode
        self.dump_data = dump_data
        self.dump_layer = dump_layer
        vars(self).update(others)
        dump_settings.of_options(vars(self))
        if enable_dump_debug:
            _no_effect.name_once("DumpConfig", ["enable_dump_debug", "dump_debug_mode"])

    def parameters(self) -> dict[str, Any]:
        """The parameters of NpuOptimizer for these settings; none if no tensors are written."""
        if not self.enable_dump:
            return {}
        return {name: getattr(self, name) for name in dump_settings.NAMES}


class ProfilingConfig(_Record):
    """npu_bridge's record of profiling settings, accepted so that scripts run unchanged.

    Its arguments become attributes. They have no effect on stock TensorFlow; the log says so.

    Source: npu_bridge's ProfilingConfig(enable_profiling=False, profiling_options=None).
    """

    def __init__(
        self, enable_profiling: bool = False, profiling_options: Any = None, **others: Any
    ) -> None:
        self.enable_profiling = enable_profiling
        self.profiling_options = profiling_options
        vars(self).update(others)


class MemoryConfig(_Record):
    """npu_bridge's record of memory settings, which have no effect on stock TensorFlow.

    Source: npu_bridge's MemoryConfig(atomic_clean_policy, external_weight, ...).
    """

    def __init__(self, **settings: Any) -> None:
        vars(self).update(settings)

    def parameters(self) -> dict[str, Any]:
        """The parameters of NpuOptimizer for these settings."""
        known = _library.describe()["inert_parameters"]
        return {name: value for name, value in vars(self).items() if name in known}


class ExperimentalConfig(_Record):
    """npu_bridge's record of experimental settings; see ProfilingConfig.

    Source: npu_bridge's ExperimentalConfig.
    """

    def __init__(self, **settings: Any) -> None:
        vars(self).update(settings)
