"""Damages GraphDefs at random: each mutation changes one thing, perhaps into nonsense."""

from __future__ import annotations

import random

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2

# Ops with special cases in the passes, and ops with other ports and other kinds of attributes.
OPS = """
    AddN AddV2 ApplyGradientDescent Assign AssignVariableOp Cast Const Enter Exit Exp
    FusedBatchNormV3 Identity IdentityN If LoopCond MatMul Merge NextIteration NoOp NoSuchOp
    PartitionedCall Placeholder ReadVariableOp RefEnter Relu Split StackV2 Switch TensorListReserve
    TopKV2 VarHandleOp VariableV2 While _Arg _FusedBatchNormEx _FusedConv2D _FusedMatMul _Retval
    """.split()
MARKS = {
    "_class": attr_value_pb2.AttrValue(list={"s": [b"loc:@x", b"loc:@nowhere"]}),
    "_keep_dtype": attr_value_pb2.AttrValue(i=1),
    "_npu_precision": attr_value_pb2.AttrValue(s=b"lowered white white_list T=float32 x"),
    "_npu_precision_cast": attr_value_pb2.AttrValue(b=True),
    "frame_name": attr_value_pb2.AttrValue(s=b"loop"),
    "fused_ops": attr_value_pb2.AttrValue(list={"s": [b"BiasAdd", b"Relu"]}),
    "is_constant": attr_value_pb2.AttrValue(b=True),
}
INTS = [-(2**63), -1, 0, 1, 2, 3, 32767, 32768, 2**31, 2**63 - 1]


def mutate(graph, seed):
    """Changes one property of a random node of the graph, in place."""
    chooser = random.Random(seed)
    if graph.node:
        chooser.choice(MUTATIONS)(graph, chooser.choice(graph.node), chooser)


def _tensor(graph, chooser):
    """The name of some tensor: mostly one that exists."""
    name = chooser.choice(graph.node).name
    kind = chooser.random()
    if kind < 0.6:
        return name
    if kind < 0.75:
        return f"{name}:{chooser.choice([0, 1, 2, 7, 10**12])}"
    return f"^{name}" if kind < 0.95 else chooser.choice(["", "^", ":0", "nowhere", "x:-1"])


def _rewire(graph, node, chooser):
    if node.input:
        node.input[chooser.randrange(len(node.input))] = _tensor(graph, chooser)


def _add_input(graph, node, chooser):
    node.input.insert(chooser.randint(0, len(node.input)), _tensor(graph, chooser))


def _drop_input(graph, node, chooser):
    if node.input:
        del node.input[chooser.randrange(len(node.input))]


def _repeat_inputs(graph, node, chooser):
    node.input.extend(list(node.input) * chooser.randint(1, 50))


def _change_op(graph, node, chooser):
    node.op = chooser.choice(OPS)


def _rename(graph, node, chooser):
    node.name = chooser.choice(["", chooser.choice(graph.node).name, node.name + "/npu_changed"])


def _drop_node(graph, node, chooser):
    del graph.node[chooser.randrange(len(graph.node))]


def _cast_below(graph, node, chooser):
    """Adds a Cast that looks like one of the optimizer's, perhaps with wrong dtypes."""
    low = chooser.choice(["float16", "bfloat16", "float32"])
    cast = graph.node.add(name=f"{node.name}/npu_cast_0_{low}", op="Cast", input=[node.name])
    cast.attr["SrcT"].type = chooser.choice([1, 14, 19])
    cast.attr["DstT"].type = tf.as_dtype(low).as_datatype_enum
    cast.attr["_npu_precision_cast"].b = True


def _change_attribute(graph, node, chooser):
    if not node.attr:
        return
    attribute = node.attr[chooser.choice(sorted(node.attr))]
    kind = attribute.WhichOneof("value")
    if kind == "type":
        attribute.type = chooser.choice([0, 1, 2, 3, 14, 19, 20, 77, 101])
    elif kind == "i":
        attribute.i = chooser.choice(INTS)
    elif kind == "list":
        attribute.list.type.extend([chooser.choice([0, 1, 14, 101])] * chooser.randint(1, 50))
    else:
        attribute.CopyFrom(chooser.choice(list(MARKS.values())))


def _drop_attribute(graph, node, chooser):
    if node.attr:
        del node.attr[chooser.choice(sorted(node.attr))]


def _mark(graph, node, chooser):
    name = chooser.choice(sorted(MARKS))
    node.attr[name].CopyFrom(MARKS[name])


def _move(graph, node, chooser):
    node.device = chooser.choice(["/device:GPU:0", "/cpu:0", "//", "/job:x", "\x7f"])


MUTATIONS = [
    _rewire,
    _rewire,
    _rewire,
    _add_input,
    _drop_input,
    _repeat_inputs,
    _change_op,
    _rename,
    _drop_node,
    _cast_below,
    _change_attribute,
    _change_attribute,
    _drop_attribute,
    _mark,
    _mark,
    _move,
]
