"""Frozen signatures drop the captures that they no longer read, if all callers are known."""

from __future__ import annotations

import pytest
import tensorflow as tf
from support.tf_versions import needs_functions_by_default

from npu_precision.offline import saved_model, unread_captures

pytestmark = needs_functions_by_default
CALLS = ("PartitionedCall", "StatefulPartitionedCall")


class Model(tf.Module):
    def __init__(self):
        self.read, self.unread, self.last = tf.Variable(1.0), tf.Variable(2.0), tf.Variable(3.0)

    @tf.function(input_signature=[tf.TensorSpec([2], name="x"), tf.TensorSpec([2], name="y")])
    def serve(self, x, y):
        return {"z": x * self.read + self.unread - self.last}


@pytest.fixture
def parts(tmp_path):
    """The MetaGraph of the model, its signature's function, and the call of that."""
    model = Model()
    tf.saved_model.save(model, str(tmp_path / "model"), signatures=model.serve)
    meta_graph = saved_model.read(tmp_path / "model")[0].meta_graphs[0]
    (call,) = (
        node
        for node in meta_graph.graph_def.node
        if node.op in CALLS and "wrapper" in node.attr["f"].func.name
    )
    library = meta_graph.graph_def.library.function
    (function,) = (each for each in library if each.signature.name == call.attr["f"].func.name)
    (inner,) = (node for node in function.node_def if node.op in CALLS)
    # As if the rewritten body did not read the second of three variables.
    del inner.input[3]
    return meta_graph, function, call


def captured(meta_graph, function):
    return list(
        meta_graph.object_graph_def.concrete_functions[function.signature.name].bound_inputs
    )


def test_arguments_stay_and_unread_captures_go(parts):
    meta_graph, function, call = parts
    names = [argument.name for argument in function.signature.input_arg]
    inputs, bound = list(call.input), captured(meta_graph, function)
    attributes = {place: str(each) for place, each in function.arg_attr.items()}
    call.input.append("^serving_default_x")
    unread_captures.drop(function, meta_graph, CALLS)
    kept = [0, 1, 2, 4]
    assert [each.name for each in function.signature.input_arg] == [names[place] for place in kept]
    assert list(call.input) == [*(inputs[place] for place in kept), "^serving_default_x"]
    assert len(call.attr["Tin"].list.type) == len(kept)
    assert captured(meta_graph, function) == [bound[0], bound[2]]
    assert {place: str(each) for place, each in function.arg_attr.items()} == {
        after: attributes[before] for after, before in enumerate(kept) if before in attributes
    }
    assert list(call.attr["_read_only_resource_inputs"].list.i) == [2, 3]
    if "_input_shapes" in function.attr:
        assert len(function.attr["_input_shapes"].list.shape) == len(kept)


@pytest.mark.parametrize("place", ["another op", "another function", "a list of functions"])
def test_all_stays_where_another_node_refers_to_the_function(place, parts):
    meta_graph, function, call = parts
    name = function.signature.name
    if place == "another op":
        call.op = "BatchFunction"
    elif place == "another function":
        other = meta_graph.graph_def.library.function.add()
        other.node_def.add(op="PartitionedCall").attr["f"].func.name = name
    else:
        meta_graph.graph_def.node.add(op="Case").attr["branches"].list.func.add(name=name)
    before = meta_graph.SerializeToString(deterministic=True)
    unread_captures.drop(function, meta_graph, CALLS)
    assert meta_graph.SerializeToString(deterministic=True) == before
