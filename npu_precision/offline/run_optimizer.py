"""Runs only the precision optimizer on a GraphDef, outside of any session or function.

TensorFlow's own entry point for this, OptimizeGraph, is made for measuring graphs: it feeds every
placeholder with a tensor it allocates, drops functions that no node calls, and erases or adds
attributes. This module prepares the graph and undoes these changes afterwards, so that the result
differs from the input only by what the optimizer changed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import pathlib
import secrets
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import graph_pb2, node_def_pb2

from npu_precision import _library, _marks, _rewrites, _tf_compat
from npu_precision.ledger import Ledger
from npu_precision.offline import bodies_in_place, body_marks, call_boundaries, compiled_marks
from npu_precision.offline.optimize_graph import (
    KEEPER,
    NOT_INLINED,
    NUMBERS,
    PLACEHOLDERS,
    all_nodes,
    config_of,
    meta_graph_of,
)
from npu_precision.options import OPTIMIZER_NAME, PrecisionOptions

_ERROR_OP: str = _library.describe()["error_op"]
# The beginning of its message where the graph is not as this TensorFlow's ops have it, or where the
# optimizer is wrong.
_INTERNAL_FAILURE = "internal failure"
# The optimizer appends this to the name of a node when a Cast takes over the name.
RENAMED: str = _library.describe()["renamed_suffix"]
# Marks that are gone from the result.
_OF_THIS_RUN = (
    *(_marks.COLOCATION, _marks.PRESERVED, _marks.NAMED, _marks.LOWER_IO, _marks.COMPILED),
    *body_marks.MARKS,
)
# The options whose passes change shapes; _output_shapes is then out of date.
_RESHAPE = ("flatten_mat_muls", "sink_reshapes")
# TensorFlow's TFG optimizer, which cannot be switched off up to 2.13, leaves such attributes.
_TFG = "tfg."
# The limit on rounds of call_boundaries. Most graphs need one or two.
_MOST_ROUNDS = 8


def rewrite(
    graph_def: graph_pb2.GraphDef,
    fetch_nodes: Iterable[str],
    feed_nodes: Iterable[str],
    options: PrecisionOptions,
    name: str,
    kept_in_functions: Mapping[str, Collection[str]] | None = None,
    keep_io_types: bool = True,
    known_functions: Collection[str] = (),
) -> tuple[graph_pb2.GraphDef, Ledger]:
    """Rewrites a graph and every function in its library.

    Args:
        graph_def: the graph; it is not changed.
        fetch_nodes: names of nodes whose outputs keep name and dtype.
        feed_nodes: names of nodes, besides placeholders, whose outputs may be fed.
        options: the precision options.
        name: the graph's name in the ledger.
        kept_in_functions: by function name, the names of nodes in its body whose outputs keep name
            and dtype.
        keep_io_types: whether placeholders and fetch_nodes keep their dtype. If not, those that are
            only cast to or from the low type change to that type.
        known_functions: names of functions that are called from elsewhere too, with arguments of
            any shape, and keep the dtypes of their arguments and results.

    Returns:
        A new GraphDef, equal to graph_def where nothing had to change, and the ledger.

    Raises:
        ValueError: the optimizer refuses options or graph, or fails inside, or TensorFlow cannot
            read the graph.
    """
    # A model of a newer TensorFlow says so here, and no result of this one could be read either.
    _check_readable(graph_pb2.GraphDef(versions=graph_def.versions), name)
    rewrites = _rewrites.with_default(options.rewrites, "fold_constants")
    options = dataclasses.replace(options, rewrites=rewrites)
    fetch_nodes, feed_nodes = list(fetch_nodes), list(feed_nodes)
    kept = kept_in_functions or {}
    graphs = fetch_nodes, feed_nodes, options, name, kept, keep_io_types, known_functions
    rewritten, ledger = _run(graph_def, *graphs)
    fixed = {("", node) for node in (*fetch_nodes, *feed_nodes)}
    fixed.update((function, node) for function, nodes in kept.items() for node in nodes)
    # A value that now crosses a call in the low type may lower its consumers, which may cross
    # another call.
    for _ in range(_MOST_ROUNDS if changes(ledger) else 0):
        crossing = call_boundaries.moved(options, rewritten, known_functions, fixed)
        if crossing is None:
            break
        earlier = ledger
        rewritten, ledger = _run(crossing[0], *graphs)
        ledger = call_boundaries.with_rewrites(ledger, earlier, crossing[1])
    if options.report_dir is not None:
        _write_new(pathlib.Path(options.report_dir), ledger)
    return rewritten, ledger


def _run(
    graph_def: graph_pb2.GraphDef,
    fetch_nodes: Collection[str],
    feed_nodes: Collection[str],
    options: PrecisionOptions,
    name: str,
    kept_in_functions: Mapping[str, Collection[str]],
    keep_io_types: bool,
    known_functions: Collection[str],
) -> tuple[graph_pb2.GraphDef, Ledger]:
    """Runs the optimizer once, over the graph and each function; arguments are those of rewrite."""
    meta_graph, replaced = meta_graph_of(graph_def, fetch_nodes, feed_nodes, known_functions)
    if graph_def.library.function:
        facts = _library.body_facts(graph_def, known_functions)
        body_marks.mark_bodies(facts, meta_graph.graph_def)
        graphs = graph_def, fetch_nodes, feed_nodes, known_functions
        bodies_in_place.mark_kept(facts, *graphs, options, meta_graph.graph_def)
    compiled_marks.mark_compiled(meta_graph.graph_def)
    if not keep_io_types:
        for node in meta_graph.graph_def.node:
            if node.name in fetch_nodes or node.op in PLACEHOLDERS or node.name in replaced:
                node.attr[_marks.LOWER_IO].b = True
    for function in meta_graph.graph_def.library.function:
        kept = kept_in_functions.get(function.signature.name, ())
        for node in function.node_def:
            if node.name in kept:
                node.attr[_marks.PRESERVED].b = True
    graph_id = name
    while any(function.signature.name == graph_id for function in graph_def.library.function):
        graph_id += "_"
    with tempfile.TemporaryDirectory(prefix="npu_precision_") as folder:
        # Strict, because a caller of this has no use for the original graph.
        config = config_of(OPTIMIZER_NAME)
        config.graph_options.rewrite_options.custom_optimizers.append(
            dataclasses.replace(options, report_dir=folder, strict=True).custom_optimizer()
        )
        try:
            result = _tf_compat.optimize_graph(config, meta_graph, graph_id)
        except Exception as error:
            raise ValueError(
                f"TensorFlow could not optimize the graph {name!r}: {error}"
            ) from error
        _raise_error_node(result, graph_def, name)
        ledger = _read_ledger(pathlib.Path(folder), graph_id, name, options, replaced)
    return (_restored(result, graph_def, ledger) if changes(ledger) else _copy(graph_def)), ledger


def changes(ledger: Ledger) -> bool:
    """Whether the optimizer changed the graph or a function in its library."""
    counts = (ledger.total(count) for count in ("lowered", "raised", "casts"))
    return any(counts) or any(part.rewrites for part in ledger)


def inlined(graph_def: graph_pb2.GraphDef, fetch_nodes: Iterable[str]) -> graph_pb2.GraphDef:
    """A graph in which function calls are inlined.

    Calls that TensorFlow cannot inline stay, such as the body of a While that is not
    expanded into TF1 control flow.

    Raises:
        ValueError: TensorFlow cannot read the graph.
    """
    meta_graph, _ = meta_graph_of(graph_def, fetch_nodes, ())
    for function in meta_graph.graph_def.library.function:
        for name in NOT_INLINED:
            function.attr.pop(name, None)
    config = config_of("function")
    try:
        result = _tf_compat.optimize_graph(config, meta_graph, "graph")
    except Exception as error:
        raise ValueError(f"TensorFlow could not inline the graph's functions: {error}") from error
    originals = {node.name: node for node in graph_def.node if node.op in PLACEHOLDERS}
    nodes = [originals.get(node.name, node) for node in result.node if node.name != KEEPER]
    for node in nodes:
        for ours in (_marks.COLOCATION, _marks.NAMED):
            node.attr.pop(ours, None)
    _replace(result.node, nodes)
    return result


def _raise_error_node(result: graph_pb2.GraphDef, original: graph_pb2.GraphDef, name: str) -> None:
    for node in all_nodes(result):
        if node.op == _ERROR_OP:
            message = node.attr["message"].s.decode("utf-8", "replace")
            if message.startswith(_INTERNAL_FAILURE):
                _check_readable(original, name)
            raise ValueError(message)


def _check_readable(graph_def: graph_pb2.GraphDef, name: str) -> None:
    """Raises ValueError, with TensorFlow's own reason, if TensorFlow cannot read the graph."""
    try:
        with tf.Graph().as_default():
            tf.compat.v1.import_graph_def(graph_def, name="")
    except (ValueError, tf.errors.OpError) as error:
        raise ValueError(
            f"TensorFlow {tf.__version__} cannot read the graph {name!r}: {error}"
        ) from error


