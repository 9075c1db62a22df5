"""Random small programs: a model's output, a loss of it, and perhaps a loop; drawn by hypothesis.

A program is data, which prints as what it computes, and shrinks. Its expressions are tuples:
("log", ("add", ("p",), 1e-07)) is log(p + 1e-07); p is the output of the model, and t a target.
Their grammar has three sorts, so that float32 is in the domain of each op: numbers from 0 to 1,
positive numbers, and any.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import tensorflow as tf
from hypothesis import strategies as st

tf1 = tf.compat.v1

ROWS, WIDTH, COLUMNS = 4, 16, 6
# A loop that runs longer is taken to never end.
MOST_ITERATIONS = 3000
EPSILONS = (1e-3, 1e-5, 1e-7, 1e-8, 1e-12)
OFFSETS = (1.0, 30.0, -700.0)
UNIT_ACTIVATIONS = ("sigmoid", "softmax")
# The loss is multiplied by this before its gradients are computed, as float16's users do.
LOSS_SCALE = 64.0


@dataclasses.dataclass(frozen=True)
class Loop:
    """A loop whose state begins as zeros, or ones, of the shape of y.

    Attributes:
        kind: the body's use of y: "sum", "decay", "max", "product" or "recurrence".
        rate: the factor of "decay" and "product", the cost of a step of "max".
        until: "count": ends after `turns` iterations. "state": ends when a running sum of
            means of y reaches a limit, after about `turns` iterations. "clock": ends when steps of
            0.1 reach turns / 10.
        turns: about how many iterations there are.
        inside: whether the model runs in the body, and not before the loop.
        form: "while", "scan", or "unrolled" in Python; the last two end by count.
    """

    kind: str
    rate: float
    until: str
    turns: int
    inside: bool
    form: str


@dataclasses.dataclass(frozen=True)
class Program:
    """A program.

    Attributes:
        scale: the approximate size of the last product's values.
        layers: the number of products.
        activation: the activation after the last product.
        reshaped: whether a reshape follows the activation.
        loss: the expression that is reduced to the loss.
        reduction: how it is reduced: "mean", "sum", or "mean of sums".
        loop: the loop, or None.
        steps: the number of steps of SGD; 0 is inference.
        seed: the seed of the values.
        inner_steps: the number of steps of SGD that the graph makes before it computes the loss, as
            in MAML.
    """

    scale: float
    layers: int
    activation: str
    reshaped: bool
    loss: tuple
    reduction: str
    loop: Loop | None
    steps: int
    seed: int
    inner_steps: int = 0


def programs(loops: bool, trains: bool) -> st.SearchStrategy[Program]:
    """Programs with or without a loop, in training or inference."""
    return st.composite(_program)(loops, trains)


def _program(draw, loops: bool, trains: bool) -> Program:
    activation = draw(st.sampled_from(["sigmoid", "softmax", "tanh", "relu", "none"]))
    return Program(
        draw(st.sampled_from([1.0, 0.3, 4.0])),
        draw(st.integers(1, 2)),
        activation,
        draw(st.booleans()),
        draw(_Grammar(activation).real(3).filter(reads_output)),
        draw(st.sampled_from(["mean", "sum", "mean of sums"])),
        draw(_loops()) if loops else None,
        draw(st.integers(1, 3)) if trains else 0,
        draw(st.integers(0, 7)),
        draw(st.sampled_from([0, 0, 1, 4])),
    )


def reads_output(expression: tuple) -> bool:
    """Whether the model's output is in an expression."""
    return expression == ("p",) or any(
        reads_output(operand) for operand in expression if isinstance(operand, tuple)
    )


def _loops() -> st.SearchStrategy[Loop]:
    return st.builds(
        Loop,
        st.sampled_from(["sum", "decay", "max", "product", "recurrence"]),
        st.sampled_from([0.01, 0.001, 0.1]),
        st.sampled_from(["count", "state", "clock"]),
        st.sampled_from([10, 100, 600]),
        st.booleans(),
        st.sampled_from(["while", "scan", "unrolled"]),
    )


