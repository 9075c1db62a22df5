"""Compares a rewritten GraphDef with the original, and checks the rules of a rewrite.

A rewritten graph is the original with other dtypes and with Casts. So each original node has one
counterpart, and each input of a counterpart leads back to an original tensor.
"""

from __future__ import annotations

import collections
import dataclasses

import numpy as np
import tensorflow as tf

from support import node_dtypes
from support.check_ledger import CAST_MARK, INHERITED_MARKS, MARK
from support.function_bodies import body_graphs, is_result
from support.loop_carriers import canonical, carried_from, enter_of, node_of
from support.strict_zip import strict_zip

LOW = (tf.float16, tf.bfloat16)
CHANGING = (tf.float32, *LOW)
MATRIX_OPS = {
    "MatMul",
    "BatchMatMulV2",
    "Einsum",
    "Conv2D",
    "Conv2DBackpropInput",
    "DepthwiseConv2dNative",
}


def is_inserted(node):
    return CAST_MARK in node.attr


def is_inserted_cast(node):
    return node.op == "Cast" and is_inserted(node)


def dtype_attr(node, name):
    return tf.as_dtype(node.attr[name].type)


def type_attributes(node):
    """The node's type attributes, each as the list of its dtypes."""
    return {
        name: [tf.as_dtype(dtype) for dtype in dtypes]
        for name, dtypes in node_dtypes.type_attributes(node).items()
    }


@dataclasses.dataclass(frozen=True)
class Edge:
    """One data input of a node, in the rewritten graph.

    Attributes:
        source: the original tensor it comes from, None for a constant stored in a low type.
        constant: the values of that constant, or None.
        dtypes: the dtypes that the inserted Casts on the way convert to, in order.
        carriers: (NodeDef, output port) of the nodes that carry a Cast's result into a loop,
            innermost first.
    """

    source: str | None
    constant: np.ndarray | None
    dtypes: tuple[tf.DType, ...]
    carriers: tuple = ()


