"""A valid graph, and ways to damage it; TensorFlow itself reports each damage."""

from __future__ import annotations

from support.text_graph import read_graph

SOUND = """
    x = Placeholder(shape=4x4)
    axis = Const[int32](value=0)
    w = Const(shape=4x4)
    white = MatMul(x, w)
    gray = Relu(white)
    list = AddN(gray, gray)
    parts = Split(axis, list, num_split=2)
    black = Exp(parts:1)
    end = Softmax(black)
    """


def damage(change):
    """The valid graph after change(nodes by name)."""
    graph = read_graph(SOUND)
    change({node.name: node for node in graph.node}, graph)
    return graph


def set_input(node, index, name):
    def change(nodes, graph):
        nodes[node].input[index] = name

    return change


def set_attr(node, name, **value):
    def change(nodes, graph):
        nodes[node].attr[name].Clear()
        for field, content in value.items():
            setattr(nodes[node].attr[name], field, content)

    return change


def drop_attr(node, name):
    return lambda nodes, graph: nodes[node].attr.pop(name)


def add_input(node, name):
    return lambda nodes, graph: nodes[node].input.append(name)


def drop_input(node):
    return lambda nodes, graph: nodes[node].input.pop()


def rename(node, name):
    return lambda nodes, graph: setattr(nodes[node], "name", name)


def add_node(name, op, *inputs):
    return lambda nodes, graph: graph.node.add(name=name, op=op, input=inputs)


def set_op(node, op):
    return lambda nodes, graph: setattr(nodes[node], "op", op)


DAMAGED = {
    "two nodes of one name": rename("gray", "white"),
    "a node without a name": rename("gray", ""),
    "a node named like a control input": rename("gray", "^gray"),
    "a node named like an output": rename("gray", "gray:0"),
    "an input that is no node": set_input("gray", 0, "nowhere"),
    "a control input that is no node": add_input("gray", "^nowhere"),
    "an input without a name": set_input("gray", 0, ""),
    "a control input without a name": add_input("gray", "^"),
    "an output number without a name": set_input("gray", 0, ":0"),
    "an output that the producer does not have": set_input("black", 0, "parts:2"),
    "a negative output": set_input("black", 0, "parts:-1"),
    "an output number that overflows": set_input("black", 0, "parts:4294967296"),
    "an output number of forty digits": set_input("black", 0, "parts:" + "9" * 40),
    "an output of a node that has none": lambda nodes, graph: (
        graph.node.add(name="none", op="NoOp"),
        set_input("gray", 0, "none")(nodes, graph),
    ),
    "a data input after a control input": lambda nodes, graph: nodes["white"].input.insert(
        1, "^axis"
    ),
    "one input too few": drop_input("white"),
    "one input too many": add_input("white", "x"),
    "no input at all": lambda nodes, graph: nodes["white"].ClearField("input"),
    "a list longer than its count": add_input("list", "gray"),
    "a count of zero": set_attr("list", "N", i=0),
    "a negative count": set_attr("list", "N", i=-1),
    "a count beyond all memory": set_attr("parts", "num_split", i=2**60),
    "a count that is a string": set_attr("list", "N", s=b"2"),
    "no count": drop_attr("list", "N"),
    "no type": drop_attr("white", "T"),
    "a type that is a string": set_attr("white", "T", s=b"float"),
    "a type without a value": set_attr("white", "T"),
    "type 0": set_attr("white", "T", type=0),
    "a type of no meaning": set_attr("white", "T", type=77),
    "a type the op does not allow": set_attr("white", "T", type=7),
    "a reference type": set_attr("white", "T", type=101),
    "a type that its producer does not have": set_attr("gray", "T", type=2),
    "an empty list of types": set_op("list", "IdentityN"),
    "a constant without a value": drop_attr("w", "value"),
    "a constant without a type": drop_attr("w", "dtype"),
    "a constant of another type than its value": set_attr("axis", "dtype", type=1),
    "a constant whose value is a string": set_attr("w", "value", s=b"1.0"),
    "an op that TensorFlow does not know": set_op("gray", "NoSuchOp"),
    "an op without a name": set_op("gray", ""),
    "a fused op that fuses nothing": set_op("white", "_FusedMatMul"),
    "a node that reads itself": set_input("gray", 0, "gray"),
    "a cycle": set_input("white", 0, "black"),
    "a device that is no device": lambda nodes, graph: setattr(nodes["gray"], "device", "/x:y:z"),
    "no node but the fetched one": lambda nodes, graph: graph.node.__delitem__(slice(0, 8)),
}
