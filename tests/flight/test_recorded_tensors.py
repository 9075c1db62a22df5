"""FlightRecorder: the events that it writes about the tensors of graphs that run."""

from __future__ import annotations

import json
import logging
import os
import threading

import numpy as np
import pytest
import tensorflow as tf
from support import keras_models
from support.tf_versions import needs_functions_by_default

import npu_precision
from npu_precision import _library
from npu_precision.flight import scopes, tensor_watch
from npu_precision.flight.forward import GraphRecord
from npu_precision.flight.selection import Selection

tf1 = tf.compat.v1
LARGEST = {"float16": 65504.0, "bfloat16": 3.38953139e38}
NORMAL = {"float16": 2.0**-14, "bfloat16": 2.0**-126}


def events(folder, kind):
    lines = map(json.loads, (folder / "flight.jsonl").read_text().splitlines())
    return [line for line in lines if line["event"] == kind]


def mixed(dtype="float16"):
    mode = {"float16": "allow_mix_precision", "bfloat16": "allow_mix_precision_bf16"}[dtype]
    return npu_precision.autocast(precision_mode=mode)


@tf.function
def product(x, scale):
    return tf.matmul(x, x, name="layer/product") * scale


ONES = np.ones([4, 4], np.float32)


def run_products(*scales):
    with mixed():
        for scale in scales:
            product(tf.constant(ONES), tf.constant(scale))


def test_one_in_n_runs_of_a_function_is_recorded(tmp_path):
    with npu_precision.FlightRecorder(tmp_path, every_n_steps=3) as recorder:
        run_products(1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0)
    (tensors,) = events(tmp_path, "tensors")
    place = tensors["tensors"].index("scale")
    assert [(event["step"], event["largest"][place]) for event in events(tmp_path, "forward")] == [
        (0, 1.0),
        (3, 4.0),
        (6, 7.0),
    ]
    assert "7 steps, 3 recorded" in recorder.summary()


def test_tensors_are_named_with_their_ops_types_and_scopes(tmp_path):
    with npu_precision.FlightRecorder(tmp_path):
        run_products(1.0)
    (tensors,) = events(tmp_path, "tensors")
    rows = dict(zip(tensors["tensors"], zip(tensors["ops"], tensors["low_types"])))
    assert rows["x"] == ("_Arg", "float16")
    assert {"x", "scale"} < set(rows)
    assert [tensors["scopes"][place] for place in tensors["scope_of"]] == scopes.scopes_of(
        [name.partition(":")[0] for name in tensors["tensors"]]
    )


def test_a_function_that_ran_before_is_watched_and_afterwards_no_more(tmp_path):
    run_products(1.0)
    for number, count in enumerate((1, 3)):
        with npu_precision.FlightRecorder(tmp_path / str(number), every_n_steps=1) as recorder:
            run_products(*[1.0] * count)
        run_products(2.0, 2.0)
        assert f"{count} steps, {count} recorded" in recorder.summary()
        assert len(events(tmp_path / str(number), "forward")) == count


def random_floats(dtype, count=50_001):
    """Floats of any bits, many of them near the ends of the range."""
    generator = np.random.default_rng(7)
    bits = generator.integers(0, 2**32, count, dtype=np.uint32)
    values = bits.view(np.float32).copy()
    edges = np.array([LARGEST[dtype], NORMAL[dtype], 0.0, np.inf, np.nan], np.float32)
    values[::5] = generator.choice(edges, len(values[::5]))
    values[1::5] = 0
    factors = generator.uniform(0.999, 1.001, len(values[2::5])).astype(np.float32)
    with np.errstate(over="ignore"):
        values[2::5] = generator.choice(edges[:2], len(values[2::5])) * factors
    return values


