"""FlightRecorder: the gradients of steps that overflow, and of some that do not."""

from __future__ import annotations

import gc
import json
import weakref

import numpy as np
import pytest
import tensorflow as tf
from support.tf_versions import needs_functions_by_default

import npu_precision
from npu_precision import amp
from npu_precision.loss_scaling.observed_gradients import backward_order, forward_op, observed

tf1 = tf.compat.v1
INF, NAN = np.inf, np.nan
each_place = pytest.mark.parametrize("place", [tf.function, lambda f: f], ids=["function", "eager"])


def events(folder):
    lines = map(json.loads, (folder / "flight.jsonl").read_text().splitlines())
    return [line for line in lines if line["event"] in ("sample", "overflow")]


def scalars(folder):
    """The points of TensorBoard: {tag: [(step, value)]}."""
    found = {}
    for file in folder.glob("events.out.tfevents.*"):
        for event in tf1.train.summary_iterator(str(file)):
            for value in event.summary.value:
                found.setdefault(value.tag, []).append((event.step, value.simple_value))
    return found


def session_steps(optimizer, *factors):
    """Makes steps with two weights, one behind the other; each factor belongs to one of them."""
    with tf.Graph().as_default() as graph:
        first = tf1.get_variable("first", initializer=[[1.0, 2.0]], use_resource=True)
        second = tf1.get_variable("second", initializer=[[1.0], [0.0]], use_resource=True)
        pair = tf1.placeholder(tf.float32, [2])
        hidden = tf.matmul([[1.0]], first, name="hidden/MatMul") * pair[0]
        loss = tf.reduce_sum(tf.matmul(hidden, second, name="output/MatMul")) * pair[1]
        step = optimizer.minimize(loss)
        with tf1.Session(graph=graph) as session:
            session.run(tf1.global_variables_initializer())
            for factor in factors:
                session.run(step, {pair: factor})


def npu_optimizer():
    manager = npu_precision.ExponentialUpdateLossScaleManager(16.0, 1000, 1, 2, 0.5)
    return npu_precision.NPULossScaleOptimizer(tf1.train.GradientDescentOptimizer(0.0), manager)


def amp_optimizer():
    return amp.initialize(
        tf1.train.GradientDescentOptimizer(0.0), "O1", loss_scale=16.0, verbosity=0
    )[0]


@pytest.mark.parametrize("make", [npu_optimizer, amp_optimizer])
def test_the_first_gradient_is_that_which_the_backward_pass_comes_to_first(make, tmp_path):
    with npu_precision.FlightRecorder(tmp_path):
        session_steps(make(), (1, 1), (1, INF), (INF, 1), (NAN, 1), (1, 1))
    sample, *overflows = events(tmp_path)
    assert sample == {
        "event": "sample",
        "source": "GradientDescentOptimizer",
        "step": 0,
        "scale": 16.0,
        "gradients": 2,
        "zero_share": 0.25,
        "all_zero_count": 0,
        "all_zero": [],
    }
    assert [event["step"] for event in overflows] == [1, 2, 3]
    # An infinity times the zero in the other weight is a NaN.
    assert [event["first"]["value"] for event in overflows] == ["infinity", "infinity", "nan"]
    assert [event["first"]["forward_op"] for event in overflows] == ["output/MatMul"] * 3
    assert [event["not_finite_count"] for event in overflows] == [2, 2, 2]


def test_scalars_are_what_the_lines_say(tmp_path):
    with npu_precision.FlightRecorder(tmp_path, every_n_steps=2):
        session_steps(npu_optimizer(), (1, 1), (1, INF), (1, 0), (1, 1), (1, 1))
    source = "GradientDescentOptimizer"
    assert scalars(tmp_path) == {
        f"{source}/loss_scale": [(0, 16.0), (1, 16.0), (2, 8.0), (4, 8.0)],
        f"{source}/overflow": [(0, 0.0), (1, 1.0), (2, 0.0), (4, 0.0)],
        f"{source}/zero_share": [(0, 0.25), (1, 0.0), (2, 1.0), (4, 0.25)],
    }
    assert [event["step"] for event in events(tmp_path)] == [0, 1, 2, 4]
    assert events(tmp_path)[2]["all_zero"] == ["output/MatMul", "hidden/MatMul"]