class _Grammar:
    """The expressions of a model's output; `depth` limits how they nest."""

    def __init__(self, activation: str):
        self._is_unit = activation in UNIT_ACTIVATIONS

    def unit(self, depth: int) -> st.SearchStrategy[tuple]:
        """Numbers from 0 to 1."""
        output = ("p",) if self._is_unit else ("sigmoid", ("p",))
        leaves = st.sampled_from([output, ("t",)])
        if depth == 0:
            return leaves
        inner = self.unit(depth - 1)
        return st.one_of(
            leaves,
            st.tuples(st.just("one_minus"), inner),
            st.tuples(st.just("mul"), inner, inner),
            st.tuples(st.just("smooth"), inner, st.sampled_from([0.1, 0.01])),
            st.tuples(st.just("normalize"), inner, st.sampled_from(EPSILONS)),
        )

    def positive(self, depth: int) -> st.SearchStrategy[tuple]:
        """Positive numbers; a guard limits how small they are."""
        epsilon = st.sampled_from(EPSILONS)
        unit = self.unit(max(depth - 1, 0))
        choices = [
            st.tuples(st.just("add"), unit, epsilon),
            st.tuples(st.just("clip"), unit, epsilon),
            st.tuples(st.just("maximum"), unit, epsilon),
        ]
        if depth > 0:
            inner = self.real(depth - 1)
            choices += [
                st.tuples(st.just("add"), st.tuples(st.just("square"), inner), epsilon),
                st.tuples(st.just("add"), st.tuples(st.just("abs"), inner), epsilon),
                st.tuples(st.just("add_sum"), st.tuples(st.just("square"), inner), epsilon),
            ]
        return st.one_of(choices)

    def real(self, depth: int) -> st.SearchStrategy[tuple]:
        """Any numbers."""
        leaves = st.sampled_from([("p",), ("sub", ("p",), ("t",))])
        if depth == 0:
            return leaves
        inner, positive = self.real(depth - 1), self.positive(depth - 1)
        return st.one_of(
            leaves,
            st.tuples(st.just("log"), positive),
            st.tuples(st.just("log1p"), positive),
            st.tuples(st.just("sqrt"), positive),
            st.tuples(st.just("rsqrt"), positive),
            st.tuples(st.just("pow"), positive, st.sampled_from([2.0, 0.5, -0.5, 3.0])),
            st.tuples(st.just("div"), inner, positive),
            st.tuples(st.just("mul"), inner, st.one_of(inner, self.unit(depth - 1))),
            st.tuples(st.just("masked"), inner, st.sampled_from([0.0, -1e9, 1.0])),
            st.tuples(st.just("add"), inner, st.sampled_from([1.0, 1e-7, -10.0])),
            st.tuples(st.just("square"), inner),
            st.tuples(st.just("negative"), inner),
            st.tuples(st.just("centre"), inner, st.sampled_from(OFFSETS)),
            st.tuples(st.just("layer_norm"), inner, st.sampled_from(OFFSETS)),
            st.tuples(st.just("waves"), inner),
            st.tuples(st.just("soft_argmax"), inner),
            st.tuples(st.just("one_minus_cosine"), inner, inner),
        )