def _read_ledger(
    folder: pathlib.Path, graph_id: str, name: str, options: PrecisionOptions, replaced: set[str]
) -> Ledger:
    """The graph's ledger, with the ledgers of its functions inside, sorted by name."""
    ledgers: dict[str, dict[str, Any]] = {}
    for file in sorted(folder.glob("*.json")):
        ledger = dict(Ledger.from_json(file.read_text(encoding="utf-8")).data)
        # Restores the caller's values, because these were set for this run only.
        del ledger["options"]["report_dir"], ledger["options"]["strict"]
        if options.report_dir is not None:
            ledger["options"]["report_dir"] = options.report_dir
        if options.strict is not None:
            ledger["options"]["strict"] = "true" if options.strict else "false"
        ledgers[ledger["graph"]] = ledger
    main = ledgers.pop(graph_id)
    main["graph"] = name
    for node in main["nodes"]:
        if node["name"] in replaced:
            node["op"] = PLACEHOLDERS[0]
            node["dtypes"] = {"dtype": node["dtypes"]["T"]}
    main["totals"]["nodes"] -= 1  # KEEPER
    main["functions"] = [ledgers[function] for function in sorted(ledgers)]
    return Ledger(main)


def _write_new(folder: pathlib.Path, ledger: Ledger) -> None:
    """Writes the ledger under a new file name, completely or not at all."""
    stem = "".join(char if char.isalnum() or char in "._-" else "_" for char in ledger.graph)
    temporary = folder / f".{stem}.{secrets.token_hex(4)}.partial"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            temporary.write_text(ledger.to_json(), encoding="utf-8")
            _link_new(temporary, folder, stem)
        finally:
            with contextlib.suppress(FileNotFoundError):
                temporary.unlink()
    except OSError as error:
        raise OSError(
            f"report_dir: cannot write into folder {str(folder)!r}: {error.strerror or error}"
        ) from error


