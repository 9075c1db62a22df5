"""DumpConfig and enable_dump: sessions write the tensors of some steps, named as on an NPU."""

from __future__ import annotations

import csv
import re
import threading

import numpy as np
import pytest
import tensorflow as tf
from support.tf_versions import needs_estimator
from tensorflow.core.protobuf import rewriter_config_pb2

import npu_precision
from npu_precision import _no_effect, util

tf1 = tf.compat.v1

FILE = re.compile(
    r"(?P<type>[A-Za-z0-9_-]+)\.(?P<name>[A-Za-z0-9_-]+)\.(?P<task>\d+)\.(?P<stream>\d+)"
    r"\.(?P<time>\d{16})\.(?P<way>input|output)\.(?P<index>\d+)\.(?P<shape>\d+(x\d+)*)\.npy"
)
X = np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8)
W = np.linspace(-2, 2, 24, dtype=np.float32).reshape(8, 3)


@pytest.fixture
def model():
    """x [4, 8] -> scope/logits (MatMul with w) -> loss; a step of gradient descent."""
    with tf.Graph().as_default():
        x = tf1.placeholder(tf.float32, [4, 8], name="x")
        w = tf1.get_variable("w", initializer=W, use_resource=True)
        logits = tf.matmul(x, w, name="scope/logits")
        loss = tf.reduce_sum(tf.square(logits, name="square"), name="loss")
        train = tf1.train.GradientDescentOptimizer(0.01).minimize(loss, name="train")
        yield {"x": x, "w": w, "logits": logits, "loss": loss, "train": train}


def config(**parameters):
    """The config of a session as scripts write it, with these parameters of NpuOptimizer."""
    result = tf1.ConfigProto()
    custom_op = result.graph_options.rewrite_options.custom_optimizers.add()
    custom_op.name = "NpuOptimizer"
    for name, value in parameters.items():
        if isinstance(value, bool):
            custom_op.parameter_map[name].b = value
        else:
            custom_op.parameter_map[name].s = tf.compat.as_bytes(str(value))
    return npu_precision.npu_config_proto(result)


def steps(folder, model):
    """The folders of a model, by step: {0: Path, ...}."""
    found = folder.glob(f"*/0/{model}/*/*")
    return {int(path.name): path for path in found}


def tensors(folder):
    """The content of the files of a step, by (name, "input" or "output", index)."""
    found = {}
    for path in folder.glob("*.npy"):
        parts = FILE.fullmatch(path.name)
        assert parts, path.name
        value = np.load(path)
        assert parts["shape"] == ("x".join(map(str, value.shape)) or "1")
        found[parts["name"], parts["way"], int(parts["index"])] = value
    return found


def train(model, config, count=4):
    """The weights before each of these steps."""
    with tf1.Session(config=config) as session:
        session.run(tf1.global_variables_initializer())
        weights = []
        for _ in range(count):
            weights.append(session.run(model["w"]))
            session.run([model["train"], model["loss"]], {model["x"]: X})
    return weights


def test_a_session_writes_the_outputs_of_the_steps_that_are_asked_for(model, tmp_path):
    weights = train(model, config(enable_dump=True, dump_path=tmp_path, dump_step="0|2-3"))
    written = steps(tmp_path, "train")
    assert set(written) == {0, 2, 3}
    for step, folder in written.items():
        found = tensors(folder)
        logits = X @ weights[step]
        np.testing.assert_allclose(found["scope_logits", "output", 0], logits, rtol=1e-5)
        np.testing.assert_allclose(found["loss", "output", 0], np.square(logits).sum(), rtol=1e-4)
        assert {way for _, way, _ in found} == {"output"}
    # The initializer was a model of its own, with one step.
    assert set(steps(tmp_path, "init")) == {0}


def test_a_script_with_the_remapper_off_finds_each_op(tmp_path):
    with tf.Graph().as_default():
        x = tf1.placeholder(tf.float32, [4, 8], name="x")
        product = tf.matmul(x, tf.constant(W), name="product")
        relu = tf.nn.relu(tf.nn.bias_add(product, [1.0, 2.0, 3.0], name="sum"), name="relu")
        options = config(
            enable_dump=True, dump_path=tmp_path, precision_mode="allow_mix_precision_bf16"
        )
        options.graph_options.rewrite_options.remapping = rewriter_config_pb2.RewriterConfig.OFF
        del options.graph_options.rewrite_options.custom_optimizers[1:]  # the remapper
        with tf1.Session(config=options) as session:
            session.run(relu, {x: X})
    (folder,) = steps(tmp_path, "relu:0").values()
    assert {"product", "sum", "relu"} <= {name for name, _, _ in tensors(folder)}