def test_the_summary_is_for_people(tmp_path):
    with npu_precision.FlightRecorder(tmp_path, every_n_steps=1) as recorder:
        assert recorder.summary().startswith("no step was recorded: nothing ran inside")
        session_steps(npu_optimizer(), (1, INF), (1, 0))
    assert recorder.summary() == (
        "GradientDescentOptimizer: 2 steps, 1 overflowed\n"
        "  last overflow: step 0, scale 16: infinity in output/MatMul, and 1 more\n"
        "  step 1, scale 8: 100.0% of the gradients are zero\n"
        "  all zero, 2 of 2: output/MatMul, hidden/MatMul"
    )


def scaler_steps(place, *factors, unscale=False, scaler=None):
    scaler = scaler or npu_precision.GradScaler(16.0)
    optimizer = tf.keras.optimizers.SGD(0.0)
    table = tf.Variable([[1.0], [2.0], [3.0]], name="table")
    weight, unread = tf.Variable([[0.5]], name="weight"), tf.Variable(1.0, name="unread")
    variables = [table, unread, weight]

    @place
    def step(factor):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.matmul(tf.gather(table, [0, 2]), weight) * factor)
            loss = scaler.scale(loss)
        gradients = tape.gradient(loss, variables)
        if unscale:
            gradients = scaler.unscale_(optimizer, gradients)
        pairs = [pair for pair in zip(gradients, variables) if pair[0] is not None]
        scaler.step(optimizer, pairs)
        scaler.update()

    for factor in factors:
        step(tf.constant(factor))
    return step


@needs_functions_by_default
@each_place
@pytest.mark.parametrize("unscale", [False, True])
def test_a_grad_scaler_is_recorded_once_per_step(place, unscale, tmp_path):
    with npu_precision.FlightRecorder(tmp_path, every_n_steps=2) as recorder:
        scaler_steps(place, 1.0, INF, 0.0, 1.0, unscale=unscale)
    assert "4 steps, 1 overflowed" in recorder.summary()
    assert [(event["step"], event["scale"]) for event in events(tmp_path)] == [
        (0, 16.0),
        (1, 16.0),
        (2, 8.0),
    ]
    first = events(tmp_path)[1]["first"]
    assert first["value"] == "infinity"
    if place is tf.function:
        assert first["forward_op"] == "MatMul"
    if not unscale:  # unscale_ gets the variables
        assert first["gradient"] == "weight:0" or first["gradient"] == "weight"


@needs_functions_by_default
def test_what_is_not_enabled_is_not_recorded(tmp_path):
    with npu_precision.FlightRecorder(tmp_path) as recorder:
        scaler_steps(tf.function, 1.0, scaler=npu_precision.GradScaler(enabled=False))
    assert recorder.summary().startswith("no step was recorded")


@needs_functions_by_default
def test_steps_are_recorded_until_the_recorder_is_left(tmp_path):
    with npu_precision.FlightRecorder(tmp_path) as recorder:
        step = scaler_steps(tf.function, 1.0)
    step(tf.constant(INF))
    assert len(events(tmp_path)) == 1
    assert "0 overflowed" in recorder.summary()


@needs_functions_by_default
@pytest.mark.parametrize("losses", [1, 2])
def test_amp_is_recorded_loss_by_loss(losses, tmp_path):
    optimizer, _ = amp.initialize(
        tf.keras.optimizers.SGD(0.0), "O1", num_losses=losses, verbosity=0
    )
    weight = tf.Variable([1.0, 0.0])

    @tf.function
    def step(factors):
        total = 0.0
        with tf.GradientTape(persistent=True) as tape:
            scaled = []
            for loss_id in range(losses):
                loss = tf.reduce_sum(weight * weight) * factors[loss_id]
                with amp.scale_loss(loss, optimizer, loss_id) as scaled_loss:
                    scaled.append(scaled_loss)
        for loss_id, each in enumerate(scaled):
            grads = tape.gradient(each, [weight])
            if losses > 1:
                grads = amp.unscale_gradients(grads, optimizer, loss_id)
            total += grads[0]
        optimizer.apply_gradients([(total, weight)])

    with npu_precision.FlightRecorder(tmp_path) as recorder:
        step(tf.constant([1.0, 1.0]))
        step(tf.constant([1.0 if losses > 1 else INF, INF]))
    sources = [(event["event"], event["source"].split("/")[1:]) for event in events(tmp_path)]
    if losses == 1:
        assert sources == [("sample", []), ("overflow", [])]
    else:
        assert sources == [("sample", ["loss0"]), ("sample", ["loss1"]), ("overflow", ["loss1"])]
    assert "2 steps, 1 overflowed" in recorder.summary()


