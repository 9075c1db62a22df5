"""Functions that XLA compiles, and the calls that run them eagerly."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

from tensorflow.core.framework import function_pb2, graph_pb2
from tensorflow.python.eager import context, execute
from tensorflow.python.framework import versions

# The attribute of functions that XLA compiles, and of their calls.
MUST_COMPILE = "_XlaMustCompile"
# Those of TensorFlow's functions that run ops; legacy callbacks replace one by another.
_RUNNERS = ("execute", "quick_execute", "execute_with_cancellation", "execute_with_callbacks")
_SUFFIX = "_call"

_lock = threading.Lock()
# By the name of an op or function: the name of a function that only calls it; "" if XLA does not
# compile it.
_callers: dict[str, str] = {}


def call_compiled_from_function(when: Callable[[], bool], mark: str) -> None:
    """Runs functions that XLA compiles, if when(), through a function that only calls them.

    TensorFlow runs them without graph optimizers where they are called eagerly. The call has the
    attribute named mark.
    """
    if not hasattr(context.Context, "get_function_def"):  # 1.15 compiles none.
        return

    def through_caller(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def run(op_name: str, *args: Any, **kwargs: Any) -> Any:
            caller = _caller_of(op_name, mark) if when() else ""
            return original(caller or op_name, *args, **kwargs)

        return run

    for name in _RUNNERS:
        setattr(execute, name, through_caller(getattr(execute, name)))
    _remove_callers_too()


def show_compiled_as(transform: Callable[[graph_pb2.GraphDef], graph_pb2.GraphDef]) -> None:
    """Lets experimental_get_compiler_ir() of a tf.function show another function in its place.

    transform() gets a graph whose library has a function that calls the one to show, and all
    functions. The result may have more, and the call may refer to one of these.
    """
    if not hasattr(context.Context, "get_compiler_ir"):  # Up to 2.4.
        return
    original = context.Context.get_compiler_ir

    @functools.wraps(original)
    def get_compiler_ir(self: Any, *args: Any, function_name: Any, **kwargs: Any) -> Any:
        is_bytes = isinstance(function_name, bytes)
        shown = transform(_graph_of(self, function_name.decode() if is_bytes else function_name))
        functions = {each.signature.name: each for each in shown.library.function}
        (call,) = functions.pop(shown.node[0].attr[_SHOWN].func.name).node_def
        name = call.attr["f"].func.name
        added = [each for each in functions if not self.has_function(each)]
        for each in added:
            self.add_function_def(functions[each])
        try:
            function_name = name.encode() if is_bytes else name
            return original(self, *args, function_name=function_name, **kwargs)
        finally:
            for each in added:
                self.remove_function(each)

    context.Context.get_compiler_ir = get_compiler_ir


# An attribute whose function an optimizer keeps in the library.
_SHOWN = "_function"


def _graph_of(current: Any, name: str) -> graph_pb2.GraphDef:
    graph_def = graph_pb2.GraphDef()
    graph_def.versions.producer = versions.GRAPH_DEF_VERSION
    caller = _calling(current.get_function_def(name))
    graph_def.library.function.append(caller)
    graph_def.node.add(name="shown", op="NoOp").attr[_SHOWN].func.name = caller.signature.name
    waiting, seen = [name], {name}
    while waiting:
        function = graph_def.library.function.add()
        function.CopyFrom(current.get_function_def(waiting.pop()))
        function.attr[MUST_COMPILE].b = True  # What it calls is compiled too.
        for node in function.node_def:
            for value in node.attr.values():
                for called in (value.func, *value.list.func):
                    if called.name and called.name not in seen:
                        seen.add(called.name)
                        waiting.append(called.name)
    return graph_def


def _remove_callers_too() -> None:
    original = context.Context.remove_function

    def remove_function(self: Any, name: str) -> None:
        original(self, name)
        # TensorFlow calls this from finalizers, in which a lock may be held.
        caller = _callers.pop(name if isinstance(name, str) else name.decode(), "")
        if caller:
            original(self, caller)

    context.Context.remove_function = remove_function


def _caller_of(name: str, mark: str) -> str:
    caller = _callers.get(name)
    if caller is None or (caller and not context.context().has_function(caller)):
        with _lock:
            caller = _callers[name] = _added_caller(name, mark)
    return caller


def _added_caller(name: str, mark: str) -> str:
    """Adds a function that calls the named one; returns its name, or "" if XLA compiles nothing."""
    current = context.context()
    if not current.has_function(name):
        return ""
    called = current.get_function_def(name)
    if not called.attr[MUST_COMPILE].b:
        return ""
    caller = _calling(called)
    caller.node_def[0].attr[mark].b = True
    if not current.has_function(caller.signature.name):
        current.add_function_def(caller)
    return caller.signature.name


def _calling(called: function_pb2.FunctionDef) -> function_pb2.FunctionDef:
    caller = function_pb2.FunctionDef(signature=called.signature)
    caller.signature.name += _SUFFIX
    caller.signature.is_stateful = True
    for number, attributes in called.arg_attr.items():
        caller.arg_attr[number].CopyFrom(attributes)
    caller.resource_arg_unique_id.update(called.resource_arg_unique_id)
    node = caller.node_def.add(name="call")
    while any(each.name == node.name for each in called.signature.input_arg):
        node.name += "_"
    # Another call without arguments would be folded into a constant, which TensorFlow computes on
    # one thread: a long loop overflows its stack.
    node.op = "StatefulPartitionedCall"
    node.attr["f"].func.name = called.signature.name
    node.attr[MUST_COMPILE].b = True
    for attribute, arguments in (
        ("Tin", called.signature.input_arg),
        ("Tout", called.signature.output_arg),
    ):
        node.attr[attribute].list.SetInParent()
        node.attr[attribute].list.type.extend(each.type for each in arguments)
    node.input.extend(each.name for each in called.signature.input_arg)
    for number, result in enumerate(called.signature.output_arg):
        caller.ret[result.name] = f"{node.name}:output:{number}"
    for control_output in called.signature.control_output:
        caller.control_ret[control_output] = node.name
    return caller
