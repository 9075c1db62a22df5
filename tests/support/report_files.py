"""Writes and reads reports for tests."""

from __future__ import annotations

import json
import re

import pytest
from tensorflow.core.framework import graph_pb2, types_pb2

from npu_precision import PrecisionOptions
from npu_precision.explain import explanation, report
from npu_precision.offline import model_file

MIXED = PrecisionOptions(precision_mode="allow_mix_precision")
needs_page = pytest.mark.skipif(
    not report.PAGE.is_file(), reason="the page was built without Node.js, or by Bazel"
)


def explained(path, options=MIXED):
    """A model and its Explanation."""
    model = model_file.load_model(str(path))
    return model, explanation.explain(model, options)


def data_in(page):
    """The data in a page, as a browser would read it."""
    (text,) = re.findall(
        r'<script type="application/json" id="report-data">(.*?)</script>', page, re.S
    )
    return json.loads(text)


def write_graph(folder, nodes):
    """Writes a GraphDef of float32 nodes to a file, from the (name, op, inputs) of each node."""
    graph = graph_pb2.GraphDef()
    for name, op, inputs in nodes:
        node = graph.node.add(name=name, op=op, input=inputs)
        node.attr["dtype" if op == "Placeholder" else "T"].type = types_pb2.DT_FLOAT
    path = folder / "graph.pb"
    path.write_bytes(graph.SerializeToString())
    return str(path)