def test_optimizers_of_one_class_are_told_apart(tmp_path):
    with npu_precision.FlightRecorder(tmp_path) as recorder:
        for _ in range(2):
            session_steps(npu_optimizer(), (1, 1))
    assert [event["source"] for event in events(tmp_path)] == [
        "GradientDescentOptimizer",
        "GradientDescentOptimizer_2",
    ]
    assert recorder.summary().count("1 steps, 0 overflowed") == 2


@pytest.mark.parametrize(
    ("values", "kind"),
    [([1.0, INF], "infinity"), ([NAN, 1.0], "nan"), ([INF, NAN], "nan"), ([-INF, 0.0], "infinity")],
)
def test_a_gradient_with_both_is_one_with_a_nan(values, kind, tmp_path):
    with npu_precision.FlightRecorder(tmp_path), tf.Graph().as_default():
        (gradient,) = observed([tf.constant(values)], tf.constant(2.0**40), object_with_a_name())
        with tf1.Session() as session:
            session.run(gradient)
    (event,) = events(tmp_path)
    assert event["first"] == {"gradient": "gradient 0", "forward_op": None, "value": kind}
    assert event["scale"] == 2.0**40


def object_with_a_name():
    return tf1.train.GradientDescentOptimizer(1.0)


def test_a_gradient_without_elements_is_not_zero(tmp_path):
    with npu_precision.FlightRecorder(tmp_path), tf.Graph().as_default():
        grads = [tf.zeros([0, 3]), None, tf.zeros([2])]
        got = observed(grads, tf.constant(1.0), object_with_a_name())
        with tf1.Session() as session:
            session.run([got[0], got[2]])
    assert got[1] is None
    assert events(tmp_path)[0]["all_zero"] == ["gradient 2"]
    assert events(tmp_path)[0]["zero_share"] == 1.0


@needs_functions_by_default
@pytest.mark.parametrize("fields", [{"precision_mode": "force_fp16"}, {"all_white": True}])
def test_recording_changes_no_step_where_everything_is_lowered(fields, tmp_path):
    """The recorder sees the exact values of gradients and of a scale that overflow in float16."""

    def train():
        weight = tf.Variable([1.0] * 4)
        optimizer = tf.keras.optimizers.SGD(1.0)
        scaler = npu_precision.GradScaler(2.0**20)

        @tf.function
        def step(factor):
            with tf.GradientTape() as tape:
                scaled = scaler.scale(tf.reduce_sum(weight) * factor)
            gradient = tape.gradient(scaled, weight)
            with npu_precision.keep_dtype_scope():
                gradient = gradient + 2.0**20
            scaler.step(optimizer, [(gradient, weight)])
            scaler.update()

        mode = {"precision_mode": "allow_mix_precision", **fields}
        with npu_precision.autocast(**mode):
            step(tf.constant(2.0**-20))
        return weight.numpy(), int(scaler.skipped_steps)

    plain = train()
    with npu_precision.FlightRecorder(tmp_path):
        recorded = train()
    np.testing.assert_array_equal(recorded[0], plain[0])
    assert recorded[1] == plain[1]
    (event,) = events(tmp_path)
    # force_fp16 lowers the gradient of the scaled loss, which is the scale.
    assert event["event"] == ("sample" if "all_white" in fields else "overflow")
    assert event["scale"] == 2.0**20


@needs_functions_by_default
def test_a_recorder_keeps_no_graph_alive(tmp_path):
    with npu_precision.FlightRecorder(tmp_path):
        scaler_steps(tf.function, 1.0)
        graphs = []

        def remember():
            graphs.append(weakref.ref(tf1.get_default_graph()))

        scaler_steps(lambda step: tf.function(lambda factor: (remember(), step(factor))[1]), 1.0)
        gc.collect()
        assert graphs
        assert not any(graph() for graph in graphs)


