"""Constants that count, and large offsets: what is computed with them stays in float32."""

from __future__ import annotations

import json

import numpy as np
import pytest
from support.check_rewrite import check_rewrite
from support.tf_versions import need_kernels

OFFSET = ("kept", "large_offset", "constant")
COUNTS = ("kept", "counting_constant", "constant")
LOWERED = ("lowered", "gray_follows_lowered", "product")


def reasons(lines, constant, mode="allow_mix_precision_bf16", **options):
    """The reasons of nodes behind `product`, a matrix of 64 x 32, and a constant."""
    result = check_rewrite(
        f"""
        x = Placeholder(shape=64x32)
        w = Const(shape=32x32)
        constant = Const(value={constant})
        axis = Const[int32](value=[0])
        product = MatMul(x, w)
        {lines}
        """,
        None,
        mode=mode,
        run=False,
        **options,
    )
    return result.reasons


@pytest.mark.parametrize("mode", ["allow_mix_precision_bf16", "allow_mix_precision_fp16"])
@pytest.mark.parametrize(
    ("value", "reason"), [(6.0, LOWERED), (15.0, LOWERED), (16.0, OFFSET), (-273.15, OFFSET)]
)
@pytest.mark.parametrize("op", ["AddV2(product, constant)", "Sub(constant, product)"])
def test_an_offset_of_16_or_more_is_added_in_float32(op, value, reason, mode):
    assert reasons(f"end = {op}", value, mode)["end"] == reason


@pytest.mark.parametrize(
    ("op", "values", "reason"),
    [
        ("AddN(product, constant, product)", [[1000.0] * 32] * 64, OFFSET),
        ("BiasAdd(product, constant)", [1000.0] * 32, OFFSET),
        ("AddV2(product, constant)", [1.5 * i * i for i in range(32)], OFFSET),
        ("BiasAdd(product, constant)", [1.5 * i * i for i in range(32)], LOWERED),
        ("AddV2(product, constant)", [0.0, -100.0] * 16, LOWERED),
        ("AddV2(product, constant)", [i * i / 64 for i in range(32)], LOWERED),
    ],
    ids=["AddN", "an equal bias", "places", "a learned bias", "a mask", "small places"],
)
def test_a_tensor_may_be_an_offset(op, values, reason):
    """Anchors of a detector, for example."""
    assert reasons(f"end = {op}", values)["end"] == reason


def test_a_large_factor_is_no_offset():
    assert reasons("end = Mul(product, constant)", 1000.0)["end"] == LOWERED


@pytest.mark.parametrize(
    "lines",
    [
        "mean = Mean(h, axis) \n end = Sub(h, mean)",
        "begin = Const[int32](value=[0, 0]) \n size = Const[int32](value=[1, 32]) \n"
        "first = Slice(h, begin, size) \n end = Sub(first, product)",
        "turned = Neg(h) \n end = AddV2(turned, product)",
        "most = Max(h, axis) \n least = Min(h, axis) \n end = Sub(most, least)",
        "end = Maximum(h, product)",
    ],
)
def test_what_is_as_large_is_computed_in_float32_up_to_the_difference(lines):
    """Also where another input was lowered."""
    need_kernels("bfloat16", "Mean", "Max", "Min")
    assert reasons(f"h = AddV2(product, constant) \n {lines}", 1000.0)["end"] == OFFSET


def test_a_batch_norm_that_takes_the_offset_away_reads_it_in_float32():
    need_kernels("bfloat16", "FusedBatchNormV3")
    lines = """
        h = AddV2(product, constant)
        image = Reshape(h, shape)
        shape = Const[int32](value=[64, 1, 1, 32])
        one = Const(shape=32)
        end = FusedBatchNormV3(image, one, one, none, none, is_training=True)
        none = Const(value=[])
        """
    assert reasons(lines, 1000.0)["end"] == OFFSET
    assert reasons(lines, 1.0)["end"][:2] == ("lowered", "gray_follows_lowered")


def test_the_next_matrix_product_is_lowered_again():
    lines = "h = AddV2(product, constant) \n end = MatMul(h, w)"
    assert reasons(lines, 1000.0)["end"] == ("lowered", "white_list", "")


