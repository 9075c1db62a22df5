"""Rewrites a corpus with one library, in a process that uses nothing else of its commit.

    python -m replay.rewrite_corpus LIBRARY CORPUS RESULTS FIRST STEP OPTIONS

rewrites every STEP-th case, beginning with number FIRST, and appends a line of JSON for each to the
file RESULTS. OPTIONS is a JSON object of further parameters to set in every case. The sides differ
only in the library: this script, TensorFlow and the corpus are the same, and paths are relative to
a folder that has the same names in it.

A parameter that the library does not know is left out. Tensors of more than a few bytes are stored
as digests. That is enough to compare them, and avoids two copies of BERT's weights.
"""

from __future__ import annotations

import base64
import ctypes
import hashlib
import json
import os
import pathlib
import shutil
import sys
import tempfile
import zlib
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2, graph_pb2
from tensorflow.core.protobuf import (
    config_pb2,
    device_properties_pb2,
    meta_graph_pb2,
    rewriter_config_pb2,
)
from tensorflow.python.grappler import cluster, tf_optimizer

from replay.corpus import FILES, Case, Corpus

LEDGERS = "ledgers"
LONG_TENSOR = 64


def load(path: str) -> dict[str, Any]:
    """Loads the library; returns its description of itself, with its parameters."""
    tf.load_library(path)
    library = ctypes.CDLL(path)
    library.NpuPrecisionDescribe.restype = ctypes.c_void_p
    library.NpuPrecisionFree.argtypes = [ctypes.c_void_p]
    text = library.NpuPrecisionDescribe()
    try:
        return json.loads(ctypes.string_at(text))
    finally:
        library.NpuPrecisionFree(text)


def config_of(options: dict[str, Any]) -> config_pb2.ConfigProto:
    """A config that runs the optimizer alone."""
    config = config_pb2.ConfigProto()
    rewrite_options = config.graph_options.rewrite_options
    rewrite_options.optimizers.append("NpuOptimizer")
    rewrite_options.meta_optimizer_iterations = rewriter_config_pb2.RewriterConfig.ONE
    rewrite_options.min_graph_nodes = -1
    rewrite_options.fail_on_optimizer_errors = True
    if hasattr(rewrite_options, "disable_tfg_optimizer"):
        rewrite_options.disable_tfg_optimizer = True
    entry = rewrite_options.custom_optimizers.add(name="NpuOptimizer")
    for name, value in {**options, "report_dir": LEDGERS}.items():
        entry.parameter_map[name].CopyFrom(_attr_value(value))
    return config


def _attr_value(value: Any) -> attr_value_pb2.AttrValue:
    if isinstance(value, bool):
        return attr_value_pb2.AttrValue(b=value)
    if isinstance(value, int):
        return attr_value_pb2.AttrValue(i=value)
    if isinstance(value, float):
        return attr_value_pb2.AttrValue(f=value)
    return attr_value_pb2.AttrValue(s=value.encode("utf-8", "surrogateescape"))


def cluster_of(devices: tuple[str, ...]) -> cluster.Cluster:
    """A virtual cluster with these devices, which need not exist."""
    return cluster.Cluster(
        devices=[
            device_properties_pb2.NamedDevice(
                name=f"/job:localhost/replica:0/task:0/device:{name}",
                properties=device_properties_pb2.DeviceProperties(type=name.partition(":")[0]),
            )
            for name in devices
        ]
    )


def compact(graph_def: graph_pb2.GraphDef) -> bytes:
    """The graph's bytes, with digests for long tensors and the functions in order of their names.

    TensorFlow, not the optimizer, returns the functions, in an order of its own.
    """
    functions = sorted(graph_def.library.function, key=lambda function: function.signature.name)
    del graph_def.library.function[:]
    graph_def.library.function.extend(functions)
    for nodes in (graph_def.node, *(f.node_def for f in graph_def.library.function)):
        for node in nodes:
            for value in node.attr.values():
                if len(value.tensor.tensor_content) > LONG_TENSOR:
                    digest = hashlib.sha256(value.tensor.tensor_content).hexdigest()
                    value.tensor.tensor_content = f"sha256 {digest}".encode()
    return graph_def.SerializeToString(deterministic=True)


class Rewriter:
    """Rewrites case after case; the working directory is its own."""

    def __init__(self, corpus: Corpus, known: set[str], added: dict[str, Any]) -> None:
        self._corpus = corpus
        self._known = known
        self._added = added
        self._digest = ""
        self._meta_graph = b""
        self._clusters: dict[tuple[str, ...], cluster.Cluster] = {}

    def result(self, case: Case) -> dict[str, Any]:
        """Rewrites the graph of a case.

        Returns:
            "graph" or "error"; "ledgers" by file name; "left_out" and "added", names of options.
        """
        options = {name: value for name, value in case.options.items() if name in self._known}
        left_out = case.options.keys() - options.keys()
        options.update(self._added)
        if case.devices not in self._clusters:
            self._clusters[case.devices] = cluster_of(case.devices)
        shutil.rmtree(LEDGERS, ignore_errors=True)
        result: dict[str, Any] = {"left_out": sorted(left_out), "added": sorted(self._added)}
        try:
            graph_def = tf_optimizer.OptimizeGraph(
                config_of(options),
                self._read(case.graph),
                verbose=False,
                graph_id=case.graph_id.encode("utf-8"),
                cluster=self._clusters[case.devices],
            )
            result["graph"] = packed(compact(graph_def))
        except Exception as error:  # Any exception of TensorFlow is a result.
            result["error"] = f"{type(error).__name__}: {error}"
        result["ledgers"] = {
            file.name: packed(file.read_bytes())
            for file in sorted(pathlib.Path(LEDGERS).glob("*.json"))
        }
        return result

    def _read(self, digest: str) -> meta_graph_pb2.MetaGraphDef:
        if digest != self._digest:  # Most cases of a graph are consecutive.
            self._digest = digest
            self._meta_graph = self._corpus.graph_path(digest).read_bytes()
        return meta_graph_pb2.MetaGraphDef.FromString(self._meta_graph)


def packed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data, 1)).decode("ascii")


def unpacked(text: str) -> bytes:
    return zlib.decompress(base64.b64decode(text))


def main(library: str, corpus_folder: str, results: str, first: str, step: str, added: str) -> None:
    account = load(library)
    known = {*account["parameters"], *account["inert_parameters"]}
    corpus = Corpus(pathlib.Path(corpus_folder))
    with open(results, "a") as file, tempfile.TemporaryDirectory() as folder:
        os.symlink(corpus.folder / FILES, pathlib.Path(folder, FILES))
        os.chdir(folder)
        rewriter = Rewriter(corpus, known, json.loads(added))
        for case in list(corpus.cases())[int(first) :: int(step)]:
            file.write(json.dumps(rewriter.result(case)) + "\n")
            file.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
