"""by_hand: a session's config as a script for Ascend writes it, without a helper."""

from __future__ import annotations

from tensorflow.core.protobuf import config_pb2, rewriter_config_pb2


def by_hand(options, **fields):
    """A ConfigProto with an entry for NpuOptimizer.

    Args:
        options: PrecisionOptions.
        **fields: fields of RewriterConfig.
    """
    config = config_pb2.ConfigProto(device_count={"GPU": 0})
    rewrite_options = config.graph_options.rewrite_options
    rewrite_options.MergeFrom(rewriter_config_pb2.RewriterConfig(**fields))
    rewrite_options.custom_optimizers.append(options.custom_optimizer())
    return config
