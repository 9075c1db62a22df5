"""What XLA would compile in a mode, for experimental_get_compiler_ir() of a tf.function."""

from __future__ import annotations

import dataclasses

from tensorflow.core.framework import graph_pb2
from tensorflow.core.protobuf import config_pb2, meta_graph_pb2, rewriter_config_pb2

from npu_precision import _library, _tf_compat
from npu_precision.options import OPTIMIZER_NAME, PrecisionOptions
from npu_precision.session import rewriter_config


def optimized(graph_def: graph_pb2.GraphDef, options: PrecisionOptions) -> graph_pb2.GraphDef:
    """A graph as the optimizer alone rewrites it in a run, but without a ledger.

    Args:
        graph_def: the graph. Its first node is kept, with the functions that it refers to.
        options: the precision options.

    Raises:
        ValueError: the optimizer refuses the graph.
    """
    config = config_pb2.ConfigProto()
    rewrite = config.graph_options.rewrite_options
    rewrite.optimizers.append(OPTIMIZER_NAME)
    rewrite.meta_optimizer_iterations = rewriter_config_pb2.RewriterConfig.ONE
    silent = dataclasses.replace(options, report_dir=None)
    rewriter_config.configure(rewrite, silent.to_parameter_map())
    meta_graph = meta_graph_pb2.MetaGraphDef(graph_def=graph_def)
    meta_graph.collection_def["train_op"].node_list.value.append(graph_def.node[0].name)
    result = _tf_compat.optimize_graph(config, meta_graph, "graph")
    for nodes in (result.node, *(each.node_def for each in result.library.function)):
        for node in nodes:
            if node.op == _library.describe()["error_op"]:
                raise ValueError(node.attr["message"].s.decode("utf-8", "replace"))
    return result