def to_low(values, dtype):
    with np.errstate(all="ignore"):
        return values.astype(tf.as_dtype(dtype).as_numpy_dtype)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_what_is_rounded_is_counted_as_numpy_counts_it(dtype):
    values = random_floats(dtype)
    rounded = to_low(values, dtype).astype(np.float32)
    (step,) = watched_steps(lambda x: tf.cast(tf.cast(x, dtype), tf.float32), values)
    finite = np.isfinite(values)
    magnitudes = np.abs(values)
    assert step.graph.tensors[0].low_type == dtype
    assert {name: counts[0] for name, counts in step.counts.items()} == {
        "largest": magnitudes[finite].max(),
        "elements": len(values),
        "zeros": (values == 0).sum(),
        "infinities": np.isinf(values).sum(),
        "nans": np.isnan(values).sum(),
        "over": (finite & np.isinf(rounded)).sum(),
        "under": ((magnitudes > 0) & (magnitudes < NORMAL[dtype])).sum(),
        "iteration": 0,
        "fault": 3,
    }


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_what_is_computed_in_a_low_type_is_counted_as_numpy_counts_it(dtype):
    values = random_floats(dtype)
    if dtype == "bfloat16":  # To TensorFlow's kernels, subnormals of float32 are zeros.
        values[np.abs(values) < 2 * NORMAL[dtype]] = 0
    low = to_low(values, dtype)
    (step,) = watched_steps(lambda x: tf.cast(tf.bitcast(x, dtype) * 1, tf.float32), low.view("u2"))
    numbers = low.astype(np.float32)
    finite = np.isfinite(numbers)
    (place,) = (at for at, tensor in enumerate(step.graph.tensors) if tensor.op == "Mul")
    assert {name: counts[place] for name, counts in step.counts.items()} == {
        "largest": np.abs(numbers[finite]).max(),
        "elements": len(values),
        "zeros": (numbers == 0).sum(),
        "infinities": np.isinf(numbers).sum(),
        "nans": np.isnan(numbers).sum(),
        "over": 0,
        "under": ((numbers != 0) & (np.abs(numbers) < NORMAL[dtype])).sum(),
        "iteration": 0,
        "fault": 3,
    }


def test_large_tensors_are_counted_to_the_last_element():
    (step,) = watched_steps(
        lambda x: tf.cast(tf.sqrt(tf.cast(x, tf.float16)), tf.float32), np.zeros([2**22], "f4")
    )
    assert [tensor.dtype for tensor in step.graph.tensors] == ["float32", "float16"]
    for name in ("zeros", "elements"):
        np.testing.assert_array_equal(step.counts[name], 2**22)


def watched_steps(build, *values, watch="lowered", every_n_steps=1):
    """The steps that a watch sees of a graph in a session, one run for each value."""
    steps = []
    with tf.Graph().as_default() as graph, tensor_watch.TensorWatch(
        watch, every_n_steps, steps.append
    ):
        inputs = [tf1.placeholder(value.dtype, value.shape) for value in values]
        result = build(*inputs)
        with tf1.Session(graph=graph) as session:
            session.run(result, dict(zip(inputs, values)))
    return steps


MOVERS = {
    "reshape": lambda x: tf.reshape(x, [4, 4]),
    "transpose": tf.transpose,
    "squeeze": lambda x: tf.squeeze(tf.expand_dims(x, 0), 0),
    "slice": lambda x: tf.concat([x[:2], x[2:]], 0),
    "relu": tf.nn.relu,
    "loop": lambda x: tf.while_loop(lambda i, _: i < 2, lambda i, x: (i + 1, x), (0, x))[1],
}


@pytest.mark.parametrize("mover", MOVERS.values(), ids=MOVERS)
def test_the_readers_of_what_is_rounded_are_those_that_compute_from_it(mover):
    """An op that only moves values overflows nothing, and is no place to keep."""

    def product(x):
        moved = mover(tf.cast(x, tf.float16))
        return tf.shape(x), tf.matmul(moved, moved, name="product")

    (step,) = watched_steps(product, ONES)
    (readers,) = (each.readers for each in step.graph.tensors if each.dtype == "float32")
    assert readers == ["product"]


def test_a_watch_knows_what_the_mode_lowered():
    steps = []
    with tensor_watch.TensorWatch("all", 1, steps.append):
        run_products(1.0)
    (step,) = (each for each in steps if each.graph.lowered)
    places = {each.node: each.place for each in step.graph.tensors}
    lowered = dict(step.graph.lowered)
    assert lowered["layer/product"] > places["x"]
    assert not lowered.keys() & {"x", "scale"}


def test_a_loop_is_seen_with_the_iteration_in_which_a_value_left_the_range():
    def doubled(x):
        return tf.while_loop(
            lambda i, _: i < 6,
            lambda i, y: (i + 1, tf.cast(tf.cast(y * 16.0, tf.float16), tf.float32)),
            [0, x],
        )

    (step,) = watched_steps(doubled, np.ones([3], np.float32))
    first = step.not_finite()[0]
    assert step.value(first) == "overflow"
    assert step.graph.tensors[first].op == "Mul"
    assert step.counts["iteration"][first] == 3
    assert step.counts["elements"][first] == 18


