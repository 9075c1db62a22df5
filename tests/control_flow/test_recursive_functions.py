"""Functions that call themselves: each body is rewritten once, and the rewrite ends.

Tested offline only. In a session, every TensorFlow version overflows its stack on such a library,
with or without this optimizer, because it inlines one call after the other.
"""

from __future__ import annotations

import pytest
import tensorflow as tf
from support.check_rewrite import to_bytes
from support.text_graph import read_graph

import npu_precision

FLOAT = tf.float32.as_datatype_enum
BOOL = tf.bool.as_datatype_enum


def add_function(library, name):
    """An empty function (more: bool, x: float32) -> y: float32."""
    function = library.add()
    function.signature.name = name
    function.signature.input_arg.add(name="more", type=BOOL)
    function.signature.input_arg.add(name="x", type=FLOAT)
    function.signature.output_arg.add(name="y", type=FLOAT)
    return function


def add_call(nodes, name, callee, inputs):
    call = nodes.add(name=name, op="PartitionedCall", input=inputs)
    call.attr["f"].func.name = callee
    call.attr["Tin"].list.type.extend([BOOL, FLOAT])
    call.attr["Tout"].list.type.append(FLOAT)
    return call


def add_body(library, name):
    """y = `callee`(more, Relu(MatMul(x, x))); the caller adds the call "next" itself."""
    function = add_function(library, name)
    function.node_def.add(name="white", op="MatMul", input=["x", "x"]).attr["T"].type = FLOAT
    gray = function.node_def.add(name="gray", op="Relu", input=["white:product:0"])
    gray.attr["T"].type = FLOAT
    function.ret["y"] = "next:output:0"
    return function


def calls(library, name, callee):
    """Makes a library in which `name` calls `callee`."""
    add_call(add_body(library, name).node_def, "next", callee, ["more", "gray:activations:0"])


def calls_by_op(library, name, callee):
    """Makes a library in which `name` calls `callee` by a node with that op."""
    body = add_body(library, name)
    body.node_def.add(name="next", op=callee, input=["more", "gray:activations:0"])
    body.ret["y"] = "next:y:0"


def calls_if(library, name, callee):
    """Makes a library in which `name` calls `callee` if `more` is true, and otherwise returns."""
    branch = add_body(library, name).node_def.add(
        name="next", op="If", input=["more", "more", "gray:activations:0"]
    )
    branch.attr["Tcond"].type = BOOL
    branch.attr["Tin"].list.type.extend([BOOL, FLOAT])
    branch.attr["Tout"].list.type.append(FLOAT)
    branch.attr["then_branch"].func.name = callee
    branch.attr["else_branch"].func.name = "stop"


RECURSIONS = {
    "into itself": [(calls, "one", "one")],
    "into itself by the op's name": [(calls_by_op, "one", "one")],
    "into itself, if there is more": [(calls_if, "one", "one")],
    "into each other": [(calls, "one", "two"), (calls, "two", "one")],
    "into each other by way of If": [(calls_if, "one", "two"), (calls_if, "two", "one")],
    "in a ring of three": [
        (calls, "one", "two"),
        (calls_if, "two", "three"),
        (calls, "three", "one"),
    ],
}


def recursive_graph(edges):
    graph = read_graph("x = Placeholder(shape=4x4) \n more = Placeholder[bool](shape=scalar)")
    library = graph.library.function
    for call, name, callee in edges:
        call(library, name, callee)
    stop = add_function(library, "stop")
    stop.node_def.add(name="same", op="Identity", input=["x"]).attr["T"].type = FLOAT
    stop.ret["y"] = "same:output:0"
    add_call(graph.node, "y", "one", ["more", "x"])
    return graph


@pytest.mark.parametrize("kind", RECURSIONS)
def test_each_body_is_rewritten_once(kind):
    graph = recursive_graph(RECURSIONS[kind])
    after, ledger = npu_precision.rewrite_graph_def(
        graph, "y", precision_mode="allow_mix_precision", call_boundaries=False
    )
    bodies = {name for _, name, _ in RECURSIONS[kind]}
    assert sorted(part.graph for part in ledger.functions) == sorted({*bodies, "stop"})
    lowered = {part.graph: part.totals["lowered"] for part in ledger.functions}
    assert lowered == {**dict.fromkeys(bodies, 2), "stop": 0}
    for function in after.library.function:
        if function.signature.name in bodies:
            inputs = {node.name: list(node.input) for node in function.node_def}
            assert inputs["next"][-1] == "gray/npu_cast_0_float32:y:0"
    again, _ = npu_precision.rewrite_graph_def(
        after, "y", precision_mode="allow_mix_precision", call_boundaries=False
    )
    assert to_bytes(again) == to_bytes(after)