def evaluate(expression: tuple, p: tf.Tensor, t: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """The value of an expression."""
    op, *operands = expression
    values = [
        evaluate(operand, p, t, mask) if isinstance(operand, tuple) else operand
        for operand in operands
    ]
    return {"p": lambda: p, "t": lambda: t, "masked": _masked(mask), **_OPS}[op](*values)


def _masked(mask: tf.Tensor):
    def masked(value: tf.Tensor, other: float) -> tf.Tensor:
        if value.shape.as_list() != mask.shape.as_list():  # A sum of each row.
            value = tf.broadcast_to(value, mask.shape)
        return tf1.where(mask, value, tf.fill(mask.shape, other))

    return masked


def _normalized(value: tf.Tensor, epsilon: float) -> tf.Tensor:
    return value / (tf.reduce_sum(value, 1, keepdims=True) + epsilon)


def _centred(value: tf.Tensor, offset: float) -> tf.Tensor:
    """What is left of `offset` + value without the mean of the rows."""
    value += offset
    return value - tf.reduce_mean(value, 0, keepdims=True)


def _layer_norm(value: tf.Tensor, offset: float) -> tf.Tensor:
    """The layer norm of Keras 3, of `offset` + value."""
    value += offset
    mean, variance = tf.nn.moments(value, [0], keepdims=True)
    inverse = tf1.rsqrt(variance + 1e-3)
    return value * inverse + (-mean * inverse)


def _waves(value: tf.Tensor) -> tf.Tensor:
    """The sum of sines at positions that a constant counts."""
    return tf.reduce_sum(tf.sin(value[..., tf.newaxis] + 10.0 * tf.range(100.0)), -1)


def _soft_argmax(value: tf.Tensor) -> tf.Tensor:
    """The expected column of each row, from the middle."""
    columns = value.shape.as_list()[1]
    places = tf.reduce_sum(tf.nn.softmax(value) * tf.range(float(columns)), 1, keepdims=True)
    return places - (columns - 1) / 2.0


def _one_minus_cosine(value: tf.Tensor, other: tf.Tensor) -> tf.Tensor:
    """The cosine distance of each row to itself, moved a little towards another."""
    near = value + 0.1 * tf.tanh(other)
    # With a tiny epsilon it would jump where a row is zero.
    unit, unit_near = (tf.math.l2_normalize(each, 1, 0.01) for each in (value, near))
    return 1.0 - tf.reduce_sum(unit * unit_near, 1, keepdims=True)


_OPS = {
    "centre": _centred,
    "layer_norm": _layer_norm,
    "waves": _waves,
    "soft_argmax": _soft_argmax,
    "one_minus_cosine": _one_minus_cosine,
    "sigmoid": tf.sigmoid,
    "one_minus": lambda value: 1.0 - value,
    "smooth": lambda value, share: value * (1.0 - share) + share / COLUMNS,
    "normalize": _normalized,
    "add": lambda value, other: value + other,
    "add_sum": lambda value, other: tf.reduce_sum(value, 1, keepdims=True) + other,
    "sub": lambda value, other: value - other,
    "mul": lambda value, other: value * other,
    "div": lambda value, other: value / other,
    "clip": lambda value, epsilon: tf.clip_by_value(value, epsilon, 1.0 - epsilon),
    "maximum": tf.maximum,
    "log": tf1.log,
    "log1p": tf1.log1p,
    "sqrt": tf.sqrt,
    "rsqrt": tf1.rsqrt,
    "pow": tf.pow,
    "square": tf.square,
    "abs": tf.abs,
    "negative": tf.negative,
}
_ACTIVATIONS = {
    "sigmoid": tf.sigmoid,
    "softmax": tf.nn.softmax,
    "tanh": tf.tanh,
    "relu": tf.nn.relu,
    "none": tf.identity,
}
_REDUCTIONS = {
    "mean": tf.reduce_mean,
    "sum": tf.reduce_sum,
    "mean of sums": lambda value: tf.reduce_mean(tf.reduce_sum(value, 1)),
}


class BuiltProgram:
    """A program as a graph of TensorFlow 1.

    Attributes:
        graph: the graph.
        start: assigns the fed weights to the variables.
        step: makes a step of SGD.
        results: the tensors that are compared, by name: "loss", and "values", of which it is the
            mean or sum; "state" and "count" of a loop; "inner change", which inner steps add to the
            weights.
        terms: the loss with the absolute values of its terms. If terms cancel, errors are measured
            as a share of this size.
        largest_gradient: the largest element of the scaled gradients; 0 in inference.
        weights: the variables.
    """

    def __init__(self, program: Program):
        self._program = program
        self.graph = tf.Graph()
        with self.graph.as_default():
            self._build()

    def feeds(self, noise: float = 0.0, draw: int = 0) -> dict[tf.Tensor, np.ndarray]:
        """The values of the placeholders, each changed by the fraction `noise` of itself."""
        random = np.random.default_rng([self._program.seed, 1])
        other = np.random.default_rng([self._program.seed, 2, draw])
        found = {}
        for placeholder, scale in self._sources:
            value = random.normal(scale=scale, size=placeholder.shape.as_list())
            value *= 1 + noise * other.choice([-1.0, 1.0], value.shape)
            found[placeholder] = value.astype(np.float32)
        shape = self._target.shape.as_list()
        found[self._target] = np.eye(COLUMNS)[random.integers(0, COLUMNS, ROWS)].reshape(shape)
        found[self._mask] = random.random(shape) < 0.7
        return found

    def _build(self) -> None:
        program = self._program
        self._sources: list[tuple[tf.Tensor, float]] = []
        self._x = self._source("x", [ROWS, WIDTH], 1.0)
        sizes = [WIDTH] * program.layers + [COLUMNS]
        scales = [1.0] * (program.layers - 1) + [program.scale]
        assigns, self.weights = [], []
        for number, scale in enumerate(scales):
            shape = sizes[number : number + 2]
            fed = self._source(f"w{number}", shape, scale / np.sqrt(shape[0]))
            self.weights.append(tf1.get_variable(f"v{number}", shape, use_resource=True))
            assigns.append(tf1.assign(self.weights[-1], fed))
        self.start = tf.group(*assigns)
        shape = [COLUMNS, ROWS] if program.reshaped else [ROWS, COLUMNS]
        self._target = tf1.placeholder(tf.float32, shape, "t")
        self._mask = tf1.placeholder(tf.bool, shape, "mask")
        weights = [tf.identity(variable) for variable in self.weights]
        given = weights
        for _ in range(program.inner_steps):
            inner_loss = tf.reduce_mean(tf.square(self._model(self._x, weights) - self._target))
            gradients = tf1.gradients(inner_loss, weights)
            weights = [w - 0.1 * gradient for w, gradient in zip(weights, gradients)]
        p = self._model(self._x, weights)
        loss = evaluate(program.loss, p, self._target, self._mask)
        reduce = _REDUCTIONS[program.reduction]
        # A mean hides errors of different signs.
        self.results = {"loss": reduce(loss), "values": loss}
        if program.inner_steps:
            moved = [tf.reshape(w - first, [-1]) for w, first in zip(weights, given)]
            self.results["inner change"] = tf.concat(moved, 0)
        self.terms = reduce(tf.abs(loss))
        objective = self.results["loss"]
        if program.loop is not None:
            state, count = self._loop(program.loop, p, weights)
            self.results.update(state=state, count=count)
            objective += tf.reduce_mean(state)
        self.step = tf.no_op()
        self.largest_gradient = tf.constant(0.0)
        if program.steps:
            found = tf1.gradients(objective * LOSS_SCALE, [p, *self.weights])
            known = [tf.reduce_max(tf.abs(each)) for each in found if each is not None]
            self.largest_gradient = tf.reduce_max(tf.stack(known))
            self.step = tf.group(
                *(
                    tf1.assign_sub(variable, gradient * (0.05 / LOSS_SCALE))
                    for variable, gradient in zip(self.weights, found[1:])
                    if gradient is not None
                )
            )

    def _source(self, name: str, shape: list[int], scale: float) -> tf.Tensor:
        placeholder = tf1.placeholder(tf.float32, shape, name)
        self._sources.append((placeholder, scale))
        return placeholder

    def _model(self, x: tf.Tensor, weights: list[tf.Tensor]) -> tf.Tensor:
        for matrix in weights[:-1]:
            x = tf.nn.relu(tf.matmul(x, matrix))
        p = _ACTIVATIONS[self._program.activation](tf.matmul(x, weights[-1]))
        return tf.reshape(p, [COLUMNS, ROWS]) if self._program.reshaped else p

    def _loop(
        self, loop: Loop, p: tf.Tensor, weights: list[tf.Tensor]
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """The state of the loop, and the number of iterations."""
        p = tf.reshape(p, [ROWS, COLUMNS])

        def value(state: tf.Tensor) -> tf.Tensor:
            if not loop.inside:
                return p
            # The next input depends on the state, so that nothing is hoisted.
            moved = tf.pad(0.01 * tf.tanh(state), [[0, 0], [0, WIDTH - COLUMNS]])
            return tf.reshape(self._model(self._x + moved, weights), [ROWS, COLUMNS])

        def advance(state: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            y = value(state)
            step = {
                "sum": lambda: state + y,
                "decay": lambda: (1.0 - loop.rate) * state + loop.rate * y,
                "max": lambda: tf.maximum(state, y) + loop.rate,
                "product": lambda: state * (1.0 - loop.rate * tf.sigmoid(y)),
                "recurrence": lambda: state + loop.rate * (tf.tanh(y) - state),
            }[loop.kind]()
            return step, tf.reduce_mean(tf.sigmoid(y))

        start = tf.fill([ROWS, COLUMNS], 1.0 if loop.kind == "product" else 0.0)
        if loop.form == "unrolled":
            state = start
            for _ in range(loop.turns):
                state, _ = advance(state)
            return state / _size(loop), tf.constant(float(loop.turns))
        if loop.form == "scan":
            states = tf.scan(lambda state, _: advance(state)[0], tf.zeros([loop.turns]), start)
            return states[-1] / _size(loop), tf.constant(float(loop.turns))
        limit = {"count": float(loop.turns), "state": 0.5 * loop.turns, "clock": 0.1 * loop.turns}

        def goes_on(count, total, state):
            return tf.logical_and(count < MOST_ITERATIONS, total < limit[loop.until])

        def body(count, total, state):
            state, mean = advance(state)
            more = {"count": 1.0, "state": mean, "clock": 0.1}[loop.until]
            return count + 1, total + more, state

        count, _, state = tf.while_loop(goes_on, body, [tf.constant(0), tf.constant(0.0), start])
        return state / _size(loop), tf.cast(count, tf.float32)


def _size(loop: Loop) -> float:
    """The approximate size that the state of a loop reaches."""
    return float(loop.turns) if loop.kind == "sum" else 1.0