def test_in_a_loop_an_earlier_iteration_comes_before_an_earlier_op():
    def body(i, x, _):
        early = tf.cast(tf.cast(tf.multiply(x, 16.0, "early"), tf.float16), tf.float32)
        late = tf.cast(tf.multiply(early, 8192.0, "late"), tf.float16)
        return i + 1, early, tf.cast(late, tf.float32)

    def repeated(x):
        return tf.while_loop(lambda i, *_: i < 6, body, [0, x, x])

    (step,) = watched_steps(repeated, np.ones([3], np.float32))
    bad = step.not_finite()
    first = [(step.graph.tensors[index].node, step.counts["iteration"][index]) for index in bad[:2]]
    assert [(name.rpartition("/")[2], iteration) for name, iteration in first] == [
        ("late", 0),
        ("early", 3),
    ]


def test_in_a_loop_what_comes_from_outside_is_no_earlier_than_what_it_is_used_with():
    """A weight is read in the middle of the body, from where the order goes on to its beginning."""

    def body(i, x, weight):
        large = tf.cast(tf.cast(tf.multiply(x, 1e6, "large"), tf.float16), tf.float32)
        product = tf.matmul(large - large, weight, name="product")
        return i + 1, tf.cast(tf.cast(product, tf.float16), tf.float32), weight

    def repeated(x, weight):
        return tf.while_loop(lambda i, *_: i < 3, body, [0, x, weight])[1]

    (step,) = watched_steps(repeated, ONES, ONES)
    nodes = [step.graph.tensors[index].node.rpartition("/")[2] for index in step.not_finite()]
    assert nodes[0] == "large"
    assert nodes.index("large") < nodes.index("product")


def test_the_first_that_is_not_finite_comes_before_those_that_read_it():
    def chain(x):
        first = tf.cast(tf.exp(x, name="z_first"), tf.float16)
        second = tf.cast(tf.cast(first, tf.float32) * 2.0, tf.float16, name="a_second")
        return tf.cast(second, tf.float32) - 1.0

    (step,) = watched_steps(chain, np.full([3], 12.0, np.float32))
    bad = step.not_finite()
    assert [step.graph.tensors[index].op for index in bad][:2] == ["Exp", "Mul"]
    assert [step.value(index) for index in bad][:2] == ["overflow", "infinity"]


def test_a_node_whose_name_a_cast_took_over_has_its_own(tmp_path):
    """The node is fetched in float32, from a Cast."""
    config = npu_precision.npu_config_proto(precision_mode="allow_mix_precision")
    with tf.Graph().as_default(), npu_precision.FlightRecorder(tmp_path):
        x = tf1.placeholder(tf.float32, [4, 4], name="x")
        product = tf.matmul(x, x, name="product")
        with tf1.Session(config=config) as session:
            session.run(product, {x: ONES})
    (tensors,) = events(tmp_path, "tensors")
    assert tensors["tensors"] == ["x", "product"]


def test_all_names_the_input_that_has_a_nan(tmp_path):
    with npu_precision.FlightRecorder(tmp_path, watch="all") as recorder:
        run_products(np.nan)
    (event,) = events(tmp_path, "forward")
    assert event["first"] == {
        "tensor": event["not_finite"][0],
        "node": "scale",
        "op": "_Arg",
        "dtype": "float32",
        "low_type": "float16",
        "value": "nan",
    }
    assert "first not finite: step 0, nan in scale (_Arg)" in recorder.summary()


def test_all_also_watches_what_keeps_float32():
    def build(x):
        return tf.exp(tf.nn.relu(x))

    values = np.ones([3], np.float32)
    assert watched_steps(build, values) == []
    (step,) = watched_steps(build, values, watch="all")
    # A Relu is not watched: its values follow from its input.
    assert [tensor.op for tensor in step.graph.tensors][-1] == "Exp"
    assert "Relu" not in [tensor.op for tensor in step.graph.tensors]


def test_what_the_graph_reads_in_a_low_type_is_watched_by_all_only():
    """Inputs have not been computed in the low type."""
    values = np.ones([3], np.float16)
    for watch, watched in (("lowered", ["Exp"]), ("all", ["_Arg", "Exp"])):
        (step,) = watched_steps(lambda x: tf.cast(tf.exp(x), tf.float32), values, watch=watch)
        assert [tensor.op for tensor in step.graph.tensors][: len(watched)] == watched


