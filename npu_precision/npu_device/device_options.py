"""The options of npu_device.global_options(), with their defaults."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from typing import Any

from npu_precision import _no_effect
from npu_precision.npu_device.option_group import OptionGroup
from npu_precision.options import ACCEPTED_NAMES, PrecisionOptions

_LOGGER = logging.getLogger("npu_precision")
_NAME = "npu_device.global_options()"

# The options in Ascend's documentation with their defaults, or None if it states no default.
_DOCUMENTED: dict[str, Any] = {
    # Precision.
    "precision_mode": None,
    "precision_mode_v2": None,
    "modify_mixlist": None,
    "customize_dtypes": None,
    # The run.
    "graph_run_mode": 1,
    "deterministic": 0,
    "session_device_id": None,
    "mix_compile_mode": False,
    "jit_compile": None,
    "compile_dynamic_mode": None,
    "ac_parallel_enable": None,
    "aicore_num": None,
    # Memory.
    "memory_config": {"atomic_clean_policy": 0, "static_memory_policy": 0},
    "external_weight": False,
    "graph_memory_max_size": None,
    "variable_memory_max_size": None,
    "input_fusion_size": None,
    "graph_max_parallel_model_num": None,
    # Debugging.
    "op_debug_config": None,
    "op_debug_level": 0,
    "debug_dir": None,
    "enable_exception_dump": 0,
    "export_compile_stat": None,
    # Comparing with other devices.
    "dump_config": {
        "enable_dump": False,
        "dump_path": None,
        "dump_step": None,
        "dump_mode": "output",
        "enable_dump_debug": False,
        "dump_debug_mode": "all",
        "dump_data": "tensor",
        "dump_layer": None,
    },
    "quant_dumpable": None,
    "fusion_switch_file": None,
    "buffer_optimize": None,
    # Speed.
    "op_select_implmode": None,
    "optypelist_for_implmode": None,
    "op_precision_mode": None,
    "enable_scope_fusion_passes": None,
    "stream_max_parallel_num": None,
    "is_tailing_optimization": False,
    "enable_small_channel": None,
    "variable_format_optimize": True,
    "hcom_parallel": True,
    "topo_sorting_mode": None,
    "optimization_switch": None,
    "oo_level": None,
    "variable_use_1g_huge_page": None,
    "enable_compress_weight": None,
    "compress_weight_conf": None,
    "profiling_config": {"enable_profiling": False, "profiling_options": None},
    # Tuning.
    "aoe_config": {"aoe_mode": None, "work_path": None, "aoe_config_file": None},
    "auto_tune_mode": None,
    "op_tune_mode": None,
    "mstune_mode": None,
    "work_path": None,
    # Compilation of ops.
    "op_compiler_cache_mode": "enable",
    "op_compiler_cache_dir": None,
    "shape_generalization_mode": None,
    # Several devices.
    "rank_table_file": None,
    "hcom_multi_mode": None,
    "hccl_timeout": None,
    "op_wait_timeout": None,
    "op_execute_timeout": None,
    "stream_sync_timeout": None,
    "event_sync_timeout": None,
    "local_rank_id": None,
    "local_device_list": None,
    "resource_config_path": None,
    "experimental": {
        "logical_device_cluster_deploy_mode": None,
        "logical_device_id": None,
        "graph_memory_optimize_config": {"recompute": None},
        "graph_parallel_config": {
            "enable_graph_parallel": None,
            "graph_parallel_option_path": None,
        },
        "multi_branches_config": {"input_shape": None, "dynamic_node_type": None},
    },
}


class DeviceOptions(OptionGroup):
    """The options of npu_device, and the fields of PrecisionOptions.

    The fields of PrecisionOptions take effect with open(). All other options are accepted, and have
    no effect here. The log names those with another value than their default.
    """

    def __init__(self) -> None:
        super().__init__(_NAME, {**dict.fromkeys(ACCEPTED_NAMES), **_DOCUMENTED})
        vars(self)["_in_force"] = None

    def __setattr__(self, option: str, value: Any) -> None:
        super().__setattr__(option, value)
        in_force: Mapping[str, Any] | None = self._in_force
        if in_force is not None and option in ACCEPTED_NAMES and in_force.get(option) != value:
            _LOGGER.warning(
                "%s.%s was set to %r after npu_device.open(), which read %r: it has no effect "
                "before the next npu_device.open().as_default()",
                _NAME,
                option,
                value,
                in_force.get(option),
            )

    def read(self) -> PrecisionOptions:
        """The precision options as they are set now, with npu_device's default mode.

        Raises:
            ValueError: a wrong value.
        """
        given = {name: getattr(self, name) for name in ACCEPTED_NAMES}
        vars(self)["_in_force"] = given
        # Scripts set options from their command line, where "" stands for no value.
        options = PrecisionOptions(**{name: each for name, each in given.items() if each != ""})
        if options.precision_mode is None and options.precision_mode_v2 is None:
            options = dataclasses.replace(options, precision_mode="allow_fp32_to_fp16")
        without_effect = [name for name in self.changed() if name not in ACCEPTED_NAMES]
        if without_effect:
            _no_effect.name_once(_NAME, without_effect)
        return options
