"""The rows of the benchmark that call a Keras 3 model in a tf.function, each in a precision."""

import numpy as np
import pytest
import tensorflow as tf
from support import ROOT
from support.tf_versions import needs_keras_3, needs_onednn, needs_outputs_of_the_docs


@pytest.fixture(autouse=True)
def _benchmarks_can_be_imported(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))


@needs_outputs_of_the_docs
def test_an_older_keras_is_why_a_row_is_left_out(tmp_path):
    import rows

    reason = rows.row("live train cnn").obstacle(tmp_path)
    assert reason == "it needs Keras 3, and this is Keras 2.15.0"


@needs_keras_3
@needs_onednn
@pytest.mark.parametrize("is_training", [False, True], ids=["inference", "training"])
def test_every_contender_runs_the_same_weights_in_its_own_precision(is_training):
    import contenders
    import live

    task = live.LiveTask("lstm", is_training)
    before = tf.config.optimizer.get_experimental_options()
    results, casts = {}, {}
    for contender in (*contenders.NAMES, contenders.POLICY):
        with task.runner(contender) as runner:
            results[contender] = runner.first()
            casts[contender] = runner.what_ran()[0]
            runner.step()
    exact = results.pop(contenders.BASELINE)
    spare = casts.pop(contenders.BASELINE)
    for contender, result in results.items():
        np.testing.assert_allclose(result, exact, rtol=0, atol=0.03 * np.abs(exact).max())
        assert not np.array_equal(result, exact), contender
        assert casts[contender] > spare, contender
    after = tf.config.optimizer.get_experimental_options()
    assert {name: after[name] for name in before} == before
    assert not after["auto_mixed_precision_onednn_bfloat16"]


@needs_keras_3
def test_batch_norms_are_called_with_statistics_of_the_inputs():
    import live_models

    model = live_models.built("cnn", "float32")
    live_models.calibrate(model)
    norms = [layer for layer in model.layers if hasattr(layer, "moving_variance")]
    assert len(norms) == 5
    for layer in norms:
        assert layer.momentum == 0.99
        assert np.std(layer.moving_variance) > 0
