"""Writes the result of a search as a customize_dtypes file: a line per node kept in float32."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Sequence

import tensorflow as tf

from npu_precision.accuracy.comparison import DTYPES_ONLY
from npu_precision.accuracy.frozen import FrozenModel
from npu_precision.ledger import Ledger
from npu_precision.offline.graph_def import rewrite_graph_def
from npu_precision.options import PrecisionOptions
from npu_precision.tuning.risk import Suspect

# The dtypes of a customize_dtypes file. A node's ports are left out from the first of another dtype
# on.
_NAMED = {
    *(tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.bool),
    *(tf.int8, tf.int16, tf.int32, tf.int64, tf.uint8, tf.uint16, tf.uint32, tf.uint64),
}


def text(model: FrozenModel, options: PrecisionOptions, kept: Sequence[Suspect]) -> str:
    """The lines of the user's own customize_dtypes, if there is one, and a line for each node.

    Args:
        model: the frozen model.
        options: the options that the search began with.
        kept: the nodes to keep.

    Raises:
        OSError: the user's file cannot be read.
        ValueError: a node has no ports whose dtypes the file can set.
    """
    given = ""
    if options.customize_dtypes is not None:
        given = pathlib.Path(options.customize_dtypes).read_text(encoding="utf-8").rstrip("\n")
    lines = [given] if given else []
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(model.graph_def, name="")
    for each in kept:
        op = graph.get_operation_by_name(each.flat[0])
        dtypes = _dtypes(op.inputs, "InputDtype") + _dtypes(op.outputs, "OutputDtype")
        if not dtypes:
            raise ValueError(
                f"{each.node!r} ({op.type}) has no port that customize_dtypes can name; "
                "write a mixlist: --format modify_mixlist"
            )
        # A node in a function has the first name; where TensorFlow inlines the function, the
        # others.
        lines += [f"{name}::{','.join(dtypes)}" for name in dict.fromkeys((each.node, *each.flat))]
    return "".join(f"{line}\n" for line in lines)


def _dtypes(tensors: Sequence[tf.Tensor], key: str) -> list[str]:
    names = []
    for tensor in tensors:
        if tensor.dtype not in _NAMED:
            break
        names.append(tensor.dtype.name)
    return [f"{key}:{names[0]}", *names[1:]] if names else []


def check(model: FrozenModel, found: PrecisionOptions, written: PrecisionOptions) -> None:
    """Checks that a file leads to the decisions that the search found.

    Args:
        model: the frozen model.
        found: the options of the search, with its entries.
        written: the same options, with the file instead of the entries.

    Raises:
        ValueError: the file leads to other decisions.
    """
    differing = sorted(_lowered(model, found) ^ _lowered(model, written))
    if differing:
        raise ValueError(
            f"{len(differing)} nodes, such as {differing[0]!r}, would be decided otherwise by "
            "lines of customize_dtypes; write a mixlist: --format modify_mixlist"
        )


def _lowered(model: FrozenModel, options: PrecisionOptions) -> set[str]:
    ledger: Ledger
    _, ledger = rewrite_graph_def(model.graph_def, list(model.outputs), options, **DTYPES_ONLY)
    return {node.name for node in ledger.nodes if node.decision == "lowered"}


def used(options: PrecisionOptions, given: PrecisionOptions, file: str) -> PrecisionOptions:
    """The options of the search with the file in place of its entries.

    Args:
        options: the options of the search.
        given: the options that it began with.
        file: the path of the customize_dtypes file.
    """
    return dataclasses.replace(
        options,
        mixlist_edits=None,
        modify_mixlist=given.modify_mixlist,
        customize_dtypes=file,
    )
