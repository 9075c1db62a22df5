"""The ledger: the decision about each node of an optimized graph, and its reason."""

from __future__ import annotations

import copy
import dataclasses
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from npu_precision import _errors, _library
from npu_precision.counts import Counts, count

_PLACE = re.compile(r":\d+:\d+$")
_UNMATCHED_NODE = re.compile(r"'node:(.*)' matches no node of the graph$")


@dataclasses.dataclass(frozen=True)
class LedgerNode:
    """One float node.

    Attributes:
        name, op, device: as in the GraphDef.
        list: "white", "black", "gray" or "unlisted".
        listed_by: the source of that list entry.
        decision: "lowered", "raised" or "kept".
        reason: the reason of the decision, one of a fixed set of words.
        cause: the name of the node that the reason refers to, or "".
        why_listed: why the target's black list has the node's op, in words, if that list keeps it;
            else "".
        dtypes: by type attribute, its dtypes before and after, as ["float32", "float16"].
        computes_in: the dtype that a lowered node's kernel computes in: the low type, or "float32"
            on values rounded to it; "" for other nodes.
        range: the lowest and the highest value that its outputs may have for any input, each None
            if not known; None if neither is.
        flops: the additions and multiplications of a matrix or convolution op, for one sample if
            the batch size is not known; None for unknown shapes and for other ops.
        shapes: of each of its outputs, the sizes of its dimensions; None is an unknown size, or a
            shape of unknown rank. Empty in ledgers of earlier versions.
        lacks_kernel: whether it keeps float32 although the target has no such kernel.
        role: "computes", or what it does instead, for which it is counted apart: "source",
            "updates_variable" or "bookkeeping"; "" in ledgers of earlier versions.
    """

    name: str
    op: str
    device: str
    list: str
    listed_by: str
    decision: str
    reason: str
    cause: str
    dtypes: Mapping[str, Any]
    range: Sequence[float | None] | None = None
    lacks_kernel: bool = False
    computes_in: str = ""
    why_listed: str = ""
    flops: float | None = None
    role: str = ""
    shapes: Sequence[Sequence[int | None] | None] = ()

    @property
    def is_of_a_file(self) -> bool:
        """Whether an entry of a mixlist lists it: its place is FILE:LINE:COLUMN."""
        return _PLACE.search(self.listed_by) is not None

    @property
    def shown_list(self) -> str:
        """Its list, or "customized" if a line of customize_dtypes decided instead."""
        return self.reason if self.reason == "customized" else self.list

    @property
    def is_source(self) -> bool:
        """Whether it computes nothing: a constant, a variable, a variable read, or an argument."""
        return self.reason == "neutral_source"


@dataclasses.dataclass(frozen=True)
class LedgerCast:
    """One inserted Cast.

    Attributes:
        name: its name in the rewritten graph.
        input: the tensor it casts, as "conv1:0".
        from_dtype, to_dtype: "float32", "float16", "bfloat16".
        bytes: size of its output in bytes, None if its shape is not known.
        consumers: how many inputs read it.
    """

    name: str
    input: str
    from_dtype: str
    to_dtype: str
    bytes: int | None
    consumers: int


@dataclasses.dataclass(frozen=True)
class LedgerRewrite:
    """A change to a node that goes beyond its dtype.

    Attributes:
        by: the option that enables it, as "fold_batch_norms".
        node: the node's name.
        before, after: its state before and after, as "FusedBatchNormV3", "BiasAdd of conv1".
    """

    by: str
    node: str
    before: str
    after: str


@dataclasses.dataclass(frozen=True)
class MissedRewrite:
    """A form that a rewrite was looking for, but could not change.

    Attributes:
        by: the rewrite, as "trained_norms".
        node: the node's name.
        why: a clause, as "x is fetched".
    """

    by: str
    node: str
    why: str


@dataclasses.dataclass(frozen=True)
class LedgerCollective:
    """An all-reduce of float32 tensors, and what lower_collectives made of it.

    Attributes:
        name, op: as in the GraphDef.
        reason: "lowered", or why it was not; see docs/ledger.md.
        tensors: the number of tensors that it reduces: 1, or those of a pack.
        lowered: the number of those that are reduced in the low type.
        bytes_before, bytes_after: the bytes that a worker gives to the sum, in float32 and as it is
            now; None if a shape is unknown.
    """

    name: str
    op: str
    reason: str
    tensors: int
    lowered: int
    bytes_before: int | None
    bytes_after: int | None