COLUMN = [[float(i)] for i in range(64)]


@pytest.mark.parametrize(
    ("constant", "reason"),
    [
        (COLUMN, LOWERED),
        ([[1.0 + i] for i in range(64)], COUNTS),  # from 64 on, bfloat16 has steps of a half
        ([[8.0 * i] for i in range(64)], LOWERED),
        ([[5.0 * i] for i in range(64)], COUNTS),  # up to 315
        ([[1000.0 + i] for i in range(64)], COUNTS),
        ([[i / 64] for i in range(64)], LOWERED),
        ([[10 + i / 100] for i in range(64)], COUNTS),  # times of samples
        ([[float(i * i)] for i in range(64)], OFFSET),
        ([[i * i / 1024] for i in range(64)], LOWERED),
        ([[1000.0]] * 64, OFFSET),
    ],
    ids=[
        "ones",
        "up to 64",
        "eights",
        "fives",
        "thousands",
        "shares",
        "times",
        "squares",
        "small squares",
        "equal",
    ],
)
def test_a_constant_that_counts_in_steps_that_are_lost_is_added_in_float32(constant, reason):
    assert reasons("end = AddV2(product, constant)", constant)["end"] == reason


@pytest.mark.parametrize(
    ("step", "count", "reason"), [(20.0, 5, COUNTS), (20.0, 4, LOWERED), (0.25, 5, LOWERED)]
)
def test_a_few_steps_are_enough_where_they_are_lost(step, count, reason):
    first = 4000.0 if step > 1 else 0.0
    constant = [[[first + step * i]] for i in range(count)]
    lines = "images = ExpandDims(product, axis)\nend = AddV2(images, constant)"
    assert reasons(lines, constant)["end"][:2] == reason[:2]


def test_float16_counts_further():
    constant = [[5.0 * i] for i in range(64)]
    lines = "end = AddV2(product, constant)"
    assert reasons(lines, constant, "allow_mix_precision_fp16")["end"] == LOWERED
    far = [[5.0 * i + 4000.5] for i in range(64)]
    assert reasons(lines, far, "allow_mix_precision_fp16")["end"] == COUNTS


def test_a_grid_counts_along_each_of_its_dimensions():
    """The first column of the grid is small enough for bfloat16; the last is not."""
    grid = (np.arange(64.0)[:, None] + 64 * np.arange(32.0)).tolist()
    assert reasons("end = AddV2(product, constant)", grid)["end"] == COUNTS


def test_also_behind_what_moves_the_constant():
    lines = """
        many = Const[int32](value=[1, 32])
        tiled = Tile(constant, many)
        end = Mul(product, tiled)
        """
    assert reasons(lines, [[5.0 * i] for i in range(64)])["end"] == COUNTS


def test_a_product_with_what_counts_is_a_mean_place():
    """Its fraction would be lost, even if the low type holds each whole number."""
    places = [[float(i)] for i in range(32)]
    lines = "end = MatMul(product, constant)"
    assert reasons(lines, places)["end"] == COUNTS
    weights = [[float(i % 7)] for i in range(32)]
    assert reasons(lines, weights)["end"] == ("lowered", "white_list", "")


@pytest.mark.parametrize("entry", ["AddV2", "node:end"])
def test_a_mixlist_entry_beats_it(entry):
    edits = json.dumps({"gray-list": {"to-add": [entry]}})
    found = reasons("end = AddV2(product, constant)", 1000.0, mixlist_edits=edits)
    assert found["end"] == LOWERED


def test_the_values_are_those_of_float32():
    check_rewrite(
        """
        x = Placeholder(shape=64x32)
        w = Const(shape=32x32)
        constant = Const(value=1000.0)
        axis = Const[int32](value=[0])
        product = MatMul(x, w)
        h = AddV2(product, constant)
        mean = Mean(h, axis)
        end = Sub(h, mean)
        """,
        """
        product = MatMul[bfloat16](x/npu_cast_0_bfloat16, w/npu_cast_0_bfloat16)
        h = AddV2[float32](product/npu_cast_0_float32, constant)
        mean = Mean[float32](h, axis)
        end = Sub[float32](h, mean)
        """,
        mode="allow_mix_precision_bf16",
    )
