"""Adds the precision optimizer to a RewriterConfig; no other module does."""

from __future__ import annotations

from collections.abc import Mapping

from tensorflow.core.framework import attr_value_pb2
from tensorflow.core.protobuf import rewriter_config_pb2

from npu_precision import _library, _rewrites
from npu_precision.options import OPTIMIZER_NAME

_OFF = rewriter_config_pb2.RewriterConfig.OFF
_MOVABLE = (rewriter_config_pb2.RewriterConfig.DEFAULT, rewriter_config_pb2.RewriterConfig.ON)

# Built-in optimizers that must run after ours, as (toggle, name). TensorFlow runs custom optimizers
# after its own. By then the remapper has fused bias and activation into their convolution: no Cast
# fits between them any more, and ops it could not fuse in float32 are never fused in low precision.
# If the two run after ours, the remapper fuses lowered ops, and layout picks the format that suits
# them (NHWC for half precision on a GPU). TensorFlow accepts the name of a built-in optimizer in
# custom_optimizers for this purpose; its toggle only takes it out of the default pipeline.
# The alternative is to name the whole pipeline in rewrite_options.optimizers. That loses optimizers
# that have no name there or act differently under it: implementation_selector (Keras' cuDNN LSTM
# and GRU), the memory optimizer's default heuristics and the MLIR optimizer.
_AFTER_OURS = (("layout_optimizer", "layout"), ("remapping", "remap"))


def configure(
    rewrite: rewriter_config_pb2.RewriterConfig,
    parameters: Mapping[str, attr_value_pb2.AttrValue],
) -> None:
    """Adds NpuOptimizer with these parameters, in place, or completes the existing entry.

    Raises:
        ValueError: the existing entry contradicts the parameters, there are several entries,
            TensorFlow would run no optimizer, or the optimizer would refuse the parameters.
    """
    if rewrite.disable_meta_optimizer:
        raise ValueError(
            "disable_meta_optimizer is set: TensorFlow would run no graph optimizer, and "
            f"{OPTIMIZER_NAME} is one; clear it, or do without a precision mode"
        )
    entry = npu_optimizer_entry(rewrite)
    for name, value in parameters.items():
        present = entry.parameter_map.get(name, value)
        if present != value:
            raise ValueError(
                f"{name} is given twice: {_shown(present)} in the config's {OPTIMIZER_NAME} entry "
                f"and {_shown(value)} as an option; give one of them"
            )
        entry.parameter_map[name].CopyFrom(value)
    _library.check_options(entry)

    # 0 means TensorFlow's default, 4 nodes; smaller graphs would silently keep their precision.
    rewrite.min_graph_nodes = rewrite.min_graph_nodes or -1
    if rewrite.optimizers:
        return
    listed = {optimizer.name for optimizer in rewrite.custom_optimizers}
    for toggle, name in _AFTER_OURS:
        if getattr(rewrite, toggle) in _MOVABLE and name not in listed:
            setattr(rewrite, toggle, _OFF)
            rewrite.custom_optimizers.add(name=name)


def leave_out_remapper(rewrite: rewriter_config_pb2.RewriterConfig) -> None:
    """Switches TensorFlow's fusion of ops off, in place, so that each op has its own name."""
    rewrite.remapping = _OFF
    kept = [each for each in rewrite.custom_optimizers if each.name != "remap"]
    del rewrite.custom_optimizers[:]
    rewrite.custom_optimizers.extend(kept)
    for entry in rewrite.custom_optimizers:
        if entry.name == OPTIMIZER_NAME:
            leave_ops_single(entry)


def leave_ops_single(entry: rewriter_config_pb2.RewriterConfig.CustomGraphOptimizer) -> None:
    """Lets NpuOptimizer fuse nothing, in place, where TensorFlow's remapper is off."""
    given = entry.parameter_map["rewrites"].s.decode()
    entry.parameter_map["rewrites"].s = _rewrites.without(given, "fuse_ops").encode()


def names_npu_optimizer(rewrite: rewriter_config_pb2.RewriterConfig) -> bool:
    """Whether a config has an NpuOptimizer entry, as a script's own may."""
    return any(entry.name == OPTIMIZER_NAME for entry in rewrite.custom_optimizers)


def npu_optimizer_entry(
    rewrite: rewriter_config_pb2.RewriterConfig,
) -> rewriter_config_pb2.RewriterConfig.CustomGraphOptimizer:
    """The config's NpuOptimizer entry, added if it has none.

    Raises:
        ValueError: the config has several; TensorFlow would run each of them.
    """
    entries = [entry for entry in rewrite.custom_optimizers if entry.name == OPTIMIZER_NAME]
    if len(entries) > 1:
        raise ValueError(
            f"custom_optimizers has {len(entries)} entries named {OPTIMIZER_NAME}, expected one; "
            "put all parameters into it"
        )
    return entries[0] if entries else rewrite.custom_optimizers.add(name=OPTIMIZER_NAME)


def _shown(value: attr_value_pb2.AttrValue) -> str:
    field = value.WhichOneof("value")
    return repr(
        value.s.decode("utf-8", "replace") if field == "s" else getattr(value, field or "s")
    )
