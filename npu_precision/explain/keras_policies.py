"""Writes what a mode decides about a Keras model as Keras' own dtype policies, by layer.

Keras applies them with any backend, and where XLA compiles, without this package.
"""

from __future__ import annotations

import collections
import contextlib
import importlib
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import tensorflow as tf

from npu_precision import _library
from npu_precision.ledger import Ledger, LedgerNode
from npu_precision.offline import keras_file, rewrite_graph_def
from npu_precision.options import PrecisionOptions

_FLOAT32 = "float32"


class Written(NamedTuple):
    """Policies as JSON.

    Attributes:
        text: what Keras' deserialize_keras_object() takes.
        layers: how many layers it names.
        float32: how many of them stay float32.
        shared: how many layers have no entry of their own, as an earlier one has their path.
    """

    text: str
    layers: int
    float32: int
    shared: int


def of_file(path: str, options: PrecisionOptions) -> Written:
    """The policies for a model in a file that Keras can load.

    Raises:
        ValueError: as of_model.
    """
    model = load(path)
    policies = of_model(model, options)
    text = json.dumps(keras_3().saving.serialize_keras_object(policies), indent=1) + "\n"
    float32 = sum(policy.name == _FLOAT32 for policy in policies.values())
    shared = len(list(model._flatten_layers())) - len(policies)
    return Written(text, len(policies), float32, shared)


def load(path: str) -> Any:
    """The model in a file of Keras.

    Raises:
        ValueError: Keras cannot load it.
    """
    try:
        return tf.keras.models.load_model(path, compile=False)
    except Exception as error:  # Loading a model runs its own code.
        raise ValueError(
            f"Keras cannot load {path!r}: {type(error).__name__}: {keras_file.shown(error)}; "
            f"{keras_file.IMPORT_CLASSES}"
        ) from error


def of_model(model: Any, options: PrecisionOptions) -> Any:
    """The policies for a model of Keras 3, by the keys of its layers.

    A layer gets the policy of the low type if most of its nodes that depend on the model's inputs
    are lowered, and a file of the options keeps none of them. A layer without such nodes gets that
    of what it reads.

    Args:
        model: a functional or Sequential model.
        options: the options, with a mixed mode.

    Returns:
        A keras.dtype_policies.DTypePolicyMap.

    Raises:
        ValueError: the mode is no mixed one, the model has no known inputs, or this is Keras 2.
    """
    keras = keras_3()
    mode = options.precision_mode or options.precision_mode_v2
    low_type = _library.describe()["mixed_modes"].get(mode)
    if low_type is None:
        raise ValueError("a policy for each layer: expected a mixed mode, which lowers some layers")
    traced = _Traced(model)
    lowered = traced.lowered(options)
    policies = keras.dtype_policies.DTypePolicyMap(default_policy=_FLOAT32)
    for layer, is_low in lowered.items():
        name = f"mixed_{low_type}" if is_low else _FLOAT32
        policies[layer] = keras.dtype_policies.DTypePolicy(name)
    return policies


def key(layer: Any) -> str:
    """The key of a layer: its path; or its name, as Keras gives no path to some without weights."""
    return str(layer.path or layer.name)


def keras_3() -> Any:
    """The package keras.

    Raises:
        ValueError: it is none that has policies for each layer.
    """
    keras: Any = importlib.import_module("keras")  # In tf.keras, some modules are missing.
    if not hasattr(getattr(keras, "dtype_policies", None), "DTypePolicyMap"):
        raise ValueError(
            f"a policy for each layer: got Keras {keras.__version__}, expected Keras 3.4 or newer, "
            "which has DTypePolicyMap"
        )
    return keras


def _is_kept_by_a_file(node: LedgerNode) -> bool:
    """A policy can keep a node only with all of its layer."""
    keeps = node.reason == "customized" or (node.list == "black" and node.is_of_a_file)
    return keeps and node.decision == "kept"


