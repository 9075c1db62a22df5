"""The nodes that carry a Cast's result into a loop: marked copies of an Enter, Switch or Identity.

Carriers may replace a tensor of the original graph if that tensor is the same in every iteration,
and if the carriers are dead whenever the tensor is.
"""

from __future__ import annotations


def canonical(tensor):
    """A tensor's name with its port."""
    return tensor if ":" in tensor else tensor + ":0"


def node_of(tensor):
    return tensor.partition(":")[0]


def enter_of(nodes, tensor):
    """The Enter whose input a tensor equals in every iteration, or None.

    Args:
        nodes: the graph's NodeDefs by name.
        tensor: the tensor's name.
    """
    origin = _origin(nodes, tensor)
    if origin.op == "Enter":
        return origin if origin.attr["is_constant"].b else None
    if origin.op != "Merge":
        return None
    enter = None
    for producer in (nodes[node_of(name)] for name in origin.input if name[0] != "^"):
        if producer.op == "Enter":
            enter = producer
        elif producer.op != "NextIteration" or _origin(nodes, producer.input[0]) is not origin:
            return None
    return enter


def _origin(nodes, tensor):
    node = nodes[node_of(tensor)]
    while node.op in ("Identity", "Switch"):
        node = nodes[node_of(node.input[0])]
    return node


def carried_from(nodes, counterparts, tensor, carriers):
    """The tensor outside that carriers bring to the place of `tensor`, or None if they do not.

    Args:
        nodes: NodeDefs of the original graph by name.
        counterparts: the rewritten node for each original node, by name.
        tensor: a tensor of the original graph, by its canonical name.
        carriers: (NodeDef, output port) of each carrier on the way from `tensor`'s reader to the
            outside, in this order.
    """
    for carrier, port in carriers:
        node = nodes[node_of(tensor)]
        if carrier.op == "Enter":
            # An Identity or Switch can be dead, in the last iteration or in a branch; an Enter
            # cannot.
            enter = None if node.op in ("Identity", "Switch") else enter_of(nodes, tensor)
            if enter is None or not _enters_alike(carrier, enter):
                return None
            tensor = canonical(enter.input[0])
            continue
        if carrier.op != node.op:
            return None
        if {name for name in carrier.input if name[0] == "^"} != {
            "^" + counterparts[node.name].name
        }:
            return None
        if node.op == "Switch" and (carrier.input[1], port) != (
            node.input[1],
            canonical(tensor).partition(":")[2],
        ):
            return None
        # With a control dependency on the original, the carrier is dead whenever the original is.
        tensor = canonical(_origin(nodes, tensor).name)
    return tensor


def _enters_alike(carrier, enter):
    names = "frame_name", "parallel_iterations"
    return carrier.attr["is_constant"].b and all(
        carrier.attr[name] == enter.attr[name] for name in names
    )
