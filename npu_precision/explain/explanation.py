"""Sums up the decisions about a model: by op type, by Cast, and by node that keeps others."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Iterator, Mapping

from tensorflow.core.framework import function_pb2, node_def_pb2

from npu_precision.counts import Counts, count
from npu_precision.explain import reasons
from npu_precision.ledger import (
    Ledger,
    LedgerCast,
    LedgerCollective,
    LedgerNode,
    LedgerRewrite,
    MissedRewrite,
)
from npu_precision.offline import run_optimizer
from npu_precision.offline.model_file import SAVED_MODEL, Model
from npu_precision.offline.reachable import called_functions, needed_nodes
from npu_precision.options import PrecisionOptions

MAIN_GRAPH = ""
# The graphs that counts may be of: the same model has other nodes in each.
AS_IT_IS = "the model as it is"
TRAINING_STEP = "the training step"
THAT_RAN = "the graph that ran"
FROZEN = "the frozen graph, functions inlined, variables as constants"
SAVED = "all that is saved"


@dataclasses.dataclass(frozen=True)
class Body:
    """The part of the graph, or of a function's body, that is shown.

    Attributes:
        name: the function's name; MAIN_GRAPH for the graph itself.
        definitions: its nodes by name, before the rewrite, without a function's arguments.
        nodes: the ledger's entries of its float nodes, by name, in the graph's order.
        casts: the Casts inserted into it.
        rewritten: its nodes by name, after the rewrite.
        rewrites: its changes besides dtypes and Casts.
        arguments: the names of the arguments, for a function.
        collectives: its all-reduces, with lower_collectives.
        returns: the tensors of the results by their names, for a function.
        rewritten_returns: the same, after the rewrite.
        missed: what rewrites could not change in it.
    """

    name: str
    definitions: dict[str, node_def_pb2.NodeDef]
    nodes: dict[str, LedgerNode]
    casts: tuple[LedgerCast, ...]
    rewritten: dict[str, node_def_pb2.NodeDef]
    rewrites: tuple[LedgerRewrite, ...] = ()
    collectives: tuple[LedgerCollective, ...] = ()
    arguments: tuple[str, ...] = ()
    returns: Mapping[str, str] = dataclasses.field(default_factory=dict)
    rewritten_returns: Mapping[str, str] = dataclasses.field(default_factory=dict)
    missed: tuple[MissedRewrite, ...] = ()

    def followed(self, node: LedgerNode) -> LedgerNode | None:
        """The node whose decision this node follows, or None if it has a reason of its own."""
        return self.nodes.get(node.cause) if node.reason in reasons.FOLLOWS else None

    def shares_dtype_of(self, node: LedgerNode) -> LedgerNode:
        """The node that decides for all nodes that share this node's dtype."""
        seen = set()
        while node.reason == "shares_dtype" and node.cause in self.nodes and node.name not in seen:
            seen.add(node.name)
            node = self.nodes[node.cause]
        return node

    def chain(self, name: str) -> list[LedgerNode]:
        """The node, the node that it follows, and so on to the first with a reason of its own."""
        chain: dict[str, LedgerNode] = {}
        node: LedgerNode | None = self.nodes[name]
        while node is not None and node.name not in chain:
            chain[node.name] = node
            node = self.followed(node)
        return list(chain.values())

    def deciders(self) -> dict[str, LedgerNode]:
        """The last node of each node's chain, by name; visits shared parts of chains once."""
        found: dict[str, LedgerNode] = {}
        in_circles: set[str] = set()  # On or before a cycle: the ends of such chains differ.
        for name in self.nodes:
            path: dict[str, LedgerNode] = {}
            node: LedgerNode | None = self.nodes[name]
            while node is not None and node.name not in path and node.name not in found:
                path[node.name] = node
                node = self.followed(node)
            if node is None:
                found.update(dict.fromkeys(path, list(path.values())[-1]))
            elif node.name in path or node.name in in_circles:
                in_circles.update(path)
                found[name] = self.chain(name)[-1]
            else:
                found.update(dict.fromkeys(path, found[node.name]))
        return found

    def casts_at(self, name: str) -> tuple[LedgerCast, ...]:
        """The Casts among the producers and consumers of a node."""
        now = self.rewritten.get(name + run_optimizer.RENAMED, self.rewritten.get(name))
        read = {tensor.partition(":")[0] for tensor in (now.input if now is not None else ())}
        return tuple(
            cast
            for cast in self.casts
            if cast.name in read or cast_tensor(cast).rpartition(":")[0] == name
        )


