"""Freezes a model into one flat graph of constants, in which every tensor can be fetched."""

from __future__ import annotations

import collections
import dataclasses
import itertools
import pathlib
import re
from collections.abc import Mapping
from typing import TypeVar

import tensorflow as tf
from tensorflow.core.framework import graph_pb2, node_def_pb2
from tensorflow.core.protobuf import meta_graph_pb2

from npu_precision import _marks, _tf_compat
from npu_precision.accuracy import chosen_outputs, session_state
from npu_precision.accuracy.session_state import State
from npu_precision.offline import empty_variables, model_file, run_optimizer
from npu_precision.offline.model_file import Model
from npu_precision.offline.reachable import keep_called_functions, needed_nodes
from npu_precision.offline.tensor_names import flat_tensor

_CALLS = re.compile(r"(?:(?:Func/)?(?:Stateful)?PartitionedCall(?:_\d+)?/)+(?=.)")
_INPUT = re.compile(r"(\^?)([^:]+)((?::\d+)?)")
_PLACEHOLDERS = ("Placeholder", "PlaceholderV2", "PlaceholderWithDefault")
_Value = TypeVar("_Value")


@dataclasses.dataclass(frozen=True)
class Input:
    """An input of a model.

    Attributes:
        tensor: its tensor, as "x:0".
        dtype: its dtype.
        shape: its shape.
        required: whether it has no default.
    """

    tensor: str
    dtype: tf.DType
    shape: tf.TensorShape
    required: bool


@dataclasses.dataclass(frozen=True)
class Inputs:
    """The inputs of a model.

    Attributes:
        inputs: the inputs, by their names in the signature, or else the placeholders' names.
    """

    inputs: dict[str, Input]


