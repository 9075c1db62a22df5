"""Products before a linear solver, an inverse or a decomposition keep float32."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow as tf
from support.check_rewrite import check_rewrite, run
from support.tf_versions import needs_kernels

import npu_precision

LOWERED = ("lowered", "white_list", "")
GIVEN = """
    x = Placeholder(shape=64x64)
    y = Placeholder(shape=64x8)
    w = Placeholder(shape=64x64)
    weight = Const(shape=64x64)
    small = Const(value=0.5)
    gram = MatMul(x, x, transpose_a=True)
    """


def decided(lines, mode="allow_mix_precision_bf16", **options):
    result = check_rewrite(GIVEN + lines, None, ["end"], mode=mode, run=False, **options)
    return result.reasons


@pytest.mark.parametrize("mode", ["allow_mix_precision_bf16", "allow_mix_precision_fp16"])
@pytest.mark.parametrize(
    "end",
    [
        "MatrixSolve(gram, y)",
        "MatrixTriangularSolve(gram, y)",
        "MatrixInverse(gram)",
        "Cholesky(gram)",
        "SelfAdjointEigV2(gram)",
        "Svd(gram)",
        "Qr(gram)",
        "MatrixDeterminant(gram)",
    ],
)
def test_a_gram_matrix_of_any_size_keeps_float32(end, mode):
    found = decided(f"solver = {end} \n end = Identity(solver:0)", mode)
    assert found["gram"] == ("kept", "before_magnifier", "solver")


def test_so_does_the_right_side_and_what_is_between():
    lines = """
        right = MatMul(x, y, transpose_a=True)
        moved = AddV2(gram, small)
        scaled = Mul(right, small)
        end = MatrixSolve(moved, scaled)
        """
    found = decided(lines)
    kept = ("kept", "before_magnifier", "end")
    assert found["gram"] == found["right"] == found["moved"] == found["scaled"] == kept


def test_so_do_products_of_products_but_not_a_layer():
    found = decided(
        "inner = MatMul(w, x) \n outer = MatMul(x, inner) \n end = MatrixInverse(outer)"
    )
    assert found["inner"] == found["outer"] == ("kept", "before_magnifier", "end")
    lines = """
        layer = MatMul(x, weight)
        hidden = Tanh(layer)
        features = MatMul(hidden, weight)
        last = MatMul(features, weight)
        end = MatrixInverse(last)
        """
    found = decided(lines)
    assert found["last"] == ("kept", "before_magnifier", "end")
    assert found["layer"] == found["features"] == LOWERED


@needs_kernels("bfloat16", "Tanh")
def test_the_activation_of_the_last_layer_before_a_gram_matrix_is_lowered():
    lines = """
        layer = MatMul(x, weight)
        hidden = Tanh(layer)
        of_hidden = MatMul(hidden, hidden, transpose_a=True)
        end = Cholesky(of_hidden)
        """
    found = decided(lines)
    assert found["of_hidden"] == ("kept", "before_magnifier", "end")
    assert found["layer"] == LOWERED
    assert found["hidden"][0] == "lowered"


def test_what_multiplies_a_solution_keeps_float32_but_not_what_multiplies_an_inverse():
    found = decided("solution = MatrixSolve(x, y) \n end = MatMul(w, solution)")
    assert found["end"] == ("kept", "before_magnifier", "solution")
    found = decided("inverse = MatrixInverse(x) \n end = MatMul(w, inverse)")
    assert found["end"][0] == "lowered"


def test_a_solution_may_be_moved_but_not_computed_with():
    lines = "solution = MatrixSolve(x, y) \n perm = Const[int32](value=[1, 0]) \n"
    found = decided(lines + "turned = Transpose(solution, perm) \n end = MatMul(turned, w)")
    assert found["end"] == ("kept", "before_magnifier", "solution")
    found = decided(lines + "hidden = Tanh(solution) \n end = MatMul(w, hidden)")
    assert found["end"][0] == "lowered"


@pytest.mark.parametrize("entry", ["MatMul", "node:gram"])
def test_a_mixlist_entry_beats_it(entry):
    edits = json.dumps({"white-list": {"to-add": [entry]}})
    assert decided("end = MatrixInverse(gram)", mixlist_edits=edits)["gram"][0] == "lowered"


def test_a_polynomial_is_fitted_as_in_float32():
    t = np.linspace(0, 1, 64, dtype="f")
    x, y = np.stack([t**k for k in range(6)], 1), np.sin(5 * t)[:, None]
    with tf.Graph().as_default() as graph:
        gram = tf.matmul(x, x, transpose_a=True)
        factors = tf.linalg.solve(gram, tf.matmul(x, y, transpose_a=True))
        tf.matmul(x, factors, name="end")
    low, _ = npu_precision.rewrite_graph_def(
        graph.as_graph_def(), "end", precision_mode="allow_mix_precision_bf16", rewrites="none"
    )
    (want,), (got,) = (run(each, ["end"]) for each in (graph.as_graph_def(), low))
    np.testing.assert_array_equal(got, want)
