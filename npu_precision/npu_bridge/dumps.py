r"""npu_bridge's dump: session.runs write the tensors of the given steps, or their statistics.

A session whose config has NpuOptimizer with enable_dump writes, into

    {dump_path}/{time}/{device id}/{model name}/{model id}/{step}/

a file for each tensor:

    {op type}.{op name}.{task id}.{stream id}.{timestamp}.{input or output}.{index}.{shape}.npy

These are the folders of an NPU's dump, and the file names of Ascend's msaccucmp.py, which converts
that dump to .npy files. The tensors are those of the graph that runs, after all optimizers: lowered
ones have the low type, and the inserted Casts are among them. "." "/" "\" and spaces in a name
become "_". The task id is the number of the node in the graph; the stream id is 0. The shape is as
1x3x224x224, or 1 for a scalar. bfloat16 is written as float32, exactly. A file whose name would be
too long gets a number, and mapping.csv has its name.

Beside the models, the folder .graphs has their graphs, which `npu-precision compare-dumps` reads.
With dump_data "stats", there is a file for each op instead, with a line for each tensor:

    {op type}.{op name}.{task id}.{stream id}.{timestamp}.csv

Each set of ops that the script runs is a model with a number, named for the first of the ops. Each
run of a model is a step, counted from 0. A training loop runs one model; the initializer of its
variables was another. Additional fetches of hooks make no other model.

Strings, handles and tensors inside of functions are not written.

Source: Huawei's "Dump Data Collection" for the folders and dump_step; "Dump File Naming
Conventions" and "How Do I Convert the Format of a Dump File?" for the names of files.
"""

from __future__ import annotations

import bisect
import collections
import logging
import os
import shutil
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import graph_pb2
from tensorflow.core.protobuf import config_pb2

from npu_precision import _library, _tf_compat
from npu_precision.dump_layout import GRAPHS, clean
from npu_precision.hccl import ranks
from npu_precision.npu_bridge import dump_settings, fetching
from npu_precision.npu_bridge.dump_files import LONGEST_NAME, DumpFiles
from npu_precision.npu_bridge.dump_settings import DumpSettings
from npu_precision.options import OPTIMIZER_NAME, plain_value
from npu_precision.session import rewriter_config

_LOGGER = logging.getLogger("npu_precision")
_dumps: weakref.WeakKeyDictionary[Any, _SessionDump] = weakref.WeakKeyDictionary()


class _Model:
    """A set of ops that a session runs repeatedly."""

    def __init__(self, names: tuple[str, ...], number: int) -> None:
        self.name = clean(names[0])[:LONGEST_NAME] if names else "nothing"
        self.number = number
        self.steps = 0
        self.lock = threading.Lock()


