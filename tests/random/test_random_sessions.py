"""Random graphs in real sessions, together with all of TensorFlow's own optimizers.

Offline, the optimizer gets the graph that was built. Here it gets the graph after pruning, folding,
fusing and rewriting of arithmetic, at each of its possible places among them.
"""

import re

import numpy as np
import pytest
import tensorflow as tf
from support.error_bounds import ErrorBounds
from support.error_rules import INF, UNIT
from support.random_graphs import random_graph
from support.rewritten_graph import LOW, RewrittenGraph, canonical
from support.strict_zip import strict_zip
from support.tf_versions import OPTIMIZES_WHATEVER_IS_FED, has_kernel
from support.tiers import corpus_seeds, mostly_full

import npu_precision
from npu_precision.npu_init import RewriterConfig

tf1 = tf.compat.v1
MODES = ["allow_mix_precision", "allow_mix_precision_bf16", "force_fp16"]


def last(options):
    """The documented script without its two switches: the optimizer is last, and gets fused ops."""
    config = tf1.ConfigProto()
    rewrite = config.graph_options.rewrite_options
    rewrite.custom_optimizers.append(options.custom_optimizer())
    rewrite.min_graph_nodes = -1
    return config


def documented(options):
    """The config of scripts written for Ascend."""
    config = last(options)
    config.graph_options.rewrite_options.remapping = RewriterConfig.OFF
    config.graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF
    return config


def by_name(options):
    """The optimizer placed by name: between optimizers that fuse, and before one for layouts."""
    config = last(options)
    names = ["function", "constfold", "arithmetic", "remap", "NpuOptimizer", "layout"]
    config.graph_options.rewrite_options.optimizers.extend(names)
    return config


def helper(options):
    """The optimizer at the place that this package gives it."""
    return npu_precision.npu_config_proto(options=options)


def with_all_ends_fetched(graph):
    """The graph with all its ends fetched, so that nothing is pruned."""
    read = {canonical(tensor) for node in graph.graph_def.node for tensor in node.input}
    ends = [tensor.name for tensor in graph.tensors if tensor.name not in read]
    graph.fetches[:] = sorted({*graph.fetches, *ends})
    return graph


def with_fitting_feeds(graph):
    """The graph without feeds of inner tensors if these keep the optimizer from running."""
    if not OPTIMIZES_WHATEVER_IS_FED:
        for tensor in graph.fed_inside:
            del graph.feeds[tensor]
        graph.fed_inside.clear()
    return graph


def run_session(graph, config):
    """The values of the fetches, and the nodes that ran."""
    config.intra_op_parallelism_threads = 1  # see RandomGraph._run
    options, metadata = tf1.RunOptions(output_partition_graphs=True), tf1.RunMetadata()
    imported = tf.Graph()
    with imported.as_default():
        tf.import_graph_def(graph.graph_def, name="")
    with tf1.Session(graph=imported, config=config) as session:
        values = session.run(graph.fetches, graph.feeds, options, metadata)
    return values, [node for partition in metadata.partition_graphs for node in partition.node]


def dtypes_in(node):
    """The dtypes of any node; oneDNN's nodes have op types that Python does not know."""
    return {value.type for value in node.attr.values()} | {
        dtype for value in node.attr.values() for dtype in value.list.type
    }


@pytest.mark.slow
@pytest.mark.parametrize("way", [documented, last, by_name, helper])
@pytest.mark.parametrize("mode", mostly_full(MODES, MODES[:2]))
def test_sessions_run_what_was_decided_and_agree_with_float32(mode, way, ledgers, tmp_path):
    """No error is no proof: TensorFlow runs the original graph if the optimized one is invalid."""
    low = LOW[mode.endswith("bf16")]
    lowered_in_all = 0
    seeds = corpus_seeds(40)
    for seed in seeds:
        folder = tmp_path / str(seed)
        size = 5 + seed * 37 % 100
        graph = random_graph(seed, size, control_flow=seed % 4 == 0)
        graph = with_fitting_feeds(with_all_ends_fetched(graph))
        options = npu_precision.PrecisionOptions(
            mode, report_dir=folder, strict=True, float16_compute="native"
        )
        found, nodes = run_session(graph, way(options))

        assert ledgers(folder), seed
        decided = [node for ledger in ledgers(folder) for node in ledger.nodes]
        lowered = {node.name for node in decided if node.decision == "lowered"}
        lowered_in_all += len(lowered)
        # A folded node is a Const, and a preserved node's name is that of a Cast.
        ran = {
            re.sub("/npu_changed$", "", node.name): node
            for node in nodes
            if node.op not in ("Const", "Cast")
        }
        for name in lowered & set(ran):
            assert low.as_datatype_enum in dtypes_in(ran[name]), (seed, name)

        values = graph.run()
        offline, _ = graph.rewrite(npu_precision.PrecisionOptions(mode, fold_constants=False))
        bounds = ErrorBounds(graph, values, RewrittenGraph(graph.graph_def, offline))
        for fetch, value in strict_zip(graph.fetches, found):
            expected = np.asarray(values[fetch])
            assert np.asarray(value).dtype == expected.dtype, (seed, fetch)
            if bounds[fetch] < INF:
                error = np.abs(np.subtract(value, expected, dtype=np.float64)).max(initial=0)
                # TensorFlow splits batch norms and similar ops, and each part rounds.
                apart = 16 * UNIT[low] if lowered else 64 * UNIT[tf.float32]
                largest = max(1.0, np.abs(expected.astype(np.float64)).max(initial=0))
                assert error <= bounds[fetch] + apart * largest, (seed, fetch)
    # TensorFlow 1.15 multiplies matrices in bfloat16, and has no convolutions in it.
    assert lowered_in_all > len(seeds) * (1 if has_kernel("Conv2D", low) else 0.5)