def test_a_recorder_is_for_one_run(tmp_path):
    with npu_precision.FlightRecorder(tmp_path) as recorder:
        with pytest.raises(RuntimeError, match="entered before"), recorder:
            pass
        session_steps(npu_optimizer(), (1, 1))
    with pytest.raises(RuntimeError, match="entered before"), recorder:
        pass
    assert len(events(tmp_path)) == 1


@needs_functions_by_default
@pytest.mark.parametrize("level", ["O1", "O2", "O3"])
@pytest.mark.parametrize("unscale", [False, True])
def test_the_scale_is_recorded_as_it_is_at_every_level(level, unscale, tmp_path):
    optimizer, _ = amp.initialize(
        tf.keras.optimizers.SGD(0.0), level, loss_scale=2.0**20, verbosity=0
    )
    weight = tf.Variable([1.0] * 4)

    @tf.function
    def step():
        with amp.scale_loss(tf.constant(1.0), optimizer):
            grads = [tf.fill([4], 2.0)]
        if unscale:
            grads = amp.unscale_gradients(grads, optimizer)
        optimizer.apply_gradients(zip(grads, [weight]))

    with npu_precision.FlightRecorder(tmp_path):
        step()
    (event,) = events(tmp_path)
    assert (event["event"], event["scale"]) == ("sample", 2.0**20)


def test_a_second_run_adds_to_the_lines_of_the_first(tmp_path):
    for _ in range(2):
        with npu_precision.FlightRecorder(tmp_path / "new" / "folder"):
            session_steps(npu_optimizer(), (1, 1))
    assert [event["step"] for event in events(tmp_path / "new" / "folder")] == [0, 0]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"folder": 3}, ValueError, "folder: got 3 (int), expected str or os.PathLike"),
        ({"every_n_steps": 0}, ValueError, "every_n_steps: got 0 (int), expected a whole number"),
        ({"every_n_steps": 1.5}, ValueError, "every_n_steps: got 1.5 (float)"),
        ({"folder": "/proc/nothing/here"}, OSError, "/proc/nothing"),
    ],
)
def test_what_cannot_be_recorded_is_refused(arguments, error, message, tmp_path):
    with pytest.raises(error) as raised:
        npu_precision.FlightRecorder(**{"folder": tmp_path, **arguments})
    assert message in str(raised.value)


def test_a_full_disk_ends_the_recording_and_not_the_run(tmp_path, monkeypatch, caplog):
    with npu_precision.FlightRecorder(tmp_path) as recorder:

        def add(*_):
            raise OSError("No space left on device")

        monkeypatch.setattr(recorder._log, "add", add)
        session_steps(npu_optimizer(), (1, INF), (1, INF))
    assert caplog.text.count("nothing more is recorded: No space left on device") == 1


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda w: tf.matmul(w, w, name="layer/MatMul"), "layer/MatMul"),
        # A sum of two ops, one of them named.
        (lambda w: tf.exp(w, name="a/b/exp") + tf.exp(w, name="a/c/exp"), "/exp"),
        (lambda w: tf.cast(tf.exp(tf.cast(w, tf.float16), name="low"), tf.float32), "Cast"),
    ],
)
def test_the_op_that_a_gradient_belongs_to_is_in_its_name(build, expected):
    with tf.Graph().as_default():
        weight = tf1.get_variable("w", [2, 2], use_resource=True)
        with tf.name_scope("outer"):
            (gradient,) = tf.gradients(tf.reduce_sum(build(weight)), weight)
        found = forward_op(gradient)
    assert found.endswith(expected)


def test_the_order_of_the_backward_pass_is_not_that_of_the_variables():
    """In this model, the variable that is used last comes first."""
    with tf.Graph().as_default():
        last = tf1.get_variable("last", [2, 2], use_resource=True)
        first = tf1.get_variable("first", [2, 2], use_resource=True)
        loss = tf.reduce_sum(tf.matmul(tf.exp(first), last))
        assert backward_order(tf.gradients(loss, [last, first])) == [0, 1]
        assert backward_order([None, *tf.gradients(loss, [first, last])]) == [2, 1]
