"""Functions in models that XLA compiles are converted too, and stay compiled."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from support.check_rewrite import TOLERANCE
from support.compiled_model import save_compiled_model
from support.compiled_rewrite import MUST_COMPILE, rewritten_compiled
from support.text_graph import random_values
from support.tf_versions import needs_compiled_functions

import npu_precision

pytestmark = needs_compiled_functions
BF16 = "allow_mix_precision_bf16"


GRAPH = """
    x = Placeholder(shape=4x8)
    y = PartitionedCall(x, f=step)
    def step(x) -> (result):
        w = Const(shape=8x8)
        product = MatMul(x, w)
        result = Relu(product)
"""


def test_a_compiled_function_is_lowered_and_its_ledger_says_so():
    text, ledger = rewritten_compiled(GRAPH, ["step"], precision_mode=BF16, call_boundaries=False)
    assert "product = MatMul[bfloat16]" in text
    (function,) = ledger.functions
    assert function.compiled
    assert not ledger.compiled
    assert function.node("product").decision == "lowered"


NESTED = """
    x = Placeholder(shape=2x4x8)
    y = PartitionedCall(x, f=step)
    def step(x) -> (result):
        result = PartitionedCall(x, f=inner)
    def inner(x) -> (result):
        w = Const(shape=8x8)
        result = BatchMatMulV2(x, w)
"""


@pytest.mark.cpu("products become MatMuls for oneDNN")
def test_what_a_compiled_function_calls_gets_no_form_for_kernels():
    text, ledger = rewritten_compiled(NESTED, ["step"], precision_mode=BF16)
    assert [each.compiled for each in ledger.functions] == [True, True]
    assert "BatchMatMulV2[bfloat16]" in text
    text, _ = rewritten_compiled(NESTED, [], precision_mode=BF16)
    assert " MatMul[bfloat16]" in text


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    return save_compiled_model(tmp_path_factory.mktemp("compiled") / "model")


@pytest.mark.parametrize("freezes", [True, False])
def test_converted_saved_models_have_compiled_functions_in_the_low_type(freezes, saved, tmp_path):
    x = random_values("x", [4, 8])
    options = {} if freezes else {"freeze": False}
    npu_precision.convert_saved_model(saved, tmp_path / "low", precision_mode=BF16, **options)
    before, after = (tf.saved_model.load(str(path)) for path in (saved, tmp_path / "low"))
    for name in ("plain", "compiled"):
        want, got = (
            each.signatures[name](x=tf.constant(x))["y"].numpy() for each in (before, after)
        )
        error = np.abs(want - got).max() / np.abs(want).max()
        assert 1e-4 < error < TOLERANCE["bfloat16"]
        library = after.signatures[name].graph.as_graph_def().library
        compiled = [each for each in library.function if each.attr[MUST_COMPILE].b]
        assert compiled
        products = [node for each in compiled for node in each.node_def if node.op == "MatMul"]
        assert products
        assert {node.attr["T"].type for node in products} == {tf.bfloat16.as_datatype_enum}
