"""run_updates: runs the steps of a small training graph in a session that rewrites it."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import tensorflow as tf

import npu_precision
from npu_precision import _tf_compat
from support.tf_versions import HAS_ONEDNN_IN_BFLOAT16

tf1 = tf.compat.v1
# float16 where bfloat16 has no fast kernels: it is rounded to, and so cast, everywhere.
MIXED = "allow_mix_precision_bf16" if HAS_ONEDNN_IN_BFLOAT16 else "allow_mix_precision"
_OF_ROOTS = 1e-6 if _tf_compat.IS_TF1 else 0
FUSED, SINGLE = "all", "-fused_updates"


@dataclasses.dataclass(frozen=True)
class Updated:
    """What some steps left.

    Attributes:
        variables: the values of all variables after the last step, by name.
        results: what each step yielded.
        replaced: the ops that fused_updates replaced, sorted.
        ran: how many ops of our own were in the graph that ran. TensorFlow runs the graph as it was
            where a later optimizer finds a cycle.
    """

    variables: dict[str, np.ndarray]
    results: list
    replaced: list[str]
    ran: int


def run_updates(build, folder, rewrites=FUSED, steps=3, mode=MIXED, feeds=None):
    """Builds a graph and runs it.

    Args:
        build: returns what a step fetches: ops or tensors.
        folder: a folder for the ledgers.
        rewrites: FUSED or SINGLE.
        steps: how often.
        mode: the precision_mode.
        feeds: values by the names of placeholders.
    """
    reports = folder / str(len(list(folder.iterdir())))
    config = npu_precision.npu_config_proto(
        precision_mode=mode, rewrites=rewrites, report_dir=str(reports), strict=True
    )
    with tf.Graph().as_default() as graph:
        tf1.set_random_seed(1)
        fetches = build()
        variables = tf1.global_variables()
        init = tf1.global_variables_initializer()
    with tf1.Session(graph=graph, config=config) as session:
        session.run(init)
        fed = {f"{name}:0": value for name, value in (feeds or {}).items()}
        metadata = tf1.RunMetadata()
        options = tf1.RunOptions(output_partition_graphs=True)
        results = [session.run(fetches, fed, options, metadata) for _ in range(steps)]
        values = {each.op.name: session.run(each) for each in variables}
    entries = [
        entry
        for path in sorted(reports.rglob("*.json"))
        for entry in json.loads(path.read_text())["rewrites"]
    ]
    replaced = sorted(each["before"] for each in entries if each["by"] == "fused_updates")
    nodes = [node for graph in metadata.partition_graphs for node in graph.node]
    ran = sum("NpuPrecisionUpdate" in node.op for node in nodes)
    return Updated(values, results, replaced, ran)


def assert_same_updates(build, folder, **arguments):
    """Runs it with and without fused_updates; all values must be equal, bit for bit.

    TensorFlow 1.15 is the exception: the square roots of its kernels are off by some units in the
    last place.

    Returns:
        The Updated with the pass.
    """
    fused = run_updates(build, folder, **arguments)
    single = run_updates(build, folder, rewrites=SINGLE, **arguments)
    assert single.replaced == []
    assert (fused.ran > 0) == (fused.replaced != [])
    assert fused.variables.keys() == single.variables.keys()
    for name, value in fused.variables.items():
        np.testing.assert_allclose(
            value, single.variables[name], _OF_ROOTS, _OF_ROOTS, err_msg=name
        )
    for one, other in zip(fused.results, single.results):
        for a, b in zip(tf.nest.flatten(one), tf.nest.flatten(other)):
            if b is not None:
                np.testing.assert_allclose(a, b, _OF_ROOTS, _OF_ROOTS * np.size(b))
    return fused
