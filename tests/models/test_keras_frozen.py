"""Frozen Keras models: rewritten offline in every mode, and in a session that rewrites them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from support import keras_models
from support.keras_comparison import (
    CHANGES_NOTHING,
    MATRIX_OPS,
    MIXED,
    MODELS_OF_TEST,
    UNIT,
    assert_close_but_rounded,
    assert_matrix_ops_ran_low,
    assert_nothing_changed,
    run_graph_def,
)
from support.tf_versions import needs_functions_by_default, needs_keras_2, needs_onednn
from support.tiers import mostly_full
from tensorflow.core.framework import graph_pb2
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

import npu_precision

tf1 = tf.compat.v1
pytestmark = [needs_functions_by_default, needs_keras_2]


@dataclasses.dataclass(frozen=True)
class Frozen:
    """A model as one graph, an example of its inputs, and float32's outputs for it."""

    name: str
    graph_def: graph_pb2.GraphDef
    fetch: str
    feeds: dict[str, np.ndarray]
    logits: np.ndarray

    def run(self, graph_def=None, config=None):
        graph_def = self.graph_def if graph_def is None else graph_def
        return run_graph_def(graph_def, self.fetch, self.feeds, config)

    def rewrite(self, mode, **options):
        return npu_precision.rewrite_graph_def(
            self.graph_def, self.fetch, precision_mode=mode, strict=True, **options
        )


def freeze(name, model, lower_control_flow=True):
    x = keras_models.examples(model)
    function = tf.function(lambda x: model(x, training=False))
    concrete = function.get_concrete_function(tf.TensorSpec(x.shape, x.dtype))
    concrete = convert_variables_to_constants_v2(concrete, lower_control_flow=lower_control_flow)
    graph_def = concrete.graph.as_graph_def()
    fetch, feeds = concrete.outputs[0].name, {concrete.inputs[0].name: x}
    return Frozen(name, graph_def, fetch, feeds, model(x, training=False).numpy())


@pytest.fixture(scope="module")
def frozen(request):
    return freeze(request.param, keras_models.build(request.param))


every_model = pytest.mark.parametrize(
    "frozen", mostly_full(list(keras_models.MODELS), MODELS_OF_TEST), indirect=True
)
small_models = pytest.mark.parametrize(
    "frozen", mostly_full(keras_models.SMALL, MODELS_OF_TEST), indirect=True
)


@pytest.fixture(scope="module")
def recurrent():
    """A recurrent model whose loops are functions; other models have v1 loops or none."""
    return freeze("lstm_gru", keras_models.build("lstm_gru"), lower_control_flow=False)


@every_model
def test_the_model_tells_inputs_apart(frozen):
    """Otherwise a comparison of its outputs would prove nothing."""
    assert np.isfinite(frozen.logits).all()
    assert (frozen.logits.std(axis=0) > 0.2).all()
    assert np.abs(frozen.logits).max() < 30
    assert len(set(frozen.logits.argmax(axis=1))) > 1


@every_model
@pytest.mark.parametrize("mode", UNIT)
def test_rewritten_offline_it_runs_low_and_agrees(frozen, mode):
    graph_def, ledger = frozen.rewrite(mode)
    assert_matrix_ops_ran_low(ledger, mode)
    assert_close_but_rounded(frozen.run(graph_def), frozen.logits, frozen.name, mode)


@every_model
@pytest.mark.parametrize("mode", CHANGES_NOTHING)
def test_a_mode_that_has_nothing_to_do_leaves_every_byte(frozen, mode):
    graph_def, ledger = frozen.rewrite(mode)
    assert graph_def == frozen.graph_def
    assert_nothing_changed(ledger)


@small_models
@pytest.mark.parametrize("mode", MIXED)
def test_in_a_session_it_runs_low_and_agrees(frozen, mode, ledgers, tmp_path):
    config = npu_precision.npu_config_proto(precision_mode=mode, strict=True, report_dir=tmp_path)
    logits = frozen.run(config=config)
    assert_matrix_ops_ran_low(ledgers(tmp_path), mode)
    assert_close_but_rounded(logits, frozen.logits, frozen.name, mode)


@small_models
def test_what_an_ascend910_must_lower_runs_low_and_agrees(frozen):
    """Its matrix, convolution and pooling ops take no float32."""
    graph_def, ledger = frozen.rewrite("allow_fp32_to_fp16", target="ascend910")
    decided = [node for part in ledger for node in part.nodes if node.op in MATRIX_OPS]
    assert {(node.decision, node.reason) for node in decided} == {
        ("lowered", "target_lacks_float32")
    }
    assert_close_but_rounded(frozen.run(graph_def), frozen.logits, frozen.name, "force_fp16")


@pytest.fixture
def set_policy():
    """Sets Keras' own mixed precision, for layers made later."""
    yield tf.keras.mixed_precision.set_global_policy
    tf.keras.mixed_precision.set_global_policy("float32")


@pytest.mark.parametrize("name", ["mobilenet_v2", "lstm_gru"])
def test_force_fp32_raises_what_keras_made_float16(name, set_policy):
    """Keras' Casts stay, so that values are still rounded where it rounds them."""
    exact = keras_models.build(name)
    x = keras_models.examples(exact)
    expected = exact(x, training=False).numpy()
    set_policy("mixed_float16")
    model = keras_models.MODELS[name]()
    model.set_weights(exact.get_weights())
    mixed = freeze(name, model)
    graph_def, ledger = mixed.rewrite("force_fp32")
    decided = [node for part in ledger for node in part.nodes if node.op in MATRIX_OPS]
    assert {node.decision for node in decided} == {"raised"}
    assert {tuple(node.dtypes["T"]) for node in decided} == {("float16", "float32")}
    # The model's own output is float16, and a rewrite keeps the dtypes of fetches.
    logits = mixed.run(graph_def).astype(np.float32)
    assert_close_but_rounded(logits, expected, name, "force_fp16")


@pytest.mark.parametrize("mode", UNIT)
def test_loops_that_stay_functions_run_low_and_agree(recurrent, mode):
    """Lists of tensors cross the signature of the loop's body, and keep their dtype there."""
    assert recurrent.graph_def.library.function
    graph_def, ledger = recurrent.rewrite(mode)
    assert_matrix_ops_ran_low(ledger, mode)
    config = npu_precision.npu_config_proto(precision_mode=mode, strict=True)
    for logits in recurrent.run(graph_def), recurrent.run(config=config):
        assert_close_but_rounded(logits, recurrent.logits, "lstm_gru", mode)


@needs_onednn
def test_tensorflows_own_pass_breaks_a_frozen_recurrent_net(recurrent):
    """A list made for one dtype gets another one, which our rewrites above avoid."""
    config = tf1.ConfigProto()
    rewrite_options = config.graph_options.rewrite_options
    rewrite_options.auto_mixed_precision_onednn_bfloat16 = rewrite_options.ON
    with pytest.raises(tf.errors.InvalidArgumentError, match="list elements bfloat16"):
        recurrent.run(config=config)