def test_the_path_has_time_device_model_and_number(model, tmp_path, monkeypatch):
    monkeypatch.setenv("RANK_SIZE", "2")
    monkeypatch.setenv("RANK_ID", "1")
    with tf1.Session(config=config(enable_dump=True, dump_path=tmp_path)) as session:
        session.run(model["logits"].op.inputs[0], {model["x"]: X})
        session.run(model["logits"].graph.get_tensor_by_name("x:0"), {model["x"]: X})
        session.run(tf1.global_variables_initializer())
    (folder,) = tmp_path.glob("*/*/init/*/*")
    time, device, _, number, step = folder.relative_to(tmp_path).parts
    assert re.fullmatch(r"20\d{12}", time)
    assert (device, step) == ("1", "0")
    assert number.isdigit()


def test_what_is_written_is_what_the_lowered_graph_computes(model, tmp_path):
    options = {"enable_dump": True, "dump_path": tmp_path, "dump_step": "0", "dump_mode": "all"}
    train(model, config(precision_mode="allow_mix_precision_bf16", **options), count=1)
    found = tensors(steps(tmp_path, "train")[0])
    rounded = W.astype(tf.bfloat16.as_numpy_dtype).astype(np.float32)
    # bfloat16 is written as float32.
    assert found["scope_logits", "input", 1].dtype == np.float32
    np.testing.assert_array_equal(found["scope_logits", "input", 1], rounded)
    np.testing.assert_allclose(found["scope_logits", "output", 0], X @ W, rtol=0, atol=0.05)
    assert (found["scope_logits", "output", 0] != X @ W).any()
    assert any("npu_cast" in name for name, _, _ in found)


@pytest.mark.parametrize(("mode", "ways"), [("input", {"input"}), ("all", {"input", "output"})])
def test_inputs_are_those_that_an_op_was_given(model, tmp_path, mode, ways):
    weights = train(model, config(enable_dump=True, dump_path=tmp_path, dump_mode=mode), count=2)
    found = tensors(steps(tmp_path, "train")[1])
    assert {way for _, way, _ in found} == ways
    np.testing.assert_array_equal(found["scope_logits", "input", 0], X)
    np.testing.assert_array_equal(found["scope_logits", "input", 1], weights[1])
    # An op without an output is dumped, too: the gradient that updates the variable.
    update = "train_update_w_ResourceApplyGradientDescent"
    gradient = 2 * X.T @ (X @ weights[1])
    np.testing.assert_allclose(found[update, "input", 2], gradient, rtol=1e-4)


def test_an_op_in_a_loop_is_written_each_time(control_flow_v1, tmp_path):
    with tf.Graph().as_default():
        start = tf1.placeholder_with_default(np.float32(1), [])
        result = tf1.while_loop(
            lambda v: v < 8, lambda v: tf.multiply(v, 2.0, name="twice"), [start]
        )
        options = config(enable_dump=True, dump_path=tmp_path, dump_mode="all")
        with tf1.Session(config=options) as session:
            assert session.run(result) == 8
    files = [FILE.fullmatch(path.name) for path in tmp_path.glob("*/*/*/*/0/Mul.while_twice.*")]
    files.sort(key=lambda each: each["time"])
    values = {}
    for each in files:
        (path,) = tmp_path.glob(f"*/*/*/*/0/{each[0]}")
        values.setdefault((each["way"], each["index"]), []).append(float(np.load(path)))
    assert values["output", "0"] == [2, 4, 8]
    assert values["input", "0"] == [1, 2, 4]


def test_only_the_named_ops_are_written(model, tmp_path):
    train(model, config(enable_dump=True, dump_path=tmp_path, dump_layer="scope/logits square"))
    found = tensors(steps(tmp_path, "train")[3])
    assert set(found) == {("scope_logits", "output", 0), ("square", "output", 0)}


def test_steps_of_a_loop_count_one_by_one(model, tmp_path):
    options = config(enable_dump=True, dump_path=tmp_path, dump_step="1|3")
    with tf1.Session(config=options) as session:
        session.run(tf1.global_variables_initializer())
        train_op = util.set_iteration_per_loop(session, model["train"], 2)
        for _ in range(2):
            session.run([train_op, model["loss"]], {model["x"]: X})
    assert set(steps(tmp_path, "IterationOp")) == {1, 3}