def _link_new(file: pathlib.Path, folder: pathlib.Path, stem: str) -> None:
    """Gives a file the first name that is free. Unlike a rename, a link replaces nothing."""
    for number in itertools.count():
        with contextlib.suppress(FileExistsError):
            os.link(str(file), str(folder / f"{stem}-{number}.json"))
            return


def _restored(
    result: graph_pb2.GraphDef, original: graph_pb2.GraphDef, ledger: Ledger
) -> graph_pb2.GraphDef:
    """The result without the changes made by OptimizeGraph itself, rather than the optimizer."""
    graph_def = _copy(original)
    found = (node for node in result.node if node.name != KEEPER)
    _replace(graph_def.node, _restored_nodes(found, original.node, ledger))
    ledgers = {part.graph: part for part in ledger.functions}
    rewritten = {function.signature.name: function for function in result.library.function}
    for function in graph_def.library.function:
        body = rewritten.get(function.signature.name)
        if body is not None:
            nodes = _restored_nodes(
                body.node_def, function.node_def, ledgers.get(function.signature.name)
            )
            _replace(function.node_def, nodes)
            for outputs, now in (
                (function.ret, body.ret),
                (function.control_ret, body.control_ret),
            ):
                outputs.clear()
                outputs.update(now)
    return graph_def


