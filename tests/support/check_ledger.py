"""check_ledger: checks that a ledger is consistent and agrees with the rewritten graph."""

import collections
import re

from support.node_dtypes import attributes, dtype_name, type_attributes
from support.text_graph import tensor_name

# An attribute that only the optimizer writes.
MARK = "_npu_precision"
ROLES = ("computes", "source", "updates_variable", "bookkeeping")
AUTOCAST_MARK = "_npu_precision_autocast"
LIST_MARK = "_npu_precision_list"
# A node without these marks gets those of the node that it belongs to.
INHERITED_MARKS = {AUTOCAST_MARK, LIST_MARK}
CAST_MARK = "_npu_precision_cast"
IN_FLOAT32_MARK = "_npu_precision_in_float32"
_RENAMED = re.compile(r"/npu_changed(_\d+)?$")
_REASONS_WITH_A_CAUSE = {
    "gray_follows_lowered",
    "gray_follows_kept",
    "gray_follows_consumers",
    "small_operand",
    "shares_dtype",
    "guard_constant",
    "counting_constant",
    "large_offset",
    "carries_value",
    "updates_value",
    "before_magnifier",
    "follows_forward",
}
# The value that leaves the range is an input, which is the cause, or the node's own.
_REASONS_THAT_MAY_HAVE_A_CAUSE = {"leaves_range"}


def check_totals(ledger, after):
    """Asserts that the totals are those of the ledger's nodes and of the graph's Casts."""
    totals = ledger.totals
    assert totals["nodes"] == len(after.node)
    computing = [node for node in ledger.nodes if node.role == "computes"]
    assert totals["float_nodes"] == len(computing)
    roles = collections.Counter(node.role for node in ledger.nodes)
    assert totals["sources"] == roles["source"]
    assert totals["variable_updates"] == roles["updates_variable"]
    assert totals["bookkeeping"] == roles["bookkeeping"]
    assert sum(roles.values()) == sum(roles[each] for each in ROLES)
    assert all(node.role == "source" for node in ledger.nodes if node.is_source)
    decisions = collections.Counter(node.decision for node in computing)
    assert {name: totals[name] for name in ("lowered", "raised", "kept")} == {
        name: decisions[name] for name in ("lowered", "raised", "kept")
    }
    assert totals["by_list"] == collections.Counter(node.list for node in ledger.nodes)
    assert totals["by_reason"] == collections.Counter(node.reason for node in ledger.nodes)

    readers = collections.Counter(name for node in after.node for name in node.input)
    casts = {node.name: node for node in after.node if node.op == "Cast" and CAST_MARK in node.attr}
    assert totals["casts"] == len(casts) == len(ledger.casts)
    for entry in ledger.casts:
        cast = casts[entry.name]
        assert entry.from_dtype == dtype_name(cast.attr["SrcT"].type)
        assert entry.to_dtype == dtype_name(cast.attr["DstT"].type)
        assert entry.input == "{}:{}".format(*tensor_name(cast.input[0]))
        assert entry.consumers == readers[entry.name]
    sizes = [entry.bytes for entry in ledger.casts]
    assert totals["cast_bytes"] == (None if None in sizes else sum(sizes))


def check_nodes(ledger, before, after):
    """Asserts that each node's dtypes are those in the graphs, and agree with its decision."""
    nodes = {node.name: node for node in after.node}
    originals = {node.name: node for node in before.node}
    for entry in ledger.nodes:
        now = behind_its_name(entry.name, nodes, originals)
        original = originals.get(entry.name) or originals[_RENAMED.sub("", entry.name)]
        dtypes = entry.dtypes
        if (entry.op, original.op) == ("Placeholder", "_Arg"):
            # To optimizers, TensorFlow 1.15 presents the arguments of a function as placeholders.
            dtypes = {"T": dtypes["dtype"]}
        assert {name: was for name, (was, _) in dtypes.items()} == _dtypes(original), entry
        decided = {**_dtypes(now), **dict.fromkeys(_in_float32(now), "float16")}
        assert {name: is_now for name, (_, is_now) in dtypes.items()} == decided, entry
        changed = _dtypes(original) != decided
        lowered_to = {is_now for was, is_now in dtypes.values() if was != is_now}
        computes_in = {"float32"} if _in_float32(now) else lowered_to
        assert {entry.computes_in} == (computes_in if entry.decision == "lowered" else {""}), entry
        assert changed == (entry.decision in ("lowered", "raised")), entry
        assert MARK in now.attr or not changed, f"{entry} is not marked"
        if entry.reason not in _REASONS_THAT_MAY_HAVE_A_CAUSE:
            assert (entry.reason in _REASONS_WITH_A_CAUSE) == bool(entry.cause), entry
        assert not entry.cause or entry.cause in nodes, entry


def behind_its_name(name, nodes, originals):
    """The node that had a name before a Cast took over that name."""
    node = nodes[name]
    if CAST_MARK not in node.attr or CAST_MARK in originals[name].attr:
        return node
    while CAST_MARK in node.attr:  # one Cast, or two where the value is rounded
        node = nodes[node.input[0]]
    return node


def _in_float32(node):
    """The ledger's names of the type attributes that are float32 instead of float16."""
    names = node.attr[IN_FLOAT32_MARK].s.decode() if IN_FLOAT32_MARK in node.attr else ""
    return names.split(",") if names else []


def _dtypes(node):
    """The dtypes of a node by the ledger's names of type attributes: "T", "T[0]"."""
    lists = {a.name for a in attributes(node) if a.type == "list(type)"}
    return {
        f"{name}[{index}]" if name in lists else name: dtype_name(dtype)
        for name, dtypes in type_attributes(node).items()
        for index, dtype in enumerate(dtypes)
    }