def cast_tensor(cast: LedgerCast) -> str:
    """The tensor that a Cast reads, by its name in the model.

    A Cast after a fetched node takes over the name of that node, which is renamed.
    """
    node, _, number = cast.input.rpartition(":")
    if node.endswith(run_optimizer.RENAMED):
        node = node[: -len(run_optimizer.RENAMED)]
    return f"{node}:{number}"


@dataclasses.dataclass(frozen=True)
class OpSummary:
    """All float nodes of one op type.

    Attributes:
        op: the op type.
        nodes, lowered, raised, kept: the number of nodes, in all and by decision.
        lists: how many nodes are on each list.
        reasons: how many of the kept nodes have each reason.
    """

    op: str
    nodes: int
    lowered: int
    raised: int
    kept: int
    lists: dict[str, int]
    reasons: dict[str, int]


@dataclasses.dataclass(frozen=True)
class Blocker:
    """A kept node that keeps others in float32.

    Attributes:
        body: the function it is in, or MAIN_GRAPH.
        node: the node.
        followers: names of the gray nodes that are kept because of it, directly or through others.
    """

    body: str
    node: LedgerNode
    followers: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Explanation:
    """The decisions about a model under some options, and their reasons.

    Attributes:
        options: the options, as they were given to the optimizer.
        bodies: the graph and the functions it calls, without nodes that the model's roots do not
            need.
        warnings: warnings about the options.
        mappings: TensorFlow's op types for Ascend's names in the mixlist: (place, name, op types).
        counted: the graph that the counts are of, in words.
    """

    options: PrecisionOptions
    bodies: tuple[Body, ...]
    warnings: tuple[str, ...]
    mappings: tuple[tuple[str, str, tuple[str, ...]], ...]
    counted: str = AS_IT_IS

    def nodes(self) -> Iterator[tuple[Body, LedgerNode]]:
        """The float nodes, each with its body."""
        return ((body, node) for body in self.bodies for node in body.nodes.values())

    def casts(self) -> Iterator[tuple[Body, LedgerCast]]:
        """The inserted Casts, each with its body."""
        return ((body, cast) for body in self.bodies for cast in body.casts)

    def missed(self) -> Iterator[tuple[Body, MissedRewrite]]:
        """What rewrites could not change."""
        return ((body, missed) for body in self.bodies for missed in body.missed)

    def counts(self) -> Counts:
        """The counts over all bodies, and the sentence that says them."""
        return count(
            [node for _, node in self.nodes()],
            [cast for _, cast in self.casts()],
            [rewrite for body in self.bodies for rewrite in body.rewrites],
            [collective for body in self.bodies for collective in body.collectives],
        )

    def counted_sentence(self) -> str:
        """The counts in words, after the graph that they are of."""
        return f"{self.counted}: {self.counts().sentence}"

    def by_op(self) -> list[OpSummary]:
        """A summary of each op type, those with most nodes first."""
        groups: dict[str, list[LedgerNode]] = collections.defaultdict(list)
        for _, node in self.nodes():
            groups[node.op].append(node)
        summaries = [_summary(op, nodes) for op, nodes in groups.items()]
        return sorted(summaries, key=lambda summary: (-summary.nodes, summary.op))

    def blockers(self) -> list[Blocker]:
        """The nodes that keep gray ones in float32, those with most followers first."""
        blockers = []
        for body in self.bodies:
            followers: dict[str, list[str]] = collections.defaultdict(list)
            deciders = body.deciders()
            for node in body.nodes.values():
                if node.decision == "kept" and node.reason in reasons.FOLLOWS:
                    followers[deciders[node.name].name].append(node.name)
            blockers += [
                Blocker(body.name, body.nodes[name], tuple(kept))
                for name, kept in followers.items()
                if body.nodes[name].decision == "kept"
            ]
        return sorted(blockers, key=lambda blocker: -len(blocker.followers))


