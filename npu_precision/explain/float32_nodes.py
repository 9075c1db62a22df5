"""Lists the nodes that stay float32, for runtimes that lower a float32 model by themselves."""

from __future__ import annotations

import collections
import dataclasses
import re
from collections.abc import Iterable, Sequence
from typing import Any

from tensorflow.core.protobuf import meta_graph_pb2

from npu_precision import tensorflow_lists
from npu_precision.explain import explanation, reasons
from npu_precision.ledger import Ledger, LedgerNode
from npu_precision.offline import frozen_signatures
from npu_precision.offline.model_file import SAVED_MODEL, Model
from npu_precision.options import PrecisionOptions

# These ops have no precision of their own. Neither have nodes that never change, such as calls.
_COPIES = ("Identity", "IdentityN")
# By runtime: one name on each line; the value of trtexec's --layerPrecisions; a regular expression
# of a name on each line, as AutoCast excludes nodes; of op types, the variables that TensorFlow's
# auto_mixed_precision reads; and of layers, a DTypePolicyMap of Keras 3.
NAMES, TENSORRT, AUTOCAST = "names", "tensorrt", "autocast"
TENSORFLOW, KERAS = "tensorflow", "keras"
FORMS = (NAMES, TENSORRT, AUTOCAST, TENSORFLOW, KERAS)


def of_model(model: Model, options: PrecisionOptions) -> tuple[LedgerNode, ...]:
    """The float nodes of a model, some of which are lowered.

    Signatures of TensorFlow 2 are frozen first, as exporters do, so that the names are those of the
    inlined graph. Options that change more than dtypes are off, because the list is about the nodes
    of the model as it is.

    Raises:
        ValueError: the optimizer refuses options or model, the signatures cannot be frozen, or
            nothing is lowered.
    """
    dtypes_only: dict[str, Any] = {"rewrites": "none", "lower_collectives": False}
    explained = explanation.explain(_frozen(model), dataclasses.replace(options, **dtypes_only))
    return _checked(model.path, (node for _, node in explained.nodes()))


def of_ledger(path: str, ledger: Ledger) -> tuple[LedgerNode, ...]:
    """The float nodes in the graph of a ledger and in its functions, some of which are lowered.

    Args:
        path: the ledger's file, for errors.
        ledger: the ledger.

    Raises:
        ValueError: nothing is lowered in it.
    """
    return _checked(path, (node for part in ledger for node in part.nodes))


def text(nodes: Iterable[LedgerNode], form: str) -> tuple[str, str]:
    """The content of a file for a runtime, and what it is.

    Args:
        nodes: the float nodes.
        form: one of FORMS, but for KERAS.
    """
    found = list(nodes)
    if form == TENSORFLOW:
        return _variables(found)
    names = list(dict.fromkeys(node.name for node in found if _stays_float32(node)))
    what = f"{'1 node stays' if len(names) == 1 else f'{len(names)} nodes stay'} float32"
    if form == TENSORRT:
        return ",".join(f"{name}:fp32" for name in names) + "\n", what
    if form == AUTOCAST:
        return "".join(f"^{re.escape(name)}$\n" for name in names), what
    return "".join(f"{name}\n" for name in names), what


def _variables(nodes: Sequence[LedgerNode]) -> tuple[str, str]:
    """The environment in which TensorFlow's pass lowers and keeps the same op types.

    An op type is denied if it has a reason of its own to stay float32, and none of its nodes is
    lowered. It is allowed if it is on the white list here, and all of its nodes are lowered.
    """
    lowered = collections.Counter(node.op for node in nodes if node.decision == "lowered")
    stays = collections.Counter(node.op for node in nodes if _stays_float32(node))
    kept = {
        node.op for node in nodes if _stays_float32(node) and node.reason not in reasons.OF_VOTES
    }
    white = {node.op for node in nodes if node.reason == "white_list"}
    lists = {
        "DENYLIST": sorted(op for op in kept if not lowered[op]),
        "ALLOWLIST": sorted(op for op in white if not stays[op]),
    }
    lines = [
        f"{tensorflow_lists.PREFIX}{name}_ADD={','.join(ops)}\n"
        for name, ops in lists.items()
        if ops
    ]
    # An op type on two lists is an error there.
    removed = sorted({*lists["DENYLIST"], *lists["ALLOWLIST"]})
    for name in tensorflow_lists.NAMES:
        others = [op for op in removed if op not in lists.get(name, ())]
        if others:
            lines.append(f"{tensorflow_lists.PREFIX}{name}_REMOVE={','.join(others)}\n")
    both = sorted(op for op in kept if lowered[op])
    what = f"{len(lists['DENYLIST'])} op types stay float32, {len(lists['ALLOWLIST'])} are lowered"
    if both:
        counts = ", ".join(f"{stays[op]} of {stays[op] + lowered[op]} {op}" for op in both)
        what += f"; lists of op types cannot say that {counts} stay float32"
    return "".join(lines), what


def _frozen(model: Model) -> Model:
    if model.kind != SAVED_MODEL or not frozen_signatures.may_gain(model.meta_graph):
        return model
    meta_graph = meta_graph_pb2.MetaGraphDef()
    meta_graph.CopyFrom(model.meta_graph)
    frozen_signatures.freeze(meta_graph, model.folder)
    return dataclasses.replace(model, meta_graph=meta_graph)


def _checked(path: str, nodes: Iterable[LedgerNode]) -> tuple[LedgerNode, ...]:
    found = tuple(nodes)
    if not any(node.decision == "lowered" for node in found):
        raise ValueError(
            f"{path!r}: no node is lowered, so a list of those that stay float32 would name them "
            "all; expected a mode, or a ledger of a run, that lowers some"
        )
    return found


def _stays_float32(node: LedgerNode) -> bool:
    return (
        node.decision == "kept"
        and not node.is_source
        and node.reason != "never_changed"
        and node.op not in _COPIES
        and any(list(pair) == ["float32", "float32"] for pair in node.dtypes.values())
    )