class _SessionDump:
    """Counts the steps of a session, and writes some of them."""

    def __init__(self, settings: DumpSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        # The models by the names of their ops.
        self._models: dict[tuple[str, ...], _Model] = {}
        self._folder = ""
        # The debugger's folder.
        self._scratch = ""

    def run(self, session: Any, fetches: Any, run: Callable[..., Any]) -> Any:
        """Runs the fetches, and writes the tensors if this step is to be written."""
        names = fetching.names(fetches)
        with self._lock:
            model = self._models.setdefault(names, _Model(names, len(self._models)))
            step = model.steps
            model.steps += 1
            is_written = self._settings.has(step)
            if is_written:
                self._make_folders()
        if not is_written:
            return run(fetches)
        # With one lock for all models, a step would block the run that fills its queue.
        with model.lock:
            return self._run_and_write(session, fetches, run, model, step)

    def _run_and_write(self, session: Any, fetches: Any, run: Any, model: _Model, step: int) -> Any:
        # The same folder in each step, because TensorFlow optimizes the graph again for another
        # one.
        scratch = os.path.join(self._scratch, str(model.number))
        options, metadata = config_pb2.RunOptions(), config_pb2.RunMetadata()
        if run.keywords["options"] is not None:
            options.CopyFrom(run.keywords["options"])
        _tf_compat.watch_every_tensor(options, session.graph, scratch)
        try:
            result = run(fetches, options=options, run_metadata=metadata)
            into = os.path.join(self._folder, model.name, str(model.number), str(step))
            os.makedirs(into)
            # Nothing runs if nothing is fetched.
            if metadata.partition_graphs:
                watched = _tf_compat.WatchedRun(scratch, metadata)
                graphs = os.path.join(self._folder, GRAPHS)
                _write_graph(watched, os.path.join(graphs, model.name, f"{model.number}.pb"))
                _write(watched, self._settings, into)
        finally:
            _tf_compat.remove_watched(scratch)
        if run.keywords["run_metadata"] is not None:
            run.keywords["run_metadata"].CopyFrom(metadata)
        return result

    def _make_folders(self) -> None:
        """Makes the folder of this session once; never uses one that exists."""
        if self._folder:
            return
        where = ranks.current()
        device = str(where.local_ranks().index(where.rank))
        seconds = time.time()
        while True:
            begun = time.strftime("%Y%m%d%H%M%S", time.localtime(seconds))
            folder = os.path.join(os.path.abspath(self._settings.path), begun, device)
            try:
                os.makedirs(folder)
                break
            except FileExistsError:
                seconds += 1
            except OSError as error:
                raise ValueError(f"dump_path: cannot make {folder!r}: {error.strerror}") from error
        self._scratch = tempfile.mkdtemp(prefix="npu_precision_dump_")
        weakref.finalize(self, shutil.rmtree, self._scratch, ignore_errors=True)
        self._folder = folder


def _write_graph(watched: Any, path: str) -> None:
    """Writes the graph of a model with its first step: it says what each op reads."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if not os.path.exists(path):
        with open(path, "xb") as file:
            file.write(graph_pb2.GraphDef(node=watched.nodes).SerializeToString())


def _given_name(name: str) -> str:
    """The op's name in the script: a Cast takes over the name of a fetched op that was lowered."""
    return name.partition(_library.describe()["renamed_suffix"])[0]


def _write(watched: Any, settings: DumpSettings, folder: str) -> None:
    """Writes the tensors of a run."""
    unknown = settings.layers - {_given_name(node.name) for node in watched.nodes}
    if unknown:
        _LOGGER.warning("dump_layer: the graph that ran has no op %s", ", ".join(sorted(unknown)))
    outputs = collections.defaultdict(list)
    for tensor in watched.tensors():
        outputs[tensor.node].append(tensor)
    files = DumpFiles(folder, settings.statistics)
    for task, node in enumerate(watched.nodes):
        if settings.layers and _given_name(node.name) not in settings.layers:
            continue
        stem = f"{clean(node.op)}.{clean(node.name)}.{task}.0"
        if settings.outputs:
            for tensor in outputs[node.name]:
                files.add(f"{stem}.{tensor.timestamp}", "output", tensor.output, tensor)
        if settings.inputs:
            for timestamp, index, tensor in _inputs(node, outputs):
                files.add(f"{stem}.{timestamp}", "input", index, tensor)
    files.close()


def _inputs(node: Any, outputs: Any) -> Iterator[tuple[int, int, Any]]:
    """Yields (timestamp, index, tensor) for a node's inputs, each time that it ran.

    A node in a loop ran several times, each time on the newest tensors.
    """
    inputs = []
    for text in node.input:
        if not text.startswith("^"):
            producer, _, output = text.partition(":")
            inputs.append([t for t in outputs[producer] if t.output == int(output or 0)])
    # If a node has no outputs, only its inputs show when it ran.
    times = sorted({tensor.timestamp for tensor in outputs[node.name] if tensor.output == 0})
    for timestamp in times or [max((t.timestamp for ts in inputs for t in ts), default=0)]:
        for index, tensors in enumerate(inputs):
            newest = bisect.bisect_right([tensor.timestamp for tensor in tensors], timestamp)
            if newest:
                yield timestamp, index, tensors[newest - 1]


def _for_session(session: Any, graph: tf.Graph, config: Any) -> tuple[str, Any] | None:
    """Removes the dump options from a session's config: the optimizer would call them inert."""
    del graph
    if config is None:
        return None
    entries = config.graph_options.rewrite_options.custom_optimizers
    for number, entry in enumerate(entries):
        if entry.name != OPTIMIZER_NAME:
            continue
        values = {name: plain_value(value) for name, value in entry.parameter_map.items()}
        settings = dump_settings.of_options(values)
        if settings is None:
            continue
        _dumps[session] = _SessionDump(settings)
        rest = config_pb2.ConfigProto()
        rest.CopyFrom(config)
        parameters = rest.graph_options.rewrite_options.custom_optimizers[number].parameter_map
        for name in dump_settings.NAMES:
            if name in parameters:
                del parameters[name]
        # A script for Ascend has the remapper off, and its dump has each op.
        rewriter_config.leave_ops_single(
            rest.graph_options.rewrite_options.custom_optimizers[number]
        )
        return "", rest
    return None


def _run(session: Any, fetches: Any, run: Callable[..., Any]) -> Any:
    dump = _dumps.get(session)
    return run(fetches) if dump is None else dump.run(session, fetches, run)


_tf_compat.choose_session_targets(_for_session)
_tf_compat.wrap_session_runs(_run)