def test_a_step_may_wait_for_another_thread_that_fills_its_queue(tmp_path):
    with tf.Graph().as_default():
        queue = tf.queue.FIFOQueue(1, [tf.float32], [[]])
        fill = queue.enqueue(3.0)
        taken = tf.multiply(queue.dequeue(), 2.0, name="taken")
        with tf1.Session(config=config(enable_dump=True, dump_path=tmp_path)) as session:
            thread = threading.Timer(0.5, session.run, [fill])
            thread.start()
            limit = tf1.RunOptions(timeout_in_ms=60_000)
            assert session.run(taken, options=limit) == 6
            thread.join()
    assert set(steps(tmp_path, "taken:0")) == {0}


def test_nothing_is_overwritten(model, tmp_path):
    options = config(enable_dump=True, dump_path=tmp_path, dump_step="0")
    for _ in range(3):
        train(model, options, count=1)
    # Three sessions within a second or two have a folder each.
    assert len(list(tmp_path.glob("*/0/train/*/0"))) == 3


def test_statistics_are_written_in_place_of_tensors(model, tmp_path):
    options = {"dump_path": tmp_path, "dump_step": "1", "dump_mode": "all", "dump_data": "stats"}
    mode = {"precision_mode": "allow_mix_precision_bf16"}
    weights = train(model, config(enable_dump=True, **options, **mode), count=2)
    (folder,) = steps(tmp_path, "train").values()
    assert not list(folder.glob("*.npy"))
    (file,) = folder.glob("*MatMul.scope_logits.*.csv")
    assert re.fullmatch(r"\w*MatMul\.scope_logits\.\d+\.0\.\d{16}\.csv", file.name)
    with open(file, newline="") as table:
        rows = {(row["Input/Output"], row["Index"]): row for row in csv.DictReader(table)}
    assert set(rows) == {("input", "0"), ("input", "1"), ("output", "0")}
    row = rows["input", "1"]
    dtype = tf.as_dtype(row["Data Type"])  # TensorFlow 1.15 has no such product in bfloat16
    rounded = weights[1].astype(dtype.as_numpy_dtype).astype(np.float64)
    assert row["Data Size"] == str(dtype.size * rounded.size)
    assert row["Shape"] == "x".join(map(str, rounded.shape))
    found = [float(row[name]) for name in ("Max Value", "Min Value", "Avg Value", "Count")]
    expected = [rounded.max(), rounded.min(), rounded.mean(), rounded.size]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_statistics_count_what_is_not_finite(tmp_path):
    given = np.array([np.nan, np.inf, -np.inf, -np.inf, 2.0, 4.0], np.float32)
    options = {"enable_dump": True, "dump_path": tmp_path, "dump_data": "stats"}
    with tf.Graph().as_default():
        x = tf1.placeholder(tf.float32, [6])
        number = tf.size(tf.where(tf.math.is_nan(x)), name="number")
        with tf1.Session(config=config(**options)) as session:
            session.run([tf.square(x, name="squares"), number], {x: given})
    (file,) = tmp_path.rglob("Square.squares.*.csv")
    with open(file, newline="") as table:
        (row,) = csv.DictReader(table)
    counts = ("Count", "Nan Count", "Negative Inf Count", "Positive Inf Count")
    assert [row[name] for name in counts] == ["6", "1", "0", "3"]
    assert [float(row[name]) for name in ("Max Value", "Min Value", "Avg Value")] == [16, 4, 10]


def test_a_long_name_is_in_a_table(tmp_path):
    with tf.Graph().as_default():
        x = tf1.placeholder(tf.float32, X.shape)
        y = tf.exp(x, name="/".join(["scope" * 20] * 3))
        with tf1.Session(config=config(enable_dump=True, dump_path=tmp_path)) as session:
            expected = session.run(y, {x: X})
    (table,) = tmp_path.glob("*/*/*/*/0/mapping.csv")
    with open(table, newline="") as file:
        named = {long: short for short, long in csv.reader(file)}
    (long,) = [name for name in named if name.startswith("Exp.")]
    assert FILE.fullmatch(long)
    np.testing.assert_array_equal(np.load(table.parent / named[long]), expected)


def test_the_options_of_a_run_stay(model, tmp_path):
    options = tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE)
    metadata = tf1.RunMetadata()
    with tf1.Session(config=config(enable_dump=True, dump_path=tmp_path)) as session:
        session.run(tf1.global_variables_initializer(), options=options, run_metadata=metadata)
        assert session.run([]) == []
    assert metadata.step_stats.dev_stats
    assert not options.debug_options.debug_tensor_watch_opts


