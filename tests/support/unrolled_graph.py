"""Unrolls the loops and functions of a graph, so that every value can be fetched.

Error bounds need the value of every node, but no session can fetch values inside a loop or a
function. Here each node of a loop has one instance for each iteration, and each node of a function
one for each call. Nodes that only carry control flow become Identity nodes.
"""

from __future__ import annotations

import dataclasses

import tensorflow as tf
from tensorflow.core.framework import graph_pb2

from support.function_bodies import body_graphs, is_result
from support.graph_builder import HANDLES, attr_value


@dataclasses.dataclass(frozen=True)
class Instance:
    """One execution of a node.

    Attributes:
        name: its name in the unrolled graph; the node's own name outside of loops and functions.
        node: the NodeDef.
        function: the name of the function whose body it is in, "" for the graph.
        inputs: (tensor, index) of each input: the tensor of the unrolled graph, and the index of
            the node's input, or None for a result of a function.
        control_producers: the instances that it has control inputs from.
        is_forwarding: whether it is one of a call's arguments, or all its results.
    """

    name: str
    node: object
    function: str
    inputs: list[tuple[str, int | None]]
    control_producers: list[str] = dataclasses.field(default_factory=list)
    is_forwarding: bool = False


class Body:
    """The nodes of the graph or of a function, and their builder's facts about them."""

    def __init__(self, function, graph_def, builder):
        self.function = function
        self.nodes = {node.name: node for node in graph_def.node}
        self.frame_of, self.readable, self.calls = builder.frame_of, builder.readable, builder.calls
        self.arguments = {tensor.input: k for k, tensor in enumerate(builder.arguments)}
        self.results = [name for name in self.nodes if is_result(name)]


@dataclasses.dataclass(frozen=True)
class Place:
    """One call of a body: the prefix of its instances' names, and its arguments' tensors."""

    body: Body
    prefix: str = ""
    arguments: tuple = ()


class Unrolled:
    """The unrolled form of a builder's finished graph.

    Attributes:
        instances: the Instances in topological order.
        graph_def: the unrolled graph.
        readable: the tensors of it that a session can read.
        differs: whether there was anything to unroll.
    """

    def __init__(self, builder):
        functions = body_graphs(builder.graph_def.library)
        functions[""] = builder.graph_def
        self._bodies = {
            name: Body(name, functions[name], body) for name, body in builder.bodies.items()
        }
        self._trips = builder.trips
        self._found = {}
        self._single = set()
        self.instances = []
        self.readable = []
        self.differs = bool(builder.trips or len(functions) > 1)
        self.graph_def = graph_pb2.GraphDef(versions=builder.graph_def.versions)
        graph = Place(self._bodies[""])
        for name, node in graph.body.nodes.items():
            if not graph.body.frame_of[name]:
                self._instance(graph, node, ())

    def _instance(self, place, node, iterations):
        """The name of a node's instance in one iteration of each loop around it."""
        frames = place.body.frame_of.get(node.name, ())
        steps = [f"{frame}_{step}" for frame, step in zip(frames, iterations)]
        name = place.prefix + "/".join([node.name, *steps])
        if name not in self._found:
            self._found[name] = name
            if node.name in place.body.calls:
                self._call(place, node, iterations, name)
            else:
                self._execute(place, node, iterations, name)
        return name

    def _tensor(self, place, tensor, iterations):
        """The tensor of the unrolled graph for a tensor of a body in an iteration."""
        name, _, port = tensor.partition(":")
        if place.prefix and name in place.body.arguments:
            return place.arguments[place.body.arguments[name]]
        return f"{self._instance(place, place.body.nodes[name], iterations)}:{port or 0}"

    def _execute(self, place, node, iterations, name):
        body = place.body
        data = [tensor for tensor in node.input if tensor[0] != "^"]
        producers = [body.nodes[tensor.partition(":")[0]] for tensor in data]
        read = dict.fromkeys(range(len(data)), iterations)
        of_loop = True
        if node.op == "Enter":
            read = {0: iterations[:-1]}
        elif node.op == "Exit":
            read = {0: (*iterations, self._trips[body.frame_of[producers[0].name][-1]])}
        elif node.op == "Merge" and producers[0].op == "Enter" and iterations[-1] == 0:
            read = {0: iterations}
        elif node.op == "Merge" and producers[0].op == "Enter":
            read = {1: (*iterations[:-1], iterations[-1] - 1)}
        elif node.op == "Switch" and producers[1].op == "LoopCond":
            read = {0: iterations}
        else:
            of_loop = node.op in ("NextIteration", "LoopCond")
        inputs = [(self._tensor(place, data[index], at), index) for index, at in read.items()]
        controls = [body.nodes[tensor[1:]] for tensor in node.input if tensor[0] == "^"]
        control_producers = [
            self._instance(place, control, iterations)
            for control in controls
            if not place.prefix or control.name not in body.arguments
        ]
        self.instances.append(Instance(name, node, body.function, inputs, control_producers))
        if of_loop:
            dtype = tf.bool if node.op == "LoopCond" else tf.as_dtype(node.attr["T"].type)
            self._forward(name, [inputs[0][0]], [dtype])
            return
        made = self.graph_def.node.add()
        made.CopyFrom(node)
        made.name = name
        made.ClearField("input")
        made.input.extend(self._actual(tensor) for tensor, _ in inputs)
        made.input.extend("^" + control for control in control_producers)
        made.attr.pop("_class", None)
        count = 1 if node.op == "Const" else body.readable.get(node.name, 0)
        self.readable += [f"{name}:{port}" for port in range(count)]

    def _call(self, place, node, iterations, name):
        call = place.body.calls[node.name]
        data = [tensor for tensor in node.input if tensor[0] != "^"]
        state = []
        first = self._bodies[call.functions[0]]
        arguments = sorted(first.arguments, key=first.arguments.get)
        for k, argument in enumerate(arguments):
            index = k + call.skipped
            given = self._tensor(place, data[index], iterations), index
            taken = f"{name}/argument_{k}"
            function = place.body.function
            self.instances.append(Instance(taken, node, function, [given], is_forwarding=True))
            dtype = tf.as_dtype(first.nodes[argument].attr["dtype"].type)
            self._forward(taken, [given[0]], [dtype])
            state.append(f"{taken}:0")
        for step, function in enumerate(call.functions):
            body = self._bodies[function]
            inner = Place(body, f"{name}/call_{step}/", tuple(state))
            state = [f"{self._instance(inner, body.nodes[r], ())}:0" for r in body.results]
        dtypes = [tf.as_dtype(body.nodes[result].attr["T"].type) for result in body.results]
        self.instances.append(
            Instance(
                name, node, place.body.function, [(t, None) for t in state], is_forwarding=True
            )
        )
        self._forward(name, state, dtypes)

    def _forward(self, name, tensors, dtypes):
        """Adds an Identity, or an IdentityN for several tensors."""
        single = len(tensors) == 1
        made = self.graph_def.node.add(name=name, op="Identity" if single else "IdentityN")
        made.attr["T"].CopyFrom(attr_value(dtypes[0] if single else dtypes))
        made.input.extend(self._actual(tensor) for tensor in tensors)
        if single:
            self._single.add(name)
        self.readable += [
            f"{name}:{port}" for port, dtype in enumerate(dtypes) if dtype not in HANDLES
        ]

    def _actual(self, tensor):
        """The name of a tensor; a loop's Switch, with two outputs, is now an Identity with one."""
        name = tensor.partition(":")[0]
        return name if name in self._single else tensor
