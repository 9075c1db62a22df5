"""npu_bridge's npu_dynamic_rnn: an LSTM and a GRU, computed with TensorFlow's own ops."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from npu_precision import _errors
from npu_precision._tf_compat import tf1

DYNAMIC_RNN_UNIDIRECTION = "UNIDIRECTIONAL"


class _Layer:
    """The common part of DynamicRNN and DynamicGRUV2: fixed options, variables, and states.

    `only` has the options that allow one value, as on an NPU, each with the given and the allowed
    value.
    """

    # The name for the scope of the variables.
    _scope_name = ""

    def __init__(self, hidden_size: int, dtype: Any, **only: Any) -> None:
        for name, (value, expected) in only.items():
            if value != expected:
                raise ValueError(
                    f"{name}: got {_errors.got(value)}, expected {expected!r}; an NPU has no other"
                )
        self.hidden_size = hidden_size
        self.dtype = tf.as_dtype(dtype)
        self._scope: Any = None

    def _checked(self, x: Any) -> tf.Tensor:
        x = tf.cast(x, self.dtype)
        if x.shape.rank != 3 or x.shape[2] is None:
            raise ValueError(
                f"x: got a tensor of shape {x.shape}, expected [steps, batch, features] with a "
                "known number of features"
            )
        return x

    def _variable(self, name: str, shape: list[int]) -> Any:
        """A variable of this layer, the same in each call: a bias of zeros, or a weight."""
        if self._scope is None:
            with tf1.variable_scope(None, default_name=self._scope_name) as self._scope:
                pass
        initializer = tf1.zeros_initializer() if len(shape) == 1 else None
        with tf1.variable_scope(self._scope, reuse=tf1.AUTO_REUSE, auxiliary_name_scope=False):
            return tf1.get_variable(name, shape, self.dtype, initializer)

    def _state(self, given: Any, x: tf.Tensor) -> tf.Tensor:
        """The first state, [batch, hidden]: zeros, or the given one, also of [1, batch, hidden]."""
        if given is None:
            return tf.zeros([tf.shape(x)[1], self.hidden_size], self.dtype)
        return tf.reshape(tf.cast(given, self.dtype), [-1, self.hidden_size])


def _alive(x: tf.Tensor, seq_length: Any) -> tf.Tensor:
    """Whether each sequence has not ended, by step: [steps, batch]."""
    steps, batch = tf.shape(x)[0], tf.shape(x)[1]
    if seq_length is None:
        return tf.fill([steps, batch], True)
    return tf.transpose(tf.sequence_mask(seq_length, steps))


class DynamicRNN(_Layer):
    """An LSTM over the steps of a sequence.

    In each step, with w [features + hidden, 4 * hidden] and b [4 * hidden]:

        i, j, f, o = split([x, h] w + b)
        i, j, f, o = sigmoid(i), tanh(j), sigmoid(f + forget_bias), sigmoid(o)
        c = f * c + i * j;  tanhc = tanh(c);  h = o * tanhc

    This is as in BasicLSTMCell, whose kernel and bias have the same shapes and order. The variables
    are named dynamic_rnn/w and dynamic_rnn/b, the next instance's dynamic_rnn_1/w, and so on.

    Args:
        hidden_size: the size of the state h.
        dtype: the dtype of the variables and the computation.
        forget_bias: is added to the forget gate.
        is_training: has no effect: the tensors that an NPU keeps for gradients are always here.
        others: one value each, which is the default, as on an NPU.

    Raises:
        ValueError: another value.

    Source: npu_bridge's DynamicRNN; Huawei's "DynamicRNN Constructor" gives arguments, results and
    their shapes. The names and initial values of the variables are our own.
    """

    _scope_name = "dynamic_rnn"

    def __init__(
        self,
        hidden_size: int,
        dtype: Any,
        cell_type: str = "LSTM",
        direction: str = DYNAMIC_RNN_UNIDIRECTION,
        cell_depth: int = 1,
        use_peephole: bool = False,
        keep_prob: float = 1.0,
        cell_clip: float = -1.0,
        num_proj: int = 0,
        time_major: bool = True,
        activation: str = "tanh",
        forget_bias: float = 0.0,
        is_training: bool = True,
    ) -> None:
        del is_training
        super().__init__(
            hidden_size,
            dtype,
            cell_type=(cell_type, "LSTM"),
            use_peephole=(use_peephole, False),
            direction=(direction, DYNAMIC_RNN_UNIDIRECTION),
            cell_depth=(cell_depth, 1),
            keep_prob=(keep_prob, 1.0),
            cell_clip=(cell_clip, -1.0),
            num_proj=(num_proj, 0),
            time_major=(time_major, True),
            activation=(activation, "tanh"),
        )
        self._forget_bias = forget_bias

    def __call__(
        self, x: Any, seq_length: Any = None, init_h: Any = None, init_c: Any = None
    ) -> tuple[tf.Tensor, ...]:
        """Computes all steps.

        Args:
            x: [steps, batch, features].
            seq_length: [batch], how many steps each sequence has; None for all. After them y is
                zero, and h and c stay, as with tf.nn.dynamic_rnn.
            init_h: the first h, [batch, hidden] or [1, batch, hidden]; None for zeros.
            init_c: the first c.

        Returns:
            (y, h, c, i, j, f, o, tanhc), each [steps, batch, hidden]. The gates are those after
            their sigmoid or tanh.

        Raises:
            ValueError: x has another rank.
        """
        x = self._checked(x)
        size = self.hidden_size
        w = self._variable("w", [x.shape[2] + size, 4 * size])
        b = self._variable("b", [4 * size])

        def step(before: Any, now: Any) -> Any:
            x_now, alive = now
            h_before, c_before = before[1], before[2]
            gates = tf.matmul(tf.concat([x_now, h_before], 1), w) + b
            i, j, f, o = tf.split(gates, 4, axis=1)
            i, j, o = tf.sigmoid(i), tf.tanh(j), tf.sigmoid(o)
            f = tf.sigmoid(f + tf.cast(self._forget_bias, f.dtype))
            c = f * c_before + i * j
            tanhc = tf.tanh(c)
            h = o * tanhc
            y = tf1.where(alive, h, tf.zeros_like(h))
            h, c = tf1.where(alive, h, h_before), tf1.where(alive, c, c_before)
            return y, h, c, i, j, f, o, tanhc

        h, c = self._state(init_h, x), self._state(init_c, x)
        first = (tf.zeros_like(h), h, c, *[tf.zeros_like(h) for _ in range(5)])
        with tf1.name_scope(self._scope_name):
            return tuple(tf.scan(step, (x, _alive(x, seq_length)), initializer=first))


class DynamicGRUV2(_Layer):
    """A GRU over the steps of a sequence.

    In each step, with weight_input [features, 3 * hidden], weight_hidden [hidden, 3 * hidden] and
    a bias [3 * hidden] for each:

        z = sigmoid(x wi_z + bi_z + h wh_z + bh_z);  r = sigmoid(x wi_r + bi_r + h wh_r + bh_r)
        hidden_new = h wh_h + bh_h;  new = tanh(x wi_h + bi_h + r * hidden_new)
        h = (1 - z) * new + z * h

    Without reset_after, hidden_new is (r * h) wh_h + bh_h, and new = tanh(x wi_h + bi_h +
    hidden_new). The variables are named dynamic_gru_v2/weight_input and so on.

    Args:
        hidden_size: the size of the state h.
        dtype: the dtype of the variables and the computation.
        gate_order: which third of the variables is which gate: "zrh", or "rzh".
        reset_after: whether the reset gate is applied after the product with h.
        is_training: has no effect: the tensors that an NPU keeps for gradients are always here.
        others: one value each, which is the default, as on an NPU.

    Raises:
        ValueError: another value.

    Source: npu_bridge's DynamicGRUV2; Huawei's "DynamicGRUV2 Constructor" gives arguments and
    results, the document of the same op in MindSpore the formulas. The names and initial values of
    the variables are our own.
    """

    _scope_name = "dynamic_gru_v2"

    def __init__(
        self,
        hidden_size: int,
        dtype: Any,
        direction: str = DYNAMIC_RNN_UNIDIRECTION,
        cell_depth: int = 1,
        keep_prob: float = 1.0,
        cell_clip: float = -1.0,
        num_proj: int = 0,
        time_major: bool = True,
        activation: str = "tanh",
        gate_order: str = "zrh",
        reset_after: bool = True,
        is_training: bool = True,
    ) -> None:
        del is_training
        super().__init__(
            hidden_size,
            dtype,
            direction=(direction, DYNAMIC_RNN_UNIDIRECTION),
            cell_depth=(cell_depth, 1),
            keep_prob=(keep_prob, 1.0),
            cell_clip=(cell_clip, -1.0),
            num_proj=(num_proj, 0),
            time_major=(time_major, True),
            activation=(activation, "tanh"),
        )
        if gate_order not in ("zrh", "rzh"):
            raise ValueError(f"gate_order: got {_errors.got(gate_order)}, expected 'zrh' or 'rzh'")
        self._gate_order = gate_order
        self._reset_after = reset_after

    def __call__(self, x: Any, seq_length: Any = None, init_h: Any = None) -> tuple[tf.Tensor, ...]:
        """Computes all steps.

        Args:
            x: [steps, batch, features].
            seq_length: [batch], how many steps each sequence has; None for all. After them y is
                zero, and h stays, as with tf.nn.dynamic_rnn.
            init_h: the first h, [batch, hidden] or [1, batch, hidden]; None for zeros.

        Returns:
            (y, h, update, reset, new, hidden_new), each [steps, batch, hidden].

        Raises:
            ValueError: x has another rank.
        """
        x = self._checked(x)
        size = self.hidden_size
        wi = self._variable("weight_input", [x.shape[2], 3 * size])
        wh = self._variable("weight_hidden", [size, 3 * size])
        bi = self._variable("bias_input", [3 * size])
        bh = self._variable("bias_hidden", [3 * size])
        of_gate = [self._gate_order.index(gate) for gate in "zrh"]
        wh_last, bh_last = wh[:, 2 * size :], bh[2 * size :]

        def step(before: Any, now: Any) -> Any:
            x_now, alive = now
            h_before = before[1]
            of_x = tf.split(tf.matmul(x_now, wi) + bi, 3, axis=1)
            of_h = tf.split(tf.matmul(h_before, wh) + bh, 3, axis=1)
            update, reset = [tf.sigmoid(of_x[gate] + of_h[gate]) for gate in of_gate[:2]]
            if self._reset_after:
                hidden_new = of_h[2]
                new = tf.tanh(of_x[2] + reset * hidden_new)
            else:
                hidden_new = tf.matmul(reset * h_before, wh_last) + bh_last
                new = tf.tanh(of_x[2] + hidden_new)
            h = (1 - update) * new + update * h_before
            y = tf1.where(alive, h, tf.zeros_like(h))
            return y, tf1.where(alive, h, h_before), update, reset, new, hidden_new

        h = self._state(init_h, x)
        first = (tf.zeros_like(h), h, *[tf.zeros_like(h) for _ in range(4)])
        with tf1.name_scope(self._scope_name):
            return tuple(tf.scan(step, (x, _alive(x, seq_length)), initializer=first))