def test_without_enable_dump_nothing_is_written(model, tmp_path):
    train(model, config(dump_path=tmp_path, dump_step="0"))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "dump_path: got None (NoneType), expected a folder for enable_dump"),
        (
            {"dump_path": "d", "dump_step": "1|a"},
            "dump_step: got '1|a', expected steps and ranges of them, as '0|5|10-20'",
        ),
        (
            {"dump_path": "d", "dump_step": "5-2"},
            "dump_step: got '5-2', expected a range that counts up, as '10-20'",
        ),
        (
            {"dump_path": "d", "dump_mode": "outputs"},
            "dump_mode: got 'outputs', expected one of input, output, all (did you mean 'output'?)",
        ),
        (
            {"dump_path": "d", "dump_data": "stat"},
            "dump_data: got 'stat', expected one of tensor, stats (did you mean 'stats'?)",
        ),
        (
            {"dump_path": "d", "enable_dump_debug": True},
            "enable_dump and enable_dump_debug are both set, expected one of them",
        ),
    ],
)
def test_mistakes_are_named_by_the_session_and_by_dump_config(options, message):
    with tf.Graph().as_default(), pytest.raises(ValueError) as caught:
        tf1.Session(config=config(enable_dump=True, **options))
    assert str(caught.value) == message
    with pytest.raises(ValueError) as caught:
        npu_precision.DumpConfig(enable_dump=True, **options)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dump_path": 3}, "dump_path: got 3 (int), expected a folder for enable_dump"),
        ({"dump_layer": ["a"]}, "dump_layer: got ['a'] (list), expected names of ops with spaces"),
    ],
)
def test_values_of_other_types_are_refused(options, message):
    with pytest.raises(ValueError) as caught:
        npu_precision.DumpConfig(enable_dump=True, **{"dump_path": "d", **options})
    assert str(caught.value).startswith(message)


def test_a_text_is_no_switch(tmp_path):
    with tf.Graph().as_default(), pytest.raises(ValueError, match="expected a bool") as caught:
        tf1.Session(config=config(enable_dump="False", dump_path=tmp_path))
    assert str(caught.value).endswith('write parameter_map["enable_dump"].b = True')


def test_a_path_where_no_folder_can_be_made_is_named(model, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="dump_path: cannot make '.*file/"):
        train(model, config(enable_dump=True, dump_path=tmp_path / "file" / "dumps"))


def test_a_layer_that_was_lowered_and_fetched_is_dumped_with_its_cast(model, tmp_path, caplog):
    options = config(
        enable_dump=True,
        dump_path=tmp_path,
        dump_layer="scope/logits nowhere",
        precision_mode="allow_mix_precision_bf16",
        float16_compute="native",  # no Casts that round
    )
    with tf1.Session(config=options) as session:
        session.run(tf1.global_variables_initializer())
        session.run(model["logits"], {model["x"]: X})
    files = {path.name.split(".")[1] for path in tmp_path.rglob("*scope_logits*.npy")}
    assert files == {"scope_logits", "scope_logits_npu_changed"}
    assert "dump_layer: the graph that ran has no op nowhere" in caplog.text


def test_what_of_dump_config_has_no_effect_is_named(caplog, monkeypatch):
    monkeypatch.setattr(_no_effect, "_named", set())
    npu_precision.DumpConfig(enable_dump_debug=True, dump_path="d")
    assert [record.getMessage() for record in caplog.records] == [
        "DumpConfig: enable_dump_debug, dump_debug_mode have no effect on stock TensorFlow",
    ]


@needs_estimator
@pytest.mark.slow
def test_an_estimator_writes_them_too(tmp_path, capfd):
    def model_fn(features, labels, mode):
        loss = tf1.losses.mean_squared_error(labels, tf1.layers.dense(features, 1, name="dense"))
        step = tf1.train.get_global_step()
        train_op = tf1.train.GradientDescentOptimizer(0.1).minimize(loss, step, name="train")
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    def input_fn():
        data = tf.data.Dataset.from_tensors((X, np.ones([4, 1], np.float32)))
        return data.repeat()

    dump_config = npu_precision.DumpConfig(True, str(tmp_path / "dump"), "0|3", "output")
    run_config = npu_precision.NPURunConfig(
        model_dir=str(tmp_path / "model"), dump_config=dump_config
    )
    npu_precision.NPUEstimator(model_fn, config=run_config).train(input_fn, max_steps=5)
    written = steps(tmp_path / "dump", "train")
    assert set(written) == {0, 3}
    kernels = [
        value
        for (name, _, _), value in tensors(written[3]).items()
        if name.startswith("dense_MatMul") or name.startswith("dense_BiasAdd")
    ]
    assert any(value.shape == (4, 1) for value in kernels)
    # The optimizer does not say that the options have no effect.
    assert "dump_path" not in capfd.readouterr().err
