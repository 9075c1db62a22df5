"""What decides in functions that XLA compiles is what decides elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from support.products import X
from support.tf_versions import needs_compiled_functions

import npu_precision
from npu_precision import autocast, keep_dtype_scope
from npu_precision.explain import run_ledgers
from npu_precision.ledger import Ledger

pytestmark = needs_compiled_functions
BF16 = npu_precision.PrecisionOptions(precision_mode="allow_mix_precision_bf16")
FP16 = npu_precision.PrecisionOptions(precision_mode="allow_mix_precision_fp16")


def test_scopes_within_it_decide(weights, low_type):
    @tf.function(jit_compile=True)
    def kept(x):
        with keep_dtype_scope():
            return tf.matmul(x, weights)

    @tf.function(jit_compile=True)
    def marked(x):
        with autocast(BF16):
            return tf.matmul(x, weights)

    assert low_type(marked(X)) == "bfloat16"
    with autocast(FP16):
        assert low_type(kept(X)) == "float32"


@pytest.mark.parametrize("entry", ["MatMul", "node:.*product"])
def test_a_mixlist_decides(entry, weights, low_type):
    step = tf.function(lambda x: tf.matmul(x, weights, name="product"), jit_compile=True)
    with autocast(BF16, modify_mixlist={"black-list": {"to-add": [entry]}}):
        assert low_type(step(X)) == "float32"


def test_customized_dtypes_decide(weights, low_type, tmp_path):
    lines = tmp_path / "dtypes.cfg"
    lines.write_text("OpType::MatMul:InputDtype:float16,float16,OutputDtype:float16\n")
    step = tf.function(lambda x: tf.matmul(x, weights), jit_compile=True)
    options = npu_precision.PrecisionOptions(
        precision_mode="must_keep_origin_dtype", customize_dtypes=str(lines)
    )
    with autocast(options):
        assert low_type(step(X)) == "float16"


def test_its_ledger_says_that_xla_compiles_it(compiled, tmp_path):
    with autocast(BF16, report_dir=str(tmp_path)):
        compiled(X)
    (ledger,) = (Ledger.from_json(file.read_text()) for file in tmp_path.glob("*.json"))
    assert ledger.compiled
    assert str(ledger).startswith(f"{ledger.graph} (compiled by XLA): 1 of 1 matrix")
    (product,) = (node for node in ledger.nodes if node.op == "MatMul")
    assert product.decision == "lowered"
    model, _ = run_ledgers.load_run(str(tmp_path))
    assert model.kind.endswith("of a function that XLA compiles")


def reasons_in(folder, node):
    """The reason of a node, in the ledger that has it."""
    ledgers = [Ledger.from_json(file.read_text()) for file in folder.glob("*.json")]
    (found,) = (each for ledger in ledgers for each in ledger.nodes if each.name == node)
    return found.reason


def test_values_that_a_caller_keeps_vote_in_a_branch(weights, tmp_path):
    """As they would if the body were in place of the call."""
    factors = tf.constant(np.full([4, 32], 0.5, np.float32))

    def body(x):
        return tf.multiply(tf.matmul(x, weights), factors, name="scaled")

    @tf.function(jit_compile=True)
    def step(x):
        return tf.cond(tf.reduce_sum(x) > -1e9, lambda: body(x), lambda: x)

    with autocast(BF16, report_dir=str(tmp_path)):
        step(X)
    assert reasons_in(tmp_path, "cond/scaled") == "gray_follows_kept"


def test_values_that_a_caller_keeps_vote_in_a_loop(tmp_path):
    """A loop that forgets accumulates nothing, so that no other rule decides."""
    random = np.random.default_rng(0)
    w, b = (tf.constant(random.normal(size=shape) / 4, tf.float32) for shape in ([8, 8], [4, 8]))

    @tf.function(jit_compile=True)
    def step(x):
        def body(i, z):
            return i + 1, tf.maximum(z @ w, b, name="larger") * 0.5

        return tf.while_loop(lambda i, _: i < 10, body, (0, x))[1]

    with autocast(BF16, report_dir=str(tmp_path)):
        step(tf.constant(random.normal(size=[4, 8]), tf.float32))
    assert reasons_in(tmp_path, "while/larger") == "gray_follows_kept"


def test_a_users_error_fails_the_call(compiled):
    options = npu_precision.PrecisionOptions(
        precision_mode="must_keep_origin_dtype", target="ascend910"
    )
    with autocast(options), pytest.raises(tf.errors.InvalidArgumentError, match="MatMul"):
        compiled(X)
    compiled(X)


def test_no_op_of_onednn_is_written_into_it():
    norm = tf.keras.layers.LayerNormalization()
    dense = tf.keras.layers.Dense(64, activation="gelu")
    x = np.random.default_rng(0).normal(size=[8, 16, 64]).astype(np.float32)
    norm(x), dense(x)
    step = tf.function(lambda x: norm(dense(norm(x))), jit_compile=True)
    exact = step(x)
    with autocast(BF16):
        np.testing.assert_allclose(step(x), exact, atol=5e-2)
