"""Where tensors leave the memory of a GPU, or enter it: each time, one side waits for the other.

TensorFlow's wheel has the kernels of GPUs on machines without one. A node runs on the GPU if one of
them takes its dtypes, and its device is no other. The kernel says which tensors are in the host's
memory, such as shapes.
"""

from __future__ import annotations

import functools
import re

import tensorflow as tf
from tensorflow.python.framework import kernels

# What the names of inserted Casts, and of nodes behind them, have more than those of the tensors.
_INSERTED = re.compile(r"/npu_(changed|cast_\d+_(b?float16|float32))")


def crossings(graph_def):
    """The tensors that cross, as ("to host" or "to GPU", the tensor's name).

    Constants are in either memory, and calls of functions where their bodies are. An inserted Cast
    has the name of the tensor that it casts: what crosses in two dtypes is one tensor.
    """
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_def, name="")
    on_cpu = {
        node.name
        for node in graph_def.node
        if tf.DeviceSpec.from_string(node.device).device_type == "CPU"
    }
    found = set()
    for op in graph.get_operations():
        inputs = _argument_names(op, op.op_def.input_arg)
        for tensor, reads in zip(op.inputs, inputs):
            if _is_constant(tensor.op) or _is_call(tensor.op) or _is_call(op):
                continue
            source = _argument_names(tensor.op, tensor.op.op_def.output_arg)[tensor.value_index]
            from_gpu = tensor.op.name not in on_cpu and _has_on_gpu(tensor.op, source)
            to_gpu = op.name not in on_cpu and _has_on_gpu(op, reads)
            if from_gpu != to_gpu:
                name = _INSERTED.sub("", tensor.op.name)
                found.add(("to host" if from_gpu else "to GPU", name))
    return found


def _is_constant(op):
    """Whether the op is a Const, or passes one on; TensorFlow folds its Cast."""
    while op.type in ("Cast", "Enter", "Identity"):
        op = op.inputs[0].op
    return op.type == "Const"


def _is_call(op):
    return not kernels.get_registered_kernels_for_op(op.type).kernel


def _argument_names(op, arguments):
    """The name of the argument that each tensor belongs to."""
    names = []
    for argument in arguments:
        count = 1
        if argument.number_attr:
            count = op.get_attr(argument.number_attr)
        elif argument.type_list_attr:
            count = len(op.get_attr(argument.type_list_attr))
        names += [argument.name] * count
    return names


def _has_on_gpu(op, argument):
    """Whether a kernel of GPUs has the tensor of that argument in the GPU's memory."""
    dtypes = tuple(
        (each.name, op.get_attr(each.name).as_datatype_enum)
        for each in op.op_def.attr
        if each.type == "type"
    )
    on_host = _host_memory(op.type, dtypes)
    return on_host is not None and argument not in on_host


@functools.lru_cache(maxsize=None)
def _host_memory(op, dtypes):
    """The arguments that the GPU's kernel has in the host's memory, or None without a kernel."""
    given = dict(dtypes)
    for kernel in kernels.get_registered_kernels_for_op(op).kernel:
        fits = all(
            given.get(each.name) in (None, *each.allowed_values.list.type)
            for each in kernel.constraint
        )
        if fits and kernel.device_type in ("GPU", "DEFAULT") and not kernel.label:
            return set(kernel.host_memory_arg)
    return None