class RewrittenGraph:
    """A rewritten graph next to its original.

    Attributes:
        originals: original node by name.
        counterparts: rewritten node by the original's name; a Const and its Identity may be gone.
        edges: the Edges of each counterpart's data inputs, by the original's name.
        functions: the RewrittenGraph of each function's body, by its name; "" is this one.
    """

    def __init__(self, original, rewritten):
        self.functions = {"": self}
        libraries = original.library, rewritten.library
        bodies = [body_graphs(library) for library in libraries]
        self._signatures = [
            {function.signature.name: function.signature for function in library.function}
            for library in libraries
        ]
        for name in bodies[0].keys() & bodies[1].keys():
            self.functions[name] = RewrittenGraph(*(found[name] for found in bodies))
        self.originals = {node.name: node for node in original.node}
        self.results = {node.name: node for node in rewritten.node}
        self.counterparts = {}
        self._original_names = {}
        for name in self.originals:
            node = self.results.get(name)
            # A Cast after a changed preserved node takes over its name.
            while node is not None and is_inserted_cast(node):
                node = self.results[node_of(node.input[0])]
            if node is not None:
                self.counterparts[name] = node
                self._original_names[node.name] = name
        self.edges = {
            name: [self._edge(tensor) for tensor in node.input if tensor[0] != "^"]
            for name, node in self.counterparts.items()
        }

    def _edge(self, tensor):
        dtypes, carriers = [], []
        node = self.results[node_of(tensor)]
        while is_inserted(node):
            if node.op == "Cast":
                dtypes.insert(0, dtype_attr(node, "DstT"))
            else:
                carriers.append((node, canonical(tensor).partition(":")[2]))
            tensor = node.input[0]
            node = self.results[node_of(tensor)]
        name = self._original_names.get(node.name)
        if name is None:
            dtypes.insert(0, dtype_attr(node, "dtype"))
            value = tf.make_ndarray(node.attr["value"].tensor)
            return Edge(None, value, tuple(dtypes), tuple(carriers))
        source = canonical(tensor).replace(node.name, name, 1)
        return Edge(source, None, tuple(dtypes), tuple(carriers))

    def rounds_of_fetched(self, name):
        """The dtypes of the Casts behind which a fetched node yields its value, in order."""
        dtypes = []
        node = self.results.get(name)  # A constant may be gone.
        while node is not None and is_inserted_cast(node):
            dtypes.insert(0, dtype_attr(node, "DstT"))
            node = self.results.get(node_of(node.input[0]))
        return tuple(dtypes)

    def violations(self, fetches, rounds_for=frozenset()):
        """The violated rules of a rewrite, one sentence each.

        Args:
            fetches: names of the tensors that the rewrite had to preserve.
            rounds_for: the op types for which it may round a tensor, or None for all.
        """
        found = [*self._missing(fetches), *self._too_many_casts(), *self._wrong_pairs(rounds_for)]
        if rounds_for is not None:  # With rounds_for None, Casts may round in a loop.
            found += self._casts_in_every_iteration()
        if self._signatures[0] != self._signatures[1]:
            found.append("the signatures of functions differ")
        for function in self.functions.keys() - {""}:
            body = self.functions[function]
            results = [name for name in body.originals if is_result(name)]
            found += [f"{function}: {what}" for what in body.violations(results, rounds_for)]
        for name in self.counterparts:
            found += [f"{name}: {what}" for what in self._differences(name)]
        return found

    def _missing(self, fetches):
        for fetch in fetches:
            if node_of(fetch) not in self.results:
                yield f"the fetched node {node_of(fetch)} is gone"
        for name, node in self.originals.items():
            if name not in self.counterparts and node.op not in ("Const", "Identity"):
                yield f"{name} ({node.op}) is gone"

    def _too_many_casts(self):
        ways = collections.Counter(
            (canonical(node.input[0]), dtype_attr(node, "DstT"))
            for node in self.results.values()
            if is_inserted_cast(node)
        )
        for (tensor, dtype), count in ways.items():
            if count > 1:
                yield f"{count} Casts of {tensor} to {dtype.name}"

    def _wrong_pairs(self, rounds_for):
        """Pairs of Casts that cancel, except those that round."""
        readers = self._readers()
        for cast in filter(is_inserted_cast, self.results.values()):
            before = self.results[node_of(cast.input[0])]
            if not is_inserted_cast(before):
                continue
            way = dtype_attr(before, "SrcT"), dtype_attr(cast, "SrcT"), dtype_attr(cast, "DstT")
            read_by = readers[cast.name]
            may_round = rounds_for is None or (read_by and read_by <= rounds_for)
            rounds = way[0] == tf.float32 and may_round
            if way[0] == way[2] and not rounds:
                yield f"{cast.name} casts {' -> '.join(dtype.name for dtype in way)}"

    def _readers(self):
        """The op types of a node's consumers, through nodes that carry its outputs into a loop."""
        readers = collections.defaultdict(list)
        for node in self.results.values():
            for tensor in node.input:
                readers[node_of(tensor)].append(node)

        def ops(name):
            brings = [node for node in readers[name] if is_inserted(node) and node.op != "Cast"]
            found = {node.op for node in readers[name] if node not in brings}
            return found.union(*(ops(node.name) for node in brings))

        return {name: ops(name) for name in self.results}

    def _casts_in_every_iteration(self):
        for cast in filter(is_inserted_cast, self.results.values()):
            if enter_of(self.results, cast.input[0]) is not None:
                yield f"{cast.name} converts the same tensor in every iteration"

    def _is_gone_constant(self, name):
        return name not in self.results and self.originals[name].op in ("Const", "Identity")

    def _differences(self, name):
        """How the counterpart differs from the original, apart from dtypes and Casts."""
        original, node = self.originals[name], self.counterparts[name]
        if (node.op, node.device) != (original.op, original.device):
            yield f"is {node.op} on {node.device!r}, was {original.op} on {original.device!r}"
            return
        types, original_types = type_attributes(node), type_attributes(original)
        inherited = INHERITED_MARKS - {*original.attr}
        for attribute in {*node.attr, *original.attr} - {MARK, *types} - inherited:
            if node.attr[attribute] != original.attr[attribute]:
                yield f"attribute {attribute} differs"
        for attribute, dtypes in types.items():
            for now, was in strict_zip(dtypes, original_types[attribute]):
                if now != was and not {now, was} <= set(CHANGING):
                    yield f"{attribute} is {now.name}, was {was.name}"
        controls = {tensor for tensor in original.input if tensor[0] == "^"}
        # Control dependencies on deleted constants are dropped.
        gone = {tensor for tensor in controls if self._is_gone_constant(tensor[1:])}
        if {tensor for tensor in node.input if tensor[0] == "^"} != controls - gone:
            yield "has other control inputs"
        inputs = [canonical(tensor) for tensor in original.input if tensor[0] != "^"]
        if len(inputs) != len(self.edges[name]):
            yield "has another number of inputs"
            return
        for index, (tensor, edge) in enumerate(strict_zip(inputs, self.edges[name])):
            if not self._comes_from(edge, tensor):
                yield f"input {index} is {edge.source}, was {tensor}"

    def _comes_from(self, edge, tensor):
        tensor = carried_from(self.originals, self.counterparts, tensor, edge.carriers)
        if tensor is None:
            return False
        if edge.source == tensor:
            return True
        node = self.originals[node_of(tensor)]
        if edge.source is None:
            while node.op == "Identity":
                node = self.originals[node_of(node.input[0])]
            if node.op != "Const":
                return False
            value = tf.make_ndarray(node.attr["value"].tensor)
            return np.array_equal(value.astype(edge.constant.dtype), edge.constant)
        # The original's own Cast widened a low type that the consumer needs: undoing it is exact.
        return (
            node.op == "Cast"
            and edge.source == canonical(node.input[0])
            and dtype_attr(node, "SrcT") in LOW
            and dtype_attr(node, "DstT") == tf.float32
        )