class _Traced:
    """The graph of a model's call, and which layer made each node."""

    def __init__(self, model: Any) -> None:
        if not getattr(model, "inputs", None):
            raise ValueError(
                "a policy for each layer: got a model without known inputs, expected a functional "
                "or Sequential one"
            )
        self._layer_of: dict[str, str] = {}
        # By layer, the nodes that yield what it reads, in the order of its calls.
        self._read_by: dict[str, list[str]] = {}
        specs = [tf.TensorSpec(each.shape, each.dtype) for each in model.inputs]

        def call(*inputs: Any) -> Any:
            with self._noting():
                if isinstance(model, tf.keras.Sequential):  # Its property `input` is another one.
                    return model(*inputs, training=False)
                return model(tf.nest.pack_sequence_as(model.input, inputs), training=False)

        self._function = tf.function(call, autograph=False).get_concrete_function(*specs)
        layers = list(model._flatten_layers())
        self._keys = [key(layer) for layer in layers]
        # Models within a model hand values on, and their layers compute.
        self._computes = {key(layer) for layer in layers if not isinstance(layer, tf.keras.Model)}

    @contextlib.contextmanager
    def _noting(self) -> Iterator[None]:
        graph = tf.compat.v1.get_default_graph()
        layer_class = tf.keras.layers.Layer
        original = layer_class.__call__

        def called(layer: Any, *args: Any, **kwargs: Any) -> Any:
            before = len(graph.get_operations())
            result = original(layer, *args, **kwargs)
            read = [each.op.name for each in tf.nest.flatten(args) if tf.is_tensor(each)]
            self._read_by.setdefault(key(layer), []).extend(read)
            for op in graph.get_operations()[before:]:
                self._layer_of.setdefault(op.name, key(layer))  # The inner layer was first.
            return result

        layer_class.__call__ = called
        try:
            yield
        finally:
            layer_class.__call__ = original

    def lowered(self, options: PrecisionOptions) -> dict[str, bool]:
        """By the key of a layer: whether it is lowered."""
        graph = self._function.graph
        fetches = [each.op.name for each in tf.nest.flatten(self._function.outputs)]
        ledger = rewrite_graph_def(graph.as_graph_def(), fetches, options=options)[1]
        is_lowered = self._decided(ledger)
        depends = self._depends_on_inputs()
        kept = {self._layer_of.get(node.name) for node in ledger.nodes if _is_kept_by_a_file(node)}
        votes: dict[str, collections.Counter[bool]] = collections.defaultdict(collections.Counter)
        for name, low in is_lowered.items():
            layer = self._layer_of.get(name)
            if layer in self._computes and name in depends:
                votes[layer][low] += 1
        found: dict[str, bool] = {}
        for layer in self._keys:
            count = votes[layer]
            read = self._read_by.get(layer, [])
            follows = bool(read) and is_lowered.get(self._producer(read[0]), False)
            is_low = count[True] > count[False] if count else follows
            found[layer] = is_low and layer not in kept
        return found

    def _decided(self, ledger: Ledger) -> dict[str, bool]:
        return {
            node.name: node.decision == "lowered"
            for node in ledger.nodes
            if node.role in ("", "computes")
        }

    def _producer(self, name: str) -> str:
        """The node that yields the values of another one, which may be a copy."""
        op = self._function.graph.get_operation_by_name(name)
        while op.type in ("Identity", "IdentityN") and op.inputs:
            op = op.inputs[0].op
        return str(op.name)

    def _depends_on_inputs(self) -> set[str]:
        graph = self._function.graph
        captured = {each.op.name for _, each in graph.captures}
        left = [op for op in graph.get_operations() if op.type == "Placeholder"]
        left = [op for op in left if op.name not in captured]
        found = {op.name for op in left}
        while left:
            for tensor in left.pop().outputs:
                for op in tensor.consumers():
                    if op.name not in found:
                        found.add(op.name)
                        left.append(op)
        return found
