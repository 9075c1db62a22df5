"""Bounds the error of a rewritten graph's values, by running error analysis.

Each tensor gets a bound on |rewritten - original|, in the maximum norm, from the bounds of its
producer's inputs. The op's Lipschitz constant at the original's values scales the bounds of the
inputs. Each rounding (of an operand by a Cast, of a result by its kernel, of the terms of a sum)
adds half a unit in the last place of the dtype it rounds to. A bound is

- 0 if nothing on the way was rounded: then the values are equal, to the last bit;
- inf if the result may jump: a comparison, an arg max or a conversion to int whose operands are
  closer than their error. Such a tensor, and everything computed from it, is not checked.

Loops are analysed iteration by iteration, at the values of the unrolled graph.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from support.error_rules import (
    EXACT,
    INF,
    ORDER_OF_CHANCE,
    RULES,
    SMALLEST,
    STEPS,
    UNIT,
    VALUE_FREE,
    Node,
    largest,
)
from support.rewritten_graph import LOW, type_attributes
from support.strict_zip import strict_zip


def unit_of(types):
    return max(UNIT.get(dtype, 0.0) for dtypes in types.values() for dtype in dtypes)


class ErrorBounds:
    """Bounds for the tensors of a graph.

    Args:
        graph: a RandomGraph.
        values: its values, by tensor name. Tensors of an untaken branch have no value; they are
            taken to be no larger than the inputs of the branch.
        rewritten: the RewrittenGraph.
    """

    def __init__(self, graph, values, rewritten):
        self._tensors = graph.tensors
        self._values = {
            name: np.asarray(value, np.float64)
            for name, value in {**graph.constants, **graph.run_unrolled(), **values}.items()
        }
        self._rewritten = rewritten
        self._of_nodes = {}
        for instance in graph.unrolled.instances:
            fed = f"{instance.name}:0" in graph.feeds
            found = self._of_instance(instance)
            self._of_nodes[instance.name] = 0.0 if fed else found

    def __getitem__(self, tensor):
        name, _, port = tensor.partition(":")
        found = self._of_nodes[name]
        return found[int(port or 0)] if isinstance(found, list) else found

    def violations(self, rewritten_values):
        """The tensors whose error exceeds the bound, one sentence each."""
        for name in [tensor.name for tensor in self._tensors if tensor.name in rewritten_values]:
            value = self._values[name]
            rewritten = np.asarray(rewritten_values[name], np.float64)
            if rewritten.shape != value.shape:
                yield f"{name} has shape {rewritten.shape}, had {value.shape}"
            elif not np.isfinite(rewritten).all():
                yield f"{name} is not finite"
            elif np.abs(rewritten - value).max(initial=0) > self._of_fetched(name, value):
                error = np.abs(rewritten - value).max()
                yield f"{name} is off by {error}, allowed are {self._of_fetched(name, value)}"

    def _of_fetched(self, name, value):
        dtypes = self._rewritten.rounds_of_fetched(name.partition(":")[0])
        return self._rounded(self[name], dtypes, value)

    def _of_instance(self, instance):
        node = instance.node
        rewritten = self._rewritten.functions[instance.function]
        v = [self._values[tensor] for tensor, _ in instance.inputs]
        for port in ("0", "1"):
            self._values.setdefault(f"{instance.name}:{port}", v[0] if v else np.zeros(()))
        counterpart = rewritten.counterparts.get(node.name)
        if node.op in VALUE_FREE or counterpart is None or not v:
            return 0.0
        edges = rewritten.edges[node.name]
        e = [
            self._rounded(self[tensor], () if index is None else edges[index].dtypes, value)
            for (tensor, index), value in strict_zip(instance.inputs, v)
        ]
        if instance.is_forwarding:
            return e
        if node.op == "StackPopV2":  # no data edge leads here from the push
            e += [self[pushed] for pushed in instance.control_producers]
        out = []
        while f"{instance.name}:{len(out)}" in self._values:
            out.append(self._values[f"{instance.name}:{len(out)}"])
        types = type_attributes(node), type_attributes(counterpart)
        if not any(e) and types[0] == types[1] and node.op not in ORDER_OF_CHANCE:
            return 0.0
        if INF in e:
            return INF
        u = sum(unit_of(found) for found in types)
        found = RULES[node.op](Node(node.op, node.attr, v, e, out, u))
        if node.op in EXACT:
            return found
        if isinstance(found, list):
            return [self._of_result(node.op, u, value, error) for error, value in zip(found, out)]
        return self._of_result(node.op, u, out[0], found)

    @staticmethod
    def _rounded(error, dtypes, value):
        units = sum(UNIT[dtype] for dtype in dtypes if dtype in LOW)
        return error + units * (largest(value) + error) + SMALLEST if units else error

    @staticmethod
    def _of_result(op, u, value, error):
        most = largest(value) + error
        rounding = STEPS[op] * u * max(1.0, most) if op in STEPS else u * most
        # The number of terms in these graphs is too small for larger losses by underflow.
        return error + rounding + (64 * SMALLEST if u > 2 * UNIT[tf.float32] else 0)
