"""The op that fused_updates writes: all sizes and dtypes, and errors for what does not fit."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import graph_pb2

import npu_precision

pytestmark = pytest.mark.cpu("updates are fused on CPUs alone")
tf1 = tf.compat.v1
SGD = "tensor:0 scalar:0 mul:0:1 variable:0 sub:3:2 store:0:4"
LOW = [tf.bfloat16, tf.float16, tf.float32]
# Around the size of a block, and large enough for several threads.
SIZES = [1, 2, 255, 256, 257, 513, 300_001]


def update(program, variables, tensors=(), scalars=(), is_reference=False):
    """Adds the op to the default graph."""
    npu_precision.npu_config_proto(precision_mode="allow_mix_precision")  # loads the library
    graph = graph_pb2.GraphDef()
    inputs = [*variables, *tensors, *scalars]
    for number in range(len(inputs)):
        node = graph.node.add(name=f"input{number}", op="Placeholder")
        node.attr["dtype"].type = inputs[number].dtype.base_dtype.as_datatype_enum
    op = "NpuPrecisionUpdateRef" if is_reference else "NpuPrecisionUpdate"
    node = graph.node.add(name="update", op=op)
    node.input.extend(f"input{number}" for number in range(len(inputs)))
    node.attr["N"].i = len(variables)
    node.attr["S"].i = len(scalars)
    node.attr["T"].list.type.extend(each.dtype.as_datatype_enum for each in tensors)
    node.attr["program"].s = program.encode()
    mapped = {f"input{number}": each for number, each in enumerate(inputs)}
    return tf.import_graph_def(graph, mapped, return_elements=["update"], name="")[0]


def variable(name, value):
    return tf1.get_variable(name, initializer=tf.constant(value), use_resource=True)


@pytest.mark.parametrize("dtype", LOW, ids=lambda each: each.name)
@pytest.mark.parametrize("size", SIZES)
def test_all_elements_are_updated_once(size, dtype):
    random = np.random.default_rng(size)
    value = random.normal(size=size).astype(np.float32)
    gradient = random.normal(size=size).astype(dtype.as_numpy_dtype)
    with tf.Graph().as_default():
        weights = variable("weights", value)
        step = update(SGD, [weights.handle], [tf.constant(gradient)], [tf.constant(0.1)])
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            session.run(step)
            expected = value - gradient.astype(np.float32) * np.float32(0.1)
            np.testing.assert_array_equal(session.run(weights), expected)


# Without subnormals: TensorFlow's kernels take them for zeros.
EXTREMES = [0.0, -0.0, 1e-30, 1e30, np.inf, -np.inf, np.nan]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ("add:0:1", np.add),
        ("sub:0:1", np.subtract),
        ("mul:0:1", np.multiply),
        ("div:0:1", np.divide),
        ("square:1", lambda a, b: b * b),
        ("sqrt:1", lambda a, b: np.sqrt(b)),
        ("rsqrt:1", lambda a, b: 1 / np.sqrt(b)),
        ("neg:1", lambda a, b: -b),
        ("one add:1:2", lambda a, b: b + 1),
    ],
)
def test_each_step_computes_as_numpy_does(steps, expected):
    a, b = np.meshgrid(*[np.array([*EXTREMES, 1.5, -7.3], np.float32)] * 2)
    with tf.Graph().as_default(), np.errstate(all="ignore"):
        weights = variable("weights", a)
        program = f"variable:0 tensor:0 {steps} store:0:{len(steps.split()) + 1}"
        step = update(program, [weights.handle], [tf.constant(b)])
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            session.run(step)
            np.testing.assert_array_equal(session.run(weights), expected(a, b))


# What the steps of a program compute.
NUMPY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "square": np.square,
    "sqrt": np.sqrt,
    "neg": np.negative,
}


def random_program(random):
    """A program of two variables, two tensors and two scalars, and what it computes."""
    steps = ["variable:0", "variable:1", "tensor:0", "tensor:1", "scalar:0", "scalar:1", "one"]
    for _ in range(random.integers(1, 9)):
        kind = str(random.choice(list(NUMPY)))
        last = len(steps)
        # One more often of what comes late, as programs are chains.
        first, second = int(last * random.beta(2, 1)), random.integers(last)
        steps.append(
            f"{kind}:{first}" if kind in ("square", "sqrt", "neg") else f"{kind}:{first}:{second}"
        )
    written = [0, 1] if random.integers(4) else [0, 1, 0]
    stored = {}
    stores = []
    for number in written:
        stored[number] = len(steps) - 1 - int(min(random.integers(4), random.integers(4)))
        stores.append(f"store:{number}:{stored[number]}")
    return steps, stores, [stored[0], stored[1]]


def expected_values(steps, inputs):
    values = []
    for step in steps:
        kind, *numbers = step.split(":")
        if kind in NUMPY:
            values.append(NUMPY[kind](*(values[int(each)] for each in numbers)))
        else:
            values.append(np.float32(1) if kind == "one" else inputs[kind][int(numbers[0])])
    return values


@pytest.mark.parametrize("is_one_variable", [False, True])
@pytest.mark.parametrize("seed", range(150))
def test_any_program_computes_what_its_steps_say(seed, is_one_variable):
    random = np.random.default_rng(seed)
    size = int(random.choice([200, 256, 700]))
    steps, stores, stored = random_program(random)
    one, other, wide, low = (random.uniform(0.5, 2, size).astype(np.float32) for _ in range(4))
    low = low.astype(tf.bfloat16.as_numpy_dtype)
    inputs = {
        "variable": [one, one if is_one_variable else other],
        "tensor": [wide, low.astype(np.float32)],
        "scalar": [np.float32(0.7), np.float32(1.3)],
    }
    with np.errstate(all="ignore"):
        values = expected_values(steps, inputs)
    expected = [np.broadcast_to(values[each], size) for each in stored]
    if is_one_variable:
        last = int(stores[-1].split(":")[1])
        expected = [expected[last]] * 2
    with tf.Graph().as_default():
        variables = [variable("one", one)]
        variables.append(variables[0] if is_one_variable else variable("other", other))
        step = update(
            " ".join([*steps, *stores]),
            [each.handle for each in variables],
            [tf.constant(wide), tf.constant(low)],
            [tf.constant(0.7), tf.constant(1.3)],
        )
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            session.run(step)
            for value, right in zip(session.run(variables), expected):
                np.testing.assert_array_equal(value, right)


def test_two_variables_can_change_places():
    with tf.Graph().as_default():
        one, other = variable("one", np.zeros(700, "f")), variable("other", np.ones(700, "f"))
        step = update("variable:0 variable:1 store:0:1 store:1:0", [one.handle, other.handle])
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            session.run(step)
            assert session.run([tf.reduce_sum(one), tf.reduce_sum(other)]) == [700, 0]


def test_a_value_that_was_handed_out_does_not_change():
    with tf.Graph().as_default():
        weights = variable("weights", np.zeros(1000, np.float32))
        before = weights.read_value()
        with tf.control_dependencies([before]):
            step = update(SGD, [weights.handle], [tf.ones([1000])], [tf.constant(-1.0)])
        with tf.control_dependencies([step]):
            after, kept = weights.read_value(), tf.identity(before)
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            kept, after = session.run([kept, after])
            np.testing.assert_array_equal(kept, 0)
            np.testing.assert_array_equal(after, 1)


def test_updates_in_several_threads_are_all_done():
    threads, steps = 4, 50
    with tf.Graph().as_default():
        weights = variable("weights", np.zeros(5000, np.float32))
        step = update(SGD, [weights.handle], [tf.ones([5000])], [tf.constant(-1.0)])
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())

            def run():
                for _ in range(steps):
                    session.run(step)

            started = [threading.Thread(target=run) for _ in range(threads)]
            for each in started:
                each.start()
            for each in started:
                each.join()
            np.testing.assert_array_equal(session.run(weights), threads * steps)


PROGRAMS = {
    "": "step 0 is ''",
    "what:0": "step 0 is 'what:0'",
    "variable": "step 0 is 'variable'",
    "variable:1": "step 0 is 'variable:1'",
    "variable:-1": "step 0 is 'variable:-1'",
    "variable:x": "step 0 is 'variable:x'",
    "tensor:0 add:0:1": "step 1 is 'add:0:1'",
    "tensor:0 add:0": "step 1 is 'add:0'",
    "tensor:0 store:0:0 neg:1": "step 2 is 'neg:1'",
    "tensor:0 store:0:0 neg:0": "step 2 is 'neg:0'",
    "scalar:1": "step 0 is 'scalar:1'",
    "tensor:0  store:0:0": "step 1 is ''",
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_that_is_none_is_an_error(program):
    with tf.Graph().as_default():
        weights = variable("weights", np.zeros(3, np.float32))
        step = update(program, [weights.handle], [tf.ones([3])], [tf.constant(1.0)])
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            with pytest.raises(tf.errors.InvalidArgumentError) as caught:
                session.run(step)
    assert PROGRAMS[program] in str(caught.value)


@pytest.mark.parametrize("is_reference", [False, True])
def test_a_variable_without_a_value_is_an_error(is_reference):
    with tf.Graph().as_default():
        weights = tf1.get_variable("weights", [3], use_resource=not is_reference)
        target = weights._ref() if is_reference else weights.handle
        step = update(SGD, [target], [tf.ones([3])], [tf.constant(1.0)], is_reference)
        with tf1.Session() as session, pytest.raises(tf.errors.OpError) as caught:
            session.run(step)
    assert "weights" in str(caught.value)


def sizes(name):
    with tf.Graph().as_default():
        weights = variable("weights", np.zeros(3, np.float32))
        other = variable("other", np.zeros(4 if name == "variable" else 3, np.float32))
        step = update(
            "tensor:0 scalar:0 mul:0:1 variable:0 variable:1 add:3:4 store:0:2",
            [weights.handle, other.handle],
            [tf.ones([4 if name == "tensor" else 3], name="tensor")],
            [tf.ones([2] if name == "scalar" else [], name="scalar")],
        )
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            session.run(step)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("tensor", "tensor has the shape [4], but the variables have 3 elements"),
        ("scalar", "scalar has the shape [2], but must be a scalar"),
        ("variable", "the variable other"),
    ],
)
def test_a_size_that_does_not_fit_is_an_error(name, expected):
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        sizes(name)
    assert expected in str(caught.value)
    sizes("none")