@dataclasses.dataclass(frozen=True)
class FrozenModel(Inputs):
    """A model without functions and variables.

    Attributes:
        graph_def: the graph.
        outputs: the nodes to compute.
        output_names: the output tensors, by their names in the signature.
        origins: by node, its name in the graph or function that it comes from. Only nodes that are
            unchanged are in it, so no variable that became a constant.
        states: lookup tables, and variables that the graph writes. Each session has to fill them
            before it runs the graph.
        left_out: the outputs of the signature that need a lookup table whose content is not known.
    """

    graph_def: graph_pb2.GraphDef
    outputs: tuple[str, ...]
    output_names: dict[str, str]
    origins: dict[str, str]
    states: tuple[State, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def unnamed_outputs(self) -> set[str]:
        """The output nodes that no signature names; all outputs of these are outputs of the model.

        Nodes that a signature names may have further outputs that are not.
        """
        named = {flat_tensor(tensor, {})[0] for tensor in self.output_names.values()}
        return set(self.outputs) - named

    def fed(self, feed: Mapping[str, _Value]) -> dict[str, _Value]:
        """The values of a feed that the graph reads, by tensor."""
        nodes = {node.name for node in self.graph_def.node}
        return {tensor: feed[tensor] for tensor in feed if tensor.rpartition(":")[0] in nodes}


def freeze(model: Model) -> FrozenModel:
    """Freezes the part of a model that its roots depend on, with the values of its variables.

    Outputs of a signature that need a table whose content is not known are left out, if others do
    not.

    Raises:
        ValueError: its variables have no values, it has no outputs, it needs a table for what was
            asked for, or TensorFlow cannot freeze it (1.15, if a loop reads a variable).
    """
    _check(model)
    outputs, names = roots(model), output_names(model)
    graph = tf.Graph()
    with graph.as_default(), tf.compat.v1.Session(graph=graph) as session:
        load(model, session)
        whole = graph.as_graph_def()
        flat = run_optimizer.inlined(whole, outputs)
        tables = {node.name for node in flat.node if session_state.is_table(node)}
        states = session_state.read(session, tables)
        outputs, names, left_out = chosen_outputs.choose(
            flat, outputs, names, tables - set(states), bool(model.outputs), model.path
        )
        util = tf.compat.v1.graph_util
        needed = graph_pb2.GraphDef(node=needed_nodes(flat, outputs))
        written = session_state.written_variables(needed)
        try:
            graph_def = util.convert_variables_to_constants(
                session, flat, list(outputs), variable_names_blacklist=sorted(written)
            )
        except tf.errors.FailedPreconditionError as error:
            raise ValueError(
                f"{model.path!r} has variables without values: use its checkpoint or a SavedModel"
            ) from error
        states.update(session_state.read(session, written))
    # Inlining leaves an Identity for each argument and result of a call.
    library = graph_def.library
    graph_def = util.remove_training_nodes(graph_def, list(outputs))
    # TensorFlow 2.12 also keeps what saves the variables.
    graph_def = graph_pb2.GraphDef(node=needed_nodes(graph_def, outputs), library=library)
    _name_as_in_functions(graph_def, {node.name for node in whole.node})
    keep_called_functions(graph_def)
    needed_states = session_state.needed_by(graph_def, states)
    try:
        with tf.Graph().as_default():
            tf.import_graph_def(graph_def, name="")
    except ValueError as error:
        raise ValueError(
            f"TensorFlow {tf.__version__} cannot make constants of {model.path!r}'s variables; "
            f"what updates them cannot be asked for (--fetch asks for less): {error}"
        ) from error
    origins = _origins(model, graph_def)
    _remove_copies(graph_def, {*origins, *outputs})
    _keep_results(graph_def, set(outputs) - set(origins))
    origins = {node.name: origins[node.name] for node in graph_def.node if node.name in origins}
    inputs = inputs_of(model).inputs  # Those of a conversion too, although not all may be read.
    return FrozenModel(inputs, graph_def, outputs, names, origins, needed_states, left_out)


def roots(model: Model) -> tuple[str, ...]:
    """The nodes to compute.

    Raises:
        ValueError: the model does not name them, or has several signatures.
    """
    _check_signature(model)
    return tuple(dict.fromkeys(model.roots or _float_fetches(model)))


def inputs_of(model: Model) -> Inputs:
    """The inputs that the model's roots depend on, as tensors of the model itself."""
    graph_def = model.meta_graph.graph_def
    needed = graph_pb2.GraphDef(node=needed_nodes(graph_def, roots(model)))
    return Inputs(_inputs(model, needed))


def _float_fetches(model: Model) -> list[str]:
    """The default outputs of a model without a signature: float nodes without consumers."""
    nodes = {node.name: node for node in model.meta_graph.graph_def.node}
    found = [name for name in model.fetches if _yields_float(nodes[name])]
    if model.kind == model_file.SAVED_MODEL:
        raise ValueError(
            f"{model.path!r} has no signature, so nobody knows what to run: save it with "
            "tf.saved_model.save(..., signatures=...)"
        )
    if not found:
        raise ValueError(f"{model.path!r} does not say what is asked for: name it with --fetch")
    return found


def _yields_float(node: node_def_pb2.NodeDef) -> bool:
    definition = _tf_compat.op_definition(node.op)
    if definition is None:
        return False
    for output in definition.output_arg:
        dtype = output.type
        for attribute in definition.attr:
            if attribute.name == output.type_attr:
                given = attribute.name in node.attr
                dtype = (node.attr[attribute.name] if given else attribute.default_value).type
        if dtype == tf.float32.as_datatype_enum:
            return True
    return False


def _check_signature(model: Model) -> None:
    names = model_file.signature_names(model.meta_graph)
    if not model.signature and not model.fetches and len(names) > 1:
        raise ValueError(
            f"{model.path!r} has several signatures, and none is {model_file.DEFAULT_SIGNATURE!r}: "
            f"name one with --signature: {', '.join(names)}"
        )


def _check(model: Model) -> None:
    library = model.meta_graph.graph_def.library.function
    bodies = [model.meta_graph.graph_def.node, *(function.node_def for function in library)]
    for node in itertools.chain.from_iterable(bodies):
        if _marks.INSERTED in node.attr:
            raise ValueError(
                f"{model.path!r} was lowered already ({node.name!r} was inserted): use the model "
                "that it was made of"
            )


def load(model: Model, session: tf.compat.v1.Session) -> None:
    """Loads a model into a session and its graph, with the values of its variables, if it has any.

    Raises:
        ValueError: TensorFlow cannot read the variables.
    """
    try:
        _load(model, session)
    except tf.errors.OpError as error:
        raise ValueError(
            f"TensorFlow cannot read the variables of {model.path!r}: {error.message}"
        ) from error


def _load(model: Model, session: tf.compat.v1.Session) -> None:
    path = pathlib.Path(model.path)
    # A copy, because TensorFlow writes attributes into the graph that it imports.
    meta_graph = meta_graph_pb2.MetaGraphDef.FromString(model.meta_graph.SerializeToString())
    if model.kind == model_file.SAVED_MODEL:
        tags = sorted(model.meta_graph.meta_info_def.tags)
        tf.compat.v1.saved_model.load(session, tags, str(model.folder))
        empty_variables.fill(model.meta_graph, model.folder, session)
        return
    if model.kind == model_file.META_GRAPH:
        saver = _tf_compat.tf1.train.import_meta_graph(meta_graph)
        checkpoint = path.with_suffix("")
        if saver is not None and tf.compat.v1.train.checkpoint_exists(str(checkpoint)):
            saver.restore(session, str(checkpoint))
        return
    tf.compat.v1.import_graph_def(meta_graph.graph_def, name="")


def _name_as_in_functions(graph_def: graph_pb2.GraphDef, kept: set[str]) -> None:
    """Removes the prefix of the call from the names of inlined nodes, unless the name is taken.

    The rest is the name in the function, and so in the ledgers of conversions.
    """
    taken = {node.name for node in graph_def.node}
    renamed = {}
    for node in graph_def.node:
        name = _CALLS.sub("", node.name)
        if node.name not in kept and name not in taken:
            taken.add(name)
            renamed[node.name] = name
    for node in graph_def.node:
        node.name = renamed.get(node.name, node.name)
        node.attr.pop("_class", None)
        node.device = ""  # The device may not exist on this machine.
        for number, tensor in enumerate(node.input):
            node.input[number] = _INPUT.sub(
                lambda parts: parts[1] + renamed.get(parts[2], parts[2]) + parts[3], tensor
            )


def _origins(model: Model, graph_def: graph_pb2.GraphDef) -> dict[str, str]:
    """The names of nodes in their graph or function, without the prefix of inlined calls."""
    whole = model.meta_graph.graph_def
    ops: dict[str, set[str]] = collections.defaultdict(set)
    for nodes in (whole.node, *(function.node_def for function in whole.library.function)):
        for node in nodes:
            ops[node.name].add(node.op)
    origins = {}
    for node in graph_def.node:
        parts = node.name.split("/")
        names = ("/".join(parts[start:]) for start in range(len(parts)))
        origin = next((name for name in names if name in ops), None)
        if origin is not None and node.op in ops[origin]:
            origins[node.name] = origin
    return origins


def _remove_copies(graph_def: graph_pb2.GraphDef, known: set[str]) -> None:
    """Removes the Identity nodes that inlining adds for arguments, and freezing for variables.

    They are not nodes of the model: there, a variable read is never lowered, and a call rounds
    nothing. Their control inputs are the other arguments of the call, so they can go too. An
    Identity with control outputs stays, because it may be the pivot of a branch, unless its source
    is a constant.
    """
    copies = {
        node.name: node.input[0]
        for node in graph_def.node
        if node.op == "Identity"
        and node.name not in known
        and known.isdisjoint(name[1:] for name in node.input[1:])
    }
    constants = {node.name for node in graph_def.node if node.op == "Const"}
    control_sources = {name[1:] for node in graph_def.node for name in node.input if name[0] == "^"}
    sources = {
        name: source
        for name, source in copies.items()
        if name not in control_sources or _source(source, copies) in constants
    }
    kept = [node for node in graph_def.node if node.name not in sources]
    for node in kept:
        for number, tensor in enumerate(node.input):
            node.input[number] = _source(tensor, sources)
    result = graph_pb2.GraphDef(node=kept, versions=graph_def.versions, library=graph_def.library)
    graph_def.CopyFrom(result)


def _keep_results(graph_def: graph_pb2.GraphDef, results: set[str]) -> None:
    """Keeps the results of calls in float32, as they are in the model."""
    for node in graph_def.node:
        if node.name in results:
            node.attr[_marks.KEEP_DTYPE].i = 1


def _source(tensor: str, sources: dict[str, str]) -> str:
    is_control = tensor.startswith("^")
    name = tensor.lstrip("^")
    while name.partition(":")[0] in sources:
        name = sources[name.partition(":")[0]]
    return f"^{name.partition(':')[0]}" if is_control else name


def _inputs(model: Model, graph_def: graph_pb2.GraphDef) -> dict[str, Input]:
    fed = {
        node.name: Input(
            f"{node.name}:0",
            tf.as_dtype(node.attr["dtype"].type),
            tf.TensorShape(node.attr["shape"].shape if "shape" in node.attr else None),
            node.op != "PlaceholderWithDefault",
        )
        for node in graph_def.node
        if node.op in _PLACEHOLDERS
    }
    names = {}
    if model.signature:
        signature = model.meta_graph.signature_def[model.signature]
        names = {flat_tensor(info.name, {})[0]: name for name, info in signature.inputs.items()}
    return {names.get(node, node): value for node, value in fed.items()}


def output_names(model: Model) -> dict[str, str]:
    """The output tensors of its signature that are asked for, by their names there."""
    if not model.signature:
        return {}
    outputs = model.meta_graph.signature_def[model.signature].outputs
    asked = model.outputs or sorted(outputs)
    return {name: outputs[name].name for name in asked if outputs[name].name}