def test_an_infinity_is_not_the_first_nan(tmp_path):
    def build(x):
        infinite = tf.cast(tf.cast(x, tf.float16), tf.float32)
        return tf.cast(tf.cast(infinite - infinite, tf.float16), tf.float32)

    steps = watched_steps(build, np.full([2], 1e6, np.float32))
    record = GraphRecord(steps[0].graph)
    event = record.event(steps[0])
    assert event["first"]["value"] == "overflow"
    assert event["first_nan"]["op"] == "Sub"


def test_a_scope_whose_range_drifts_is_named(tmp_path):
    @tf.function
    def step(x, factor):
        with tf.name_scope("stays"):
            y = tf.matmul(x, x)
        with tf.name_scope("drifts"):
            return tf.matmul(x, x * factor), y

    with npu_precision.FlightRecorder(tmp_path, every_n_steps=1) as recorder, mixed():
        for number in range(9):
            step(tf.constant(ONES), tf.constant(2.0**number))
    assert "range drifts: drifts, by 2^6.0 since the first steps" in recorder.summary()
    assert events(tmp_path, "forward")[-1]["drift"] == {"scope": "drifts", "bits": 6.0}
    assert "drift" not in events(tmp_path, "forward")[0]


@needs_functions_by_default
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_recording_changes_no_result_to_the_bit(dtype, tmp_path):
    """Layers that TensorFlow fuses, with a watch on every one of their tensors, and without."""
    images = np.random.default_rng(1).normal(size=[64, 8, 8, 3]).astype(np.float32)

    def trained():
        keras_models.set_seed()
        layers = tf.keras.layers
        model = tf.keras.Sequential(
            [
                layers.Conv2D(8, 3, activation="relu"),
                layers.BatchNormalization(),
                layers.Flatten(),
                layers.Dense(32, activation="gelu"),
                layers.Dense(4),
            ]
        )
        loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile("adam", loss, jit_compile=False)
        with mixed(dtype):
            model.fit(images, np.arange(64) % 4, batch_size=16, epochs=2, verbose=0, shuffle=False)
            return [*model.get_weights(), model.predict(images, verbose=0)]

    plain = trained()
    with npu_precision.FlightRecorder(tmp_path, every_n_steps=1, watch="all") as recorder:
        recorded = trained()
    assert "8 steps, 8 recorded" in recorder.summary()
    for before, after in zip(plain, recorded):
        np.testing.assert_array_equal(before, after)


def test_what_is_fused_without_a_watch_is_fused_with_one(tmp_path):
    """The ops that run are the same, apart from those that watch."""

    @tf.function
    def layer(x):
        return tf.nn.relu(tf.nn.bias_add(tf.matmul(x, x), [1.0, 2.0, 3.0, 4.0]))

    def executed():
        from tensorflow.python.eager import context

        context.context().enable_run_metadata()
        with mixed("bfloat16"):
            layer(tf.constant(ONES))
        graphs = context.context().export_run_metadata().partition_graphs
        context.context().disable_run_metadata()
        return sorted(node.op for graph in graphs for node in graph.node)

    plain = executed()
    with npu_precision.FlightRecorder(tmp_path):
        watched = executed()
    assert [op for op in watched if op != "NpuPrecisionWatch"] == plain
    assert "NpuPrecisionWatch" in watched


def test_points_for_tensorboard_have_ranges_by_scope(tmp_path):
    with npu_precision.FlightRecorder(tmp_path, every_n_steps=1):
        run_products(1.0, 16.0, 1e6)
    points = {}
    for file in tmp_path.glob("events.out.tfevents.*"):
        for event in tf1.train.summary_iterator(str(file)):
            for value in event.summary.value:
                name = value.tag.partition("/")[2]
                points.setdefault(name, []).append((event.step, value.simple_value))
    top = points[f"largest_log2/{scopes.TOP}"]
    assert top[1] == (1, 6.0)  # of 4 * 16
    assert [value > 0 for _, value in points["over"]] == [False, False, True]
    assert [value > 0 for _, value in points["not_finite"]] == [False, False, True]