def explain(model: Model, options: PrecisionOptions) -> Explanation:
    """Runs the optimizer on a model and sums up its decisions.

    Raises:
        ValueError: the optimizer refuses options or model.
    """
    meta_graph, ledger = model.rewrite(options)
    before, after = model.meta_graph.graph_def, meta_graph.graph_def
    shown = needed_nodes(before, model.shown_roots)
    bodies = [_graph(shown, needed_nodes(after, model.shown_roots), ledger)]
    library = {function.signature.name: function for function in before.library.function}
    rewritten = {function.signature.name: function for function in after.library.function}
    functions = {part.graph: part for part in ledger.functions}
    # A SavedModel without signatures does not say which functions are called.
    is_library = model.kind == SAVED_MODEL and not model.roots
    called = list(library) if is_library else called_functions(shown, library)
    bodies += [
        _function(library[name], rewritten[name], functions[name])
        for name in called
        if name in functions
    ]
    return Explanation(
        options,
        tuple(bodies),
        ledger.all_warnings,
        tuple((entry.place, entry.entry, entry.ops) for entry in ledger.mappings),
        AS_IT_IS if model.shown_roots == model.roots else TRAINING_STEP,
    )


def _graph(
    before: Iterable[node_def_pb2.NodeDef], after: Iterable[node_def_pb2.NodeDef], ledger: Ledger
) -> Body:
    """The part of the main graph that is shown."""
    definitions, rewritten = _by_name(before), _by_name(after)
    return Body(
        MAIN_GRAPH,
        definitions,
        {node.name: node for node in ledger.nodes if node.name in definitions},
        tuple(cast for cast in ledger.casts if cast.name in rewritten),
        rewritten,
        tuple(entry for entry in ledger.rewrites if entry.node in definitions),
        tuple(entry for entry in ledger.collectives if entry.name in definitions),
        missed=tuple(entry for entry in ledger.missed if entry.node in definitions),
    )


def _function(
    before: function_pb2.FunctionDef, after: function_pb2.FunctionDef, ledger: Ledger
) -> Body:
    return Body(
        before.signature.name,
        _by_name(before.node_def),
        {node.name: node for node in ledger.nodes},
        ledger.casts,
        _by_name(after.node_def),
        ledger.rewrites,
        ledger.collectives,
        tuple(argument.name for argument in before.signature.input_arg),
        {result.name: before.ret[result.name] for result in before.signature.output_arg},
        {result.name: after.ret[result.name] for result in before.signature.output_arg},
        ledger.missed,
    )


def _by_name(nodes: Iterable[node_def_pb2.NodeDef]) -> dict[str, node_def_pb2.NodeDef]:
    return {node.name: node for node in nodes}


def _summary(op: str, nodes: list[LedgerNode]) -> OpSummary:
    decisions = collections.Counter(node.decision for node in nodes)
    return OpSummary(
        op=op,
        nodes=len(nodes),
        lowered=decisions["lowered"],
        raised=decisions["raised"],
        kept=decisions["kept"],
        lists=dict(collections.Counter(node.shown_list for node in nodes)),
        reasons=dict(
            collections.Counter(
                node.reason for node in nodes if node.decision == "kept"
            ).most_common()
        ),
    )
