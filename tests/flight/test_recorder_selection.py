"""FlightRecorder: a range of steps, scopes of the model, statistics, and a stop at an infinity."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow as tf
from support.tf_versions import needs_compiled_functions, needs_functions_by_default

import npu_precision
from npu_precision.flight.selection import Selection
from npu_precision.flight.tensor_watch import TensorWatch

tf1 = tf.compat.v1
ONES = np.ones([4, 4], np.float32)


def events(folder, kind):
    lines = map(json.loads, (folder / "flight.jsonl").read_text().splitlines())
    return [line for line in lines if line["event"] == kind]


def lowered(**options):
    return npu_precision.autocast(precision_mode="allow_mix_precision", **options)


def model(x, scale):
    """Three products of ones; `scale` decides whether the second one is beyond float16."""
    with tf.name_scope("encoder"):
        with tf.name_scope("first"):
            x = tf.matmul(x, x, name="product")
        with tf.name_scope("second"):
            x = tf.matmul(x * scale, x, name="product")
    with tf.name_scope("decoder"):
        return tf.matmul(x, x, name="product")


def run(scales, function=None):
    function = function or tf.function(model)
    with lowered():
        for scale in scales:
            function(tf.constant(ONES), tf.constant(scale))


@pytest.mark.parametrize(
    ("steps", "recorded"),
    [(range(2, 5), [2, 3, 4]), (range(1, 8, 3), [1, 4, 7]), (range(7, 100), [7]), (range(1), [0])],
)
@needs_functions_by_default
def test_the_steps_of_a_range_are_recorded(steps, recorded, tmp_path):
    with npu_precision.FlightRecorder(tmp_path, steps=steps) as recorder:
        run(8 * [1.0])
    assert [event["step"] for event in events(tmp_path, "forward")] == recorded
    assert f"8 steps, {len(recorded)} recorded" in recorder.summary()
    (start,) = events(tmp_path, "start")
    assert start["every_n_steps"] == steps.step
    assert start["steps"] == [steps.start, steps.stop]


@needs_functions_by_default
def test_steps_that_never_ran_are_told(tmp_path):
    with npu_precision.FlightRecorder(tmp_path, steps=range(900, 901)) as recorder:
        run(2 * [1.0])
    assert recorder.summary() == "no step was recorded: steps or scopes select nothing of what ran"


@needs_functions_by_default
def test_the_range_goes_on_after_another_watch_took_over(tmp_path):
    function = tf.function(model)
    with npu_precision.FlightRecorder(tmp_path, steps=range(2, 7)) as recorder:
        run(4 * [1.0], function)
        with TensorWatch("lowered", 1, lambda step: None, takes_over=True):
            run(3 * [1.0], function)
        run(4 * [1.0], function)
    assert [event["step"] for event in events(tmp_path, "forward")] == [2, 3, 4, 5, 6]
    assert "8 steps, 5 recorded" in recorder.summary()


@pytest.mark.parametrize(
    ("scopes", "found"),
    [
        (["encoder"], {"encoder/first/product", "encoder/second/mul", "encoder/second/product"}),
        (["encoder/second"], {"encoder/second/mul", "encoder/second/product"}),
        (["first", "decoder"], {"encoder/first/product", "decoder/product"}),
        (["encoder/first/product"], {"encoder/first/product"}),
    ],
    ids=["a top scope", "a scope within", "parts of scopes", "a node"],
)
@needs_functions_by_default
def test_only_tensors_in_the_scopes_are_recorded(scopes, found, tmp_path):
    with npu_precision.FlightRecorder(tmp_path, 1, scopes=scopes) as recorder:
        run([1.0, 2.0])
    (tensors,) = events(tmp_path, "tensors")
    assert {name for name in tensors["tensors"] if name.count("/")} == found
    for event in events(tmp_path, "forward"):
        assert len(event["largest"]) == len(tensors["tensors"])
    assert "scopes:" not in recorder.summary()


@needs_functions_by_default
def test_a_scope_that_no_tensor_is_in_is_named(tmp_path):
    with npu_precision.FlightRecorder(tmp_path, 1, scopes=["encoder/first", "econder"]) as recorder:
        run([1.0])
    assert "scopes: no tensor is in 'econder'" in recorder.summary()
    assert "encoder/first'" not in recorder.summary()


@needs_functions_by_default
def test_a_scope_that_is_a_part_of_a_name_alone_has_no_tensor(tmp_path):
    with npu_precision.FlightRecorder(tmp_path, 1, scopes=["code", "first/prod"]) as recorder:
        run([1.0])
    assert events(tmp_path, "tensors") == []
    assert "no tensor is in 'code'" in recorder.summary()


@needs_functions_by_default
def test_without_any_tensor_in_the_scopes_nothing_is_recorded(tmp_path):
    with npu_precision.FlightRecorder(tmp_path, 1, scopes=["nowhere"]) as recorder:
        run([1.0])
    assert events(tmp_path, "forward") == []
    assert "no tensor is in 'nowhere'" in recorder.summary()


def statistics_of(values):
    finite = values[np.isfinite(values)].astype(np.float64)
    return {
        "mean": finite.mean(),
        "deviation": finite.std(),
        "norm_l1": np.abs(finite).sum(),
        "norm_l2": np.linalg.norm(finite),
        "least": finite.min(),
        "most": finite.max(),
    }


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("size", [7, 100_000])
def test_statistics_are_those_of_numpy_over_finite_values(dtype, size):
    steps = []
    values = np.random.default_rng(0).normal(0.3, 2.0, size).astype(np.float32)
    values[:2] = [np.inf, np.nan]
    with tf.Graph().as_default() as graph, TensorWatch(
        "all", Selection(statistics=True), steps.append
    ):
        x = tf1.placeholder(dtype, [size])
        y = tf.add(x, x, name="y")
        given = values.astype(tf.as_dtype(dtype).as_numpy_dtype)
        with tf1.Session(graph=graph) as session:
            session.run(y, {x: given})
    (step,) = steps
    place = [tensor.node for tensor in step.graph.tensors].index("y")
    for name, wanted in statistics_of(2 * given.astype(np.float32)).items():
        np.testing.assert_allclose(step.counts[name][place], wanted, rtol=1e-9, err_msg=name)


@needs_functions_by_default
def test_statistics_are_in_the_log_where_a_value_is_finite(tmp_path):
    with npu_precision.FlightRecorder(tmp_path, 1, statistics=True):
        run([2.0, np.nan])
    (tensors,) = events(tmp_path, "tensors")
    place = tensors["tensors"].index("encoder/second/product")
    good, bad = (event["statistics"] for event in events(tmp_path, "forward"))
    assert {name: good[name][place] for name in good} == {
        "mean": 128.0,
        "deviation": 0.0,
        "norm_l1": 16 * 128.0,
        "norm_l2": 4 * 128.0,
        "least": 128.0,
        "most": 128.0,
    }
    assert {bad[name][place] for name in bad} == {None}


@needs_functions_by_default
def test_without_being_asked_for_there_are_no_statistics(tmp_path):
    with npu_precision.FlightRecorder(tmp_path, 1):
        run([1.0])
    assert "statistics" not in events(tmp_path, "forward")[0]


@needs_functions_by_default
def test_a_step_stops_where_the_first_value_is_not_finite(tmp_path):
    where = "an (infinity|overflow) of float16 in encoder/second/product, in step 1"
    with pytest.raises(tf.errors.InvalidArgumentError, match=where):  # noqa: SIM117
        with npu_precision.FlightRecorder(tmp_path, stop_at_infinity=True) as recorder:
            run([1.0, 1e4, 1.0])
    good, bad = events(tmp_path, "forward")
    assert "first" not in good
    assert bad["first"]["node"] == "encoder/second/product"
    (tensors,) = events(tmp_path, "tensors")
    place = tensors["tensors"].index("decoder/product")
    assert bad["largest"][place] == 0, "what reads the infinity did not run"
    assert "first not finite: step 1" in recorder.summary()


@needs_functions_by_default
def test_a_step_that_is_not_recorded_does_not_stop(tmp_path):
    with npu_precision.FlightRecorder(tmp_path, steps=range(3, 4), stop_at_infinity=True):
        run([1e4, 1e4, 1e4, 1.0, 1e4])
    assert [event["step"] for event in events(tmp_path, "forward")] == [3]


def test_a_loop_stops_in_the_iteration_with_an_infinity(tmp_path):
    def body(i, x):
        return i + 1, tf.matmul(x, x, name="product")

    with tf.Graph().as_default() as graph:
        times = tf1.placeholder(tf.int32, [])
        x = tf1.placeholder(tf.float32, [4, 4])
        _, y = tf.while_loop(lambda i, _: i < times, body, [0, x])
    config = npu_precision.npu_config_proto(precision_mode="allow_mix_precision")
    with npu_precision.FlightRecorder(tmp_path, stop_at_infinity=True), tf1.Session(
        graph=graph, config=config
    ) as session:
        assert session.run(y, {times: 2, x: ONES})[0, 0] == 64.0
        with pytest.raises(tf.errors.InvalidArgumentError, match="stop_at_infinity: .*product"):
            session.run(y, {times: 40, x: ONES})
    good, bad = events(tmp_path, "forward")
    assert "first" not in good
    assert bad["first"]["iteration"] == 3


def test_a_branch_stops_and_the_other_branch_goes_on(tmp_path):
    control_flow = tf1.control_flow_v2_enabled()
    tf1.disable_control_flow_v2()
    try:
        with tf.Graph().as_default() as graph:
            large = tf1.placeholder(tf.bool, [])
            x = tf1.placeholder(tf.float32, [4, 4])
            y = tf1.cond(
                large, lambda: tf.matmul(x * 1e4, x), lambda: tf.matmul(x, x, name="small")
            )
    finally:
        if control_flow:
            tf1.enable_control_flow_v2()
    config = npu_precision.npu_config_proto(precision_mode="allow_mix_precision")
    with npu_precision.FlightRecorder(tmp_path, stop_at_infinity=True), tf1.Session(
        graph=graph, config=config
    ) as session:
        assert session.run(y, {large: False, x: ONES})[0, 0] == 4.0
        with pytest.raises(tf.errors.InvalidArgumentError, match="stop_at_infinity"):
            session.run(y, {large: True, x: 2 * ONES})
        assert session.run(y, {large: False, x: ONES})[0, 0] == 4.0


@needs_compiled_functions
def test_a_compiled_function_stops_and_has_no_statistics(tmp_path):
    function = tf.function(model, jit_compile=True)
    options = {"stop_at_infinity": True, "statistics": True}
    with npu_precision.FlightRecorder(tmp_path, **options), lowered(float16_compute="native"):
        function(tf.constant(ONES), tf.constant(1.0))
        with pytest.raises(tf.errors.InvalidArgumentError, match="at_infinity: .*second/product"):
            function(tf.constant(ONES), tf.constant(1e4))
    good, _ = events(tmp_path, "forward")
    assert {value for values in good["statistics"].values() for value in values} == {None}


@needs_functions_by_default
def test_a_recorder_without_a_stop_is_not_stopped_by_an_earlier_one(tmp_path):
    function = tf.function(model)
    with npu_precision.FlightRecorder(tmp_path / "stops", stop_at_infinity=True):
        run([1.0], function)
    with npu_precision.FlightRecorder(tmp_path / "goes on", 1):
        run([1e4, 1.0], function)
    assert len(events(tmp_path / "goes on", "forward")) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"steps": 5}, "steps: got 5 (int), expected a range of steps from 0 on"),
        ({"steps": range(5, 5)}, "steps: got range(5, 5) (range), expected a range of steps"),
        ({"steps": range(-1, 5)}, "steps: got range(-1, 5)"),
        ({"steps": range(5, 0, -1)}, "steps: got range(5, 0, -1)"),
        ({"steps": range(5), "every_n_steps": 2}, "every_n_steps and steps are both given"),
        ({"scopes": "encoder"}, "scopes: got 'encoder' (str), expected a list of names"),
        ({"scopes": ["encoder", ""]}, "scopes: got ['encoder', ''] (list)"),
        ({"scopes": [3]}, "scopes: got [3] (list)"),
        ({"scopes": None}, "scopes: got None (NoneType), expected a list of names"),
        ({"statistics": 1}, "statistics: got 1 (int), expected a bool"),
        ({"stop_at_infinity": "yes"}, "stop_at_infinity: got 'yes' (str), expected a bool"),
        ({"stop_at_infinity": True, "watch": None}, "stop_at_infinity: it is about tensors"),
    ],
)
def test_what_cannot_be_selected_is_refused(arguments, message, tmp_path):
    with pytest.raises(ValueError) as raised:
        npu_precision.FlightRecorder(tmp_path, **arguments)
    assert message in str(raised.value)