def _replace(repeated: Any, values: Iterable[node_def_pb2.NodeDef]) -> None:
    values = list(values)
    del repeated[:]
    repeated.extend(values)


def _restored_nodes(
    nodes: Iterable[node_def_pb2.NodeDef],
    originals: Sequence[node_def_pb2.NodeDef],
    ledger: Ledger | None,
) -> list[node_def_pb2.NodeDef]:
    by_name = {node.name + RENAMED: node for node in originals}
    by_name.update((node.name, node) for node in originals)
    reshaped = ledger is not None and any(entry.by in _RESHAPE for entry in ledger.rewrites)
    return [_restored_node(node, by_name.get(node.name), reshaped) for node in nodes]


def _restored_node(
    node: node_def_pb2.NodeDef, original: node_def_pb2.NodeDef | None, reshaped: bool
) -> node_def_pb2.NodeDef:
    if _marks.COLOCATION in node.attr:
        node.attr["_class"].CopyFrom(node.attr[_marks.COLOCATION])
    elif original is not None and "_class" in node.attr:
        del node.attr["_class"]
    for ours in _OF_THIS_RUN:
        if ours in node.attr:
            del node.attr[ours]
    for name in [name for name in node.attr if name.startswith(_TFG)]:
        del node.attr[name]
    if original is None:
        return node
    if original.op in PLACEHOLDERS and node.name == original.name:
        restored = node_def_pb2.NodeDef()
        restored.CopyFrom(original)
        restored.attr["dtype"].type = node.attr["dtype" if "dtype" in node.attr else "T"].type
        # The original's control inputs and colocation may name nodes that are gone.
        restored.input[:] = node.input
        if "_class" in node.attr:
            restored.attr["_class"].CopyFrom(node.attr["_class"])
        return restored
    if node.op != original.op:
        return node
    if _tf_compat.MUST_COMPILE in original.attr:
        node.attr[_tf_compat.MUST_COMPILE].CopyFrom(original.attr[_tf_compat.MUST_COMPILE])
    if "_output_shapes" in original.attr and not reshaped:
        node.attr["_output_shapes"].CopyFrom(original.attr["_output_shapes"])
    elif "_output_shapes" in node.attr:
        del node.attr["_output_shapes"]
    # The TFG optimizer, which cannot be switched off up to 2.13, infers these, and rewrites
    # constants.
    if "output_shapes" in original.attr and not reshaped:
        node.attr["output_shapes"].CopyFrom(original.attr["output_shapes"])
    if node.op == "Const" and _same_constant(node, original):
        node.attr["value"].CopyFrom(original.attr["value"])
    # Newer TensorFlow versions infer it for every node of a function.
    has_field = "experimental_type" in node.DESCRIPTOR.fields_by_name
    if has_field and not original.HasField("experimental_type"):
        node.ClearField("experimental_type")
    definition = _tf_compat.op_definition(node.op)
    for attribute in definition.attr if definition else ():
        added = attribute.name in node.attr and attribute.name not in original.attr
        if added and node.attr[attribute.name] == attribute.default_value:
            del node.attr[attribute.name]
    return node


def _same_constant(one: node_def_pb2.NodeDef, other: node_def_pb2.NodeDef) -> bool:
    """Whether two constants have the same bits, however these are written down."""
    tensors = [node.attr["value"].tensor for node in (one, other)]
    if tensors[0] == tensors[1]:
        return True
    dtype = tensors[0].dtype
    if dtype not in NUMBERS or dtype != tensors[1].dtype:
        return False
    if tensors[0].tensor_shape != tensors[1].tensor_shape:
        return False
    arrays = [tf.make_ndarray(tensor) for tensor in tensors]
    return arrays[0].tobytes() == arrays[1].tobytes()


def _copy(graph_def: graph_pb2.GraphDef) -> graph_pb2.GraphDef:
    result = graph_pb2.GraphDef()
    result.CopyFrom(graph_def)
    return result
