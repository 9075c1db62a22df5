"""Summaries of a training: the written values are float32, and those of float32 training."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from support.training_runs import (
    MODES,
    TOLERANCE,
    UNITS,
    Training,
    check_losses,
    dense_loss,
    dtypes_of,
    float32_run,
    train,
)

tf1 = tf.compat.v1


def training():
    hidden = []
    loss, feeds = dense_loss(after_hidden=lambda x: hidden.append(x) or x)
    (weights,) = [v for v in tf1.trainable_variables() if v.op.name == "hidden_w"]
    tf1.summary.scalar("loss", loss)
    tf1.summary.scalar("weights_norm", tf.norm(weights))
    tf1.summary.histogram("hidden", hidden[0])
    tf1.summary.image("hidden_image", tf.reshape(hidden[0], [1, 16, 24, 1]), max_outputs=1)
    tf1.summary.tensor_summary("hidden_tensor", hidden[0])
    summary = tf1.summary.merge_all()
    # Otherwise, the norm may be that of the weights before or after the step.
    with tf.control_dependencies([summary]):
        step = tf1.train.AdamOptimizer(0.01).minimize(loss)
    return Training(loss, step, feeds, {"summary": summary})


def written(run, folder):
    """The values that a FileWriter put into its file for a run's summaries: one dict per step."""
    with tf.Graph().as_default(), tf1.summary.FileWriter(str(folder)) as writer:
        for step, summary in enumerate(run.watched["summary"]):
            writer.add_summary(summary, step)
    (file,) = folder.iterdir()
    events = [event for event in tf1.train.summary_iterator(str(file)) if event.HasField("summary")]
    return [{value.tag: value for value in event.summary.value} for event in events]


@pytest.mark.parametrize("mode", MODES)
def test_what_is_written_is_float32s(mode, tmp_path):
    run, expected = train(training, mode), float32_run(training)
    check_losses(run, expected, mode)
    (tmp_path / "mixed").mkdir()
    steps = list(zip(written(run, tmp_path / "mixed"), written(expected, tmp_path / "float32")))
    assert len(steps) == len(run.losses)
    for step, (found, wanted) in enumerate(steps):
        assert found.keys() == wanted.keys()
        assert found["loss"].simple_value == run.losses[step]
        for name in ("loss", "weights_norm"):
            assert abs(found[name].simple_value - wanted[name].simple_value) <= TOLERANCE[mode]
        histograms = found["hidden"].histo, wanted["hidden"].histo
        assert histograms[0].num == histograms[1].num
        np.testing.assert_allclose(histograms[0].sum, histograms[1].sum, atol=16 * 24 * UNITS[mode])
        tensors = [tf.make_ndarray(values["hidden_tensor"].tensor) for values in (found, wanted)]
        assert tensors[0].dtype == np.float32
        np.testing.assert_allclose(tensors[0], tensors[1], atol=TOLERANCE[mode])
        assert found["hidden_image/image"].image.width == 24


def test_summary_ops_stay_float32_behind_lowered_ones():
    run = train(training, MODES[0])
    summaries = [node for node in run.nodes if node.op.endswith(("Summary", "SummaryV2"))]
    assert {node.op for node in summaries} >= {"ScalarSummary", "HistogramSummary", "ImageSummary"}
    for node in summaries:
        assert not {"float16", "bfloat16"} & dtypes_of(node)
    assert "Tanh" in run.lowered.values()