@dataclasses.dataclass(frozen=True)
class LedgerMapping:
    """The TensorFlow op types for one of Ascend's names.

    Attributes:
        entry: the name, as "ReduceSumD".
        place: its place in the mixlist, as "FILE:LINE:COLUMN".
        ops: TensorFlow's op types; empty if it has none.
    """

    entry: str
    place: str
    ops: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Ledger:
    """The record of what the optimizer did to one graph, and to the functions in its library.

    Attributes:
        data: the ledger as in JSON, schema "npu_precision.ledger/1". If the ledger was returned by
            a function, "functions" holds the ledgers of the graph's functions.
    """

    data: Mapping[str, Any]

    @property
    def graph(self) -> str:
        """The name of the graph or function."""
        return self.data["graph"]

    @property
    def compiled(self) -> bool:
        """Whether XLA compiles this function."""
        return self.data.get("compiled", False)

    @property
    def options(self) -> dict[str, Any]:
        """The parameters in force."""
        return dict(self.data["options"])

    @property
    def nodes(self) -> tuple[LedgerNode, ...]:
        """The float nodes of this graph, without those in functions."""
        names = [field.name for field in dataclasses.fields(LedgerNode)]
        # A ledger of an earlier version lacks fields that have defaults.
        return tuple(
            LedgerNode(**{name: node[name] for name in names if name in node})
            for node in self.data["nodes"]
        )

    def node(self, name: str) -> LedgerNode:
        """The node of this name.

        Raises:
            KeyError: there is no float node of this name in this graph.
        """
        for node in self.nodes:
            if node.name == name:
                return node
        nodes = (node.name for ledger in self for node in ledger.nodes)
        raise KeyError(
            f"graph {self.graph!r} has no float node {name!r}{_errors.did_you_mean(name, nodes)}; "
            "a node may be in one of ledger.functions, or be fused into another"
        )

    @property
    def casts(self) -> tuple[LedgerCast, ...]:
        """The Casts inserted into this graph, without those in functions."""
        return tuple(
            LedgerCast(
                name=cast["name"],
                input=cast["input"],
                from_dtype=cast["from"],
                to_dtype=cast["to"],
                bytes=cast["bytes"],
                consumers=cast["consumers"],
            )
            for cast in self.data["casts"]
        )

    @property
    def rewrites(self) -> tuple[LedgerRewrite, ...]:
        """Changes to this graph beyond dtypes and Casts, without those in functions."""
        return tuple(LedgerRewrite(**entry) for entry in self.data["rewrites"])

    @property
    def missed(self) -> tuple[MissedRewrite, ...]:
        """What rewrites could not change in this graph, without functions, and why."""
        return tuple(MissedRewrite(**entry) for entry in self.data.get("missed", ()))

    @property
    def collectives(self) -> tuple[LedgerCollective, ...]:
        """With lower_collectives, the all-reduces of this graph, without those in functions."""
        return tuple(LedgerCollective(**entry) for entry in self.data.get("collectives", ()))

    @property
    def totals(self) -> dict[str, Any]:
        """Counts over this graph, without its functions: "float_nodes", "lowered", "casts", ...

        The float nodes are those that compute; "sources" are the others. See docs/ledger.md.
        """
        return dict(self.data["totals"])

    @property
    def mappings(self) -> tuple[LedgerMapping, ...]:
        """The TensorFlow op types for Ascend's names in the mixlist."""
        return tuple(
            LedgerMapping(entry["entry"], entry["place"], tuple(entry["ops"]))
            for entry in self.data["mappings"]
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about the options, one sentence each."""
        return tuple(self.data["warnings"])

    @property
    def unmatched(self) -> tuple[str, ...]:
        """The warnings about mixlist entries that match no node of this graph or its functions."""
        found = [part.data.get("unmatched") for part in self]
        lists = [lines for lines in found if lines is not None]
        return tuple(
            line for line in (lists[0] if lists else ()) if all(line in each for each in lists)
        )

    @property
    def all_warnings(self) -> tuple[str, ...]:
        """The warnings about this graph and its functions, each once.

        A mixlist entry that matches nothing in the graph may match in a function.
        """
        somewhere = {line for part in self for line in part.data.get("unmatched") or ()}
        unmatched = self.unmatched
        return tuple(
            f"{line}{self._near_node(line)}" if line in unmatched else line
            for line in dict.fromkeys(line for part in self for line in part.warnings)
            if line not in somewhere or line in unmatched
        )

    def _near_node(self, line: str) -> str:
        """The entry with a node's scopes, if a mixlist entry lacks them."""
        entry = _UNMATCHED_NODE.search(line)
        if entry is None:
            return ""
        end = f"/{entry[1]}"
        names = [node.name for part in self for node in part.nodes if node.name.endswith(end)]
        return f"; did you mean 'node:{names[0]}'?" if names else ""

    @property
    def functions(self) -> tuple[Ledger, ...]:
        """The ledgers of the functions in the graph's library."""
        return tuple(Ledger(function) for function in self.data.get("functions", ()))

    def total(self, name: str) -> int:
        """Sums one of the totals over this graph and its functions."""
        return sum(ledger.data["totals"][name] for ledger in self)

    @property
    def counts(self) -> Counts:
        """The counts over this graph and its functions, and the sentence that says them."""
        return count_ledgers((self,))

    def __iter__(self) -> Iterator[Ledger]:
        """Iterates over this ledger and those of its functions."""
        yield self
        yield from self.functions

    def to_dict(self) -> dict[str, Any]:
        """A copy of data."""
        return copy.deepcopy(dict(self.data))

    def to_json(self) -> str:
        """The ledger as JSON."""
        return json.dumps(dict(self.data), indent=1)

    @classmethod
    def from_json(cls, text: str) -> Ledger:
        """The reverse of to_json; also reads the files in report_dir.

        Raises:
            ValueError: not a ledger.
        """
        data = json.loads(text)
        schema = data.get("schema") if isinstance(data, dict) else None
        expected = _library.describe()["ledger_schema"]
        if schema != expected:
            raise ValueError(f"got schema {schema!r}, expected {expected!r}")
        return cls(data)

    def __str__(self) -> str:
        name = f"{self.graph} (compiled by XLA)" if self.compiled else self.graph
        return f"{name}: {self.counts.sentence}"


def count_ledgers(ledgers: Iterable[Ledger]) -> Counts:
    """The counts over several graphs and their functions."""
    parts = [part for ledger in ledgers for part in ledger]
    return count(
        *(
            [entry for part in parts for entry in getattr(part, name)]
            for name in ("nodes", "casts", "rewrites", "collectives")
        )
    )
