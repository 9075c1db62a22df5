"""Lists the nodes that stay float32, for runtimes that lower a float32 model by themselves."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from tensorflow.core.protobuf import meta_graph_pb2

from npu_precision.explain import explanation
from npu_precision.ledger import Ledger, LedgerNode
from npu_precision.offline import frozen_signatures
from npu_precision.offline.model_file import SAVED_MODEL, Model
from npu_precision.options import PrecisionOptions

# These ops have no precision of their own. Neither have nodes that never change, such as calls.
_COPIES = ("Identity", "IdentityN")
# By runtime: one name on each line, the value of trtexec's --layerPrecisions, or, of layers and not
# of nodes, a DTypePolicyMap of Keras 3.
NAMES, TENSORRT, KERAS = "names", "tensorrt", "keras"
FORMS = (NAMES, TENSORRT, KERAS)


def of_model(model: Model, options: PrecisionOptions) -> tuple[str, ...]:
    """The names of the nodes of a model that stay float32 while others are lowered.

    Signatures of TensorFlow 2 are frozen first, as exporters do, so that the names are those of the
    inlined graph. Options that change more than dtypes are off, because the list is about the nodes
    of the model as it is.

    Raises:
        ValueError: the optimizer refuses options or model, the signatures cannot be frozen, or
            nothing is lowered.
    """
    dtypes_only: dict[str, Any] = {"rewrites": "none", "lower_collectives": False}
    explained = explanation.explain(_frozen(model), dataclasses.replace(options, **dtypes_only))
    return _float32(model.path, (node for _, node in explained.nodes()))


def of_ledger(path: str, ledger: Ledger) -> tuple[str, ...]:
    """The names of the nodes that stay float32 in the graph of a ledger and in its functions.

    Args:
        path: the ledger's file, for errors.
        ledger: the ledger.

    Raises:
        ValueError: nothing is lowered in it.
    """
    return _float32(path, (node for part in ledger for node in part.nodes))


def text(names: Iterable[str], form: str) -> str:
    """The content of a file for a runtime.

    Args:
        names: the nodes.
        form: NAMES or TENSORRT.
    """
    if form == TENSORRT:
        return ",".join(f"{name}:fp32" for name in names) + "\n"
    return "".join(f"{name}\n" for name in names)


def _frozen(model: Model) -> Model:
    if model.kind != SAVED_MODEL or not frozen_signatures.may_gain(model.meta_graph):
        return model
    meta_graph = meta_graph_pb2.MetaGraphDef()
    meta_graph.CopyFrom(model.meta_graph)
    frozen_signatures.freeze(meta_graph, model.folder)
    return dataclasses.replace(model, meta_graph=meta_graph)


def _float32(path: str, nodes: Iterable[LedgerNode]) -> tuple[str, ...]:
    found = tuple(nodes)
    if not any(node.decision == "lowered" for node in found):
        raise ValueError(
            f"{path!r}: no node is lowered, so a list of those that stay float32 would name them "
            "all; expected a mode, or a ledger of a run, that lowers some"
        )
    return tuple(dict.fromkeys(node.name for node in found if _stays_float32(node)))


def _stays_float32(node: LedgerNode) -> bool:
    return (
        node.decision == "kept"
        and not node.is_source
        and node.reason != "never_changed"
        and node.op not in _COPIES
        and any(list(pair) == ["float32", "float32"] for pair in node.dtypes.values())
    )
