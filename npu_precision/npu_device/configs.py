"""npu_device.configs: the options of npu_run_context()."""

from __future__ import annotations

from npu_precision.npu_device.option_group import OptionGroup


def run_context_options() -> OptionGroup:
    """New options for npu_run_context(); they have no effect here.

    Source: npu_device's configs.run_context_options().
    """
    return OptionGroup(
        "npu_device.configs.run_context_options()",
        {
            "experimental": {
                "graph_memory_optimize_config": {"recompute": None},
                "graph_parallel_config": {
                    "enable_graph_parallel": None,
                    "graph_parallel_option_path": None,
                },
            }
        },
    )