def test_steps_that_find_no_memory_are_counted():
    """The reader of this test never reads; a watch's own reader takes the steps each second."""

    def build(x):
        y = tf.cast(x, tf.float16)
        for _ in range(1000):
            y = y * 1.5
        return y

    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [])
        result = build(x)
        options = tf1.ConfigProto(inter_op_parallelism_threads=1)
        options.graph_options.rewrite_options.disable_meta_optimizer = True
        _library.open_flight("lowered", Selection().members())
        try:
            with tf1.Session(graph=graph, config=options) as session:
                for _ in range(500):
                    session.run(result, {x: 1.0})
                _library.close_flight()
                session.run(result, {x: 1.0})  # This step has no reader any more.
        finally:
            _library.close_flight()
        (drained,) = _library.drain_flight(True)
    assert drained["steps"] == 500
    assert 100 < len(drained["recorded"]) < 400
    assert drained["dropped"] == 500 - len(drained["recorded"])


@pytest.mark.parametrize("every_n_steps", [1, 8])
def test_runs_in_several_threads_are_told_apart(every_n_steps, tmp_path):
    with npu_precision.FlightRecorder(tmp_path, every_n_steps):
        # Threads that are all the first would each prepare the graph, and have steps of their own.
        run_products(3.0)
        threads = [threading.Thread(target=run_products, args=[3.0] * 20) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    recorded = events(tmp_path, "forward")
    assert sorted(event["step"] for event in recorded) == list(range(0, 81, every_n_steps))
    assert all(event["largest"] == recorded[0]["largest"] for event in recorded)


@needs_functions_by_default
def test_replicas_are_watched_on_each_device(run_python, tmp_path):
    process = run_python(
        f"""
import tensorflow as tf
import npu_precision
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])

@tf.function
def step(x):
    def replica(x):
        return tf.matmul(x, x)
    return strategy.run(replica, args=(x,))

with npu_precision.FlightRecorder("{tmp_path}/flight") as recorder:
    with npu_precision.autocast(precision_mode="allow_mix_precision"):
        step(tf.ones([2, 2]))
print(recorder.summary())
""",
    )
    assert process.stdout.count("1 steps, 1 recorded") == 2
    assert len(events(tmp_path / "flight", "forward")) == 2


def test_a_rank_has_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("RANK_SIZE", "2")
    monkeypatch.setenv("RANK_ID", "1")
    with npu_precision.FlightRecorder(tmp_path):
        run_products(1.0)
    (event,) = events(tmp_path / "rank_1", "forward")
    assert event["rank"] == 1


def test_a_disk_that_is_full_ends_the_recording_and_not_the_run(tmp_path, caplog):
    os.symlink("/dev/full", tmp_path / "flight.jsonl")
    with caplog.at_level(logging.WARNING), npu_precision.FlightRecorder(tmp_path, 1):
        run_products(1.0, 2.0)
    messages = [record.message for record in caplog.records if "FlightRecorder" in record.message]
    assert messages[0].startswith("FlightRecorder: nothing more is recorded: ")
    assert "No space left on device" in messages[0]


def test_a_folder_that_cannot_be_written_to_is_an_error_before_anything_runs(tmp_path):
    (tmp_path / "file").write_text("")
    for folder, reason in (("file", "File exists"), ("file/below", "Not a directory")):
        with pytest.raises(OSError, match=f"cannot write to folder '.*/{folder}': {reason}"):
            npu_precision.FlightRecorder(tmp_path / folder)


def test_one_recorder_watches_tensors_at_a_time(tmp_path):
    with npu_precision.FlightRecorder(tmp_path / "1"):
        second = npu_precision.FlightRecorder(tmp_path / "2")
        with pytest.raises(RuntimeError, match="another FlightRecorder watches tensors"):
            second.__enter__()
        with npu_precision.FlightRecorder(tmp_path / "3", watch=None):
            run_products(1.0)
    with second:
        run_products(1.0)
    assert [len(events(tmp_path / name, "forward")) for name in "123"] == [1, 1, 0]


def test_another_watch_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="watch: got 'low' .str., expected 'lowered', 'all' or"):
        npu_precision.FlightRecorder(tmp_path, watch="low")


@pytest.mark.parametrize(
    ("names", "most", "expected"),
    [
        (["a/b/c", "a/b/d", "a/e/f"], 64, ["a/b", "a/b", "a/e"]),
        (["a/b/c", "a/b/d", "a/e/f"], 1, ["a", "a", "a"]),
        (["x", "while/body/_12/while/MatMul"], 64, [scopes.TOP, "while/body/while"]),
    ],
)
def test_scopes_are_as_deep_as_their_number_allows(names, most, expected):
    assert scopes.scopes_of(names, most) == expected
