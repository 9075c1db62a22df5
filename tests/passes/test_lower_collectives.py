"""lower_collectives: gradients in a low type are added up over workers in that type."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import tensorflow as tf
from support.check_rewrite import UNCHANGED, check_rewrite
from support.text_graph import read_graph
from support.tf_versions import needs_kernels

import npu_precision
from npu_precision.ledger import LedgerCollective

pytestmark = needs_kernels("bfloat16", "CollectiveReduceV2")

BF16 = "allow_mix_precision_bf16"
check = functools.partial(check_rewrite, mode=BF16, lower_collectives=True)
tf1 = tf.compat.v1

# Groups of one, since this test is one process.
KEYS = """
    size = Const[int32](value=1)
    group = Const[int32](value=1)
    key = Const[int32](value=100)
    """
SUM = "CollectiveReduceV2({}, size, group, key, merge_op=Add, final_op=Id, Nordering_token=0)"


def product(name, shape=(64, 32), other="y"):
    """A MatMul of that name; its sum is lowered: 64 x 32 is more than 1024 elements."""
    rows, columns = shape
    return f"""
        {name}/x = Placeholder(shape={rows}x8)
        {name}/y = Placeholder(shape=8x{columns})
        {name} = MatMul({name}/x, {name}/y)
        """


GRADIENT = "gradients/a/MatMul_grad/MatMul"


def alone(name=GRADIENT, shape=(64, 32), reduce=SUM):
    return f"{product(name, shape)}{KEYS} sum = {reduce.format(name)}\n end = Neg(sum)"


def reasons(result):
    return {entry.name: entry.reason for entry in result.ledger.collectives}


def test_a_gradient_is_added_up_before_it_is_cast_to_float32():
    result = check(
        alone("gradients/a_grad/MatMul"),
        """
        gradients/a_grad/MatMul = MatMul[bfloat16](gradients/a_grad/MatMul/x/npu_cast_0_bfloat16,
            gradients/a_grad/MatMul/y/npu_cast_0_bfloat16)
        sum = CollectiveReduceV2[bfloat16](gradients/a_grad/MatMul, size, group, key)
        end = Neg[float32](sum/npu_cast_0_float32)
        """,
    )
    bytes_before = 64 * 32 * 4
    assert result.ledger.collectives == (
        LedgerCollective(
            "sum", "CollectiveReduceV2", "lowered", 1, 1, bytes_before, bytes_before // 2
        ),
    )
    assert result.ledger.totals["collective_bytes_before"] == bytes_before
    assert result.ledger.totals["collective_bytes_after"] == bytes_before // 2
    assert "all-reduces of 4.1 kB instead of 8.2 kB" in str(result.ledger)


def test_it_is_off_unless_asked_for():
    ledger = check(alone(), None, lower_collectives=None).ledger
    assert not ledger.collectives
    assert not ledger.rewrites


V1 = (
    "CollectiveReduce({}, group_size=1, group_key=1, instance_key=100, merge_op=Add, final_op=Id, "
    "subdiv_offsets=[0])"
)


def test_the_first_version_is_lowered_too():
    result = check(alone(reduce=V1), None)
    assert reasons(result) == {"sum": "lowered"}
    (reduce,) = (node for node in result.graph.node if node.op == "CollectiveReduce")
    assert reduce.attr["T"].type == tf.bfloat16.as_datatype_enum


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (alone(name="forward/MatMul"), "not_a_gradient"),
        (alone(name="gradient_tape/MatMul_1"), "lowered"),
        (alone(name="gradients/MatMul_1"), "not_a_gradient"),
        (alone(shape=(32, 31)), "few_elements"),
        (alone(reduce=SUM.replace("merge_op=Add", "merge_op=Max")), "not_a_sum"),
        (alone().replace("end = Neg(sum)", "end = Neg(sum)\nsum_2 = Identity(sum)"), "lowered"),
        (alone().replace(f"= {SUM.format(GRADIENT)}", f"= {SUM.format('exp')}").replace(
            "    size =", f"    exp = Exp({GRADIENT})\n    size ="), "computed_in_float32"),
    ],
)  # fmt: skip
def test_what_stays_float32_has_a_reason(text, reason):
    result = check(text, None)
    assert reasons(result) == {"sum": reason}
    (node,) = (node for node in result.graph.node if node.name == "sum")
    assert (node.attr["T"].type == tf.bfloat16.as_datatype_enum) == (reason == "lowered")


def test_a_sum_that_is_fetched_stays():
    assert reasons(check(alone(), None, ["sum"])) == {"sum": "fetched_or_fed"}


def test_the_sum_of_two_gradients_is_one():
    text = f"""
        {product("gradients/a_grad/MatMul")}
        {product("gradients/b_grad/MatMul")}
        total = AddN(gradients/a_grad/MatMul, gradients/b_grad/MatMul, N=2)
        reshaped = Reshape(total, shape)
        {KEYS}
        sum = {SUM.format("reshaped")}
        end = Neg(sum)
        """
    text = "shape = Const[int32](value=[-1])\n" + text
    assert reasons(check(text, None)) == {"sum": "lowered"}


PACK = f"""
    {product("gradients/a_grad/MatMul")}
    {product("gradients/b_grad/MatMul", (8, 4))}
    {product("gradients/c_grad/MatMul", (128, 16))}
    given = Placeholder(shape=8)
    bias = Exp(given)
    flat = Const[int32](value=[-1])
    axis = Const[int32](value=0)
    a = Reshape(gradients/a_grad/MatMul, flat)
    b = Reshape(gradients/b_grad/MatMul, flat)
    c = Reshape(gradients/c_grad/MatMul, flat)
    {KEYS}
    packed = ConcatV2(PARTS, axis, N=NUMBER)
    sum = {SUM.format("packed")}
    sizes = Const[int32](value=SIZES)
    parts = SplitV(sum, sizes, axis, num_split=NUMBER)
    """
SIZE = {"a": 2048, "b": 32, "c": 2048, "bias": 8}


def pack(*names):
    """The pack of these tensors, and a consumer of each part of the sum."""
    ends = "\n".join(f"end_{name} = Neg(parts:{k})" for k, name in enumerate(names))
    sizes = str([SIZE[name] for name in names])
    text = PACK.replace("PARTS", ", ".join(names)).replace("SIZES", sizes)
    return text.replace("NUMBER", str(len(names))) + ends


def ends(*names):
    return [f"end_{name}" for name in names]


@pytest.mark.parametrize("mixlist", [None, '{"black-list": {"to-add": ["ConcatV2"]}}'])
def test_a_pack_of_gradients_is_lowered_as_a_whole(mixlist):
    result = check(pack("a", "c"), None, ends("a", "c"), mixlist_edits=mixlist)
    (entry,) = result.ledger.collectives
    tensors = 1 if mixlist is None else 2
    assert (entry.reason, entry.tensors, entry.lowered) == ("lowered", tensors, tensors)
    assert (entry.bytes_before, entry.bytes_after) == (4096 * 4, 4096 * 2)
    assert "packed = ConcatV2[bfloat16](a, c, axis)" in result.text
    assert "parts = SplitV[float32](sum/npu_cast_0_float32, sizes, axis)" in result.text


def test_of_a_mixed_pack_two_sums_are_made():
    names = ["bias", "a", "b", "c"]
    result = check(pack(*names), None, ends(*names))
    (entry,) = result.ledger.collectives
    assert (entry.reason, entry.tensors, entry.lowered) == ("lowered", 4, 2)
    assert (entry.bytes_before, entry.bytes_after) == (4136 * 4, 4096 * 2 + 40 * 4)
    for line in (
        "packed = ConcatV2[float32](bias, b/npu_cast_0_float32, axis)",
        "sum = CollectiveReduceV2[float32](packed, size, group, key)",
        "packed/npu_low = ConcatV2[bfloat16](a, c, axis)",
        "sum/npu_low = CollectiveReduceV2[bfloat16]"
        "(packed/npu_low, size, group, sum/npu_low/instance_key, ^sum)",
        "end_bias = Neg[float32](parts)",
        "end_a = Neg[float32](parts/npu_low)",
        "end_b = Neg[float32](parts:1)",
        "end_c = Neg[float32](parts/npu_low:1)",
    ):
        assert line in result.text


def test_what_waits_for_a_mixed_pack_waits_for_both_sums():
    names = ["bias", "a"]
    result = check(pack(*names) + "\nlast = Neg(bias, ^sum)", None, [*ends(*names), "last"])
    assert "last = Neg[float32](bias, ^sum, ^sum/npu_low)" in result.text


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("value=[8, 2048]", "value=[9, 2047]"),
        ("    sizes =", "    other = Neg(sum)\n    sizes ="),
        ("packed = ConcatV2(bias, a, axis", "packed = ConcatV2(bias, a, last"),
        ("parts = SplitV(sum, sizes, axis", "parts = SplitV(sum, sizes, last"),
    ],
)
def test_a_pack_that_is_not_split_into_its_parts_stays(old, new):
    text = pack("bias", "a").replace("    axis =", "    last = Const[int32](value=-1)\n    axis =")
    assert old in text
    result = check(text.replace(old, new), None, ends("bias", "a"))
    assert reasons(result) == {"sum": "split_elsewhere"}


def test_a_pack_in_which_nothing_is_large_stays_as_it_is():
    result = check(pack("b", "bias"), None, ends("b", "bias"))
    assert reasons(result) == {"sum": "few_elements"}
    assert "packed = ConcatV2[float32](b/npu_cast_0_float32, bias, axis)" in result.text


def in_group_of(size):
    return alone().replace("size = Const[int32](value=1)", f"size = Const[int32](value={size})")


@pytest.mark.parametrize(("size", "power"), [(2, 2), (3, 4), (8, 8)])
def test_float16_is_divided_and_multiplied_by_a_power_of_two(size, power):
    result = check(in_group_of(size), None, mode="allow_mix_precision", run=False)
    values = {
        node.name: tf.make_ndarray(node.attr["value"].tensor)
        for node in result.graph.node
        if node.name.endswith("/by")
    }
    assert values == {"sum/npu_divide/by": 1 / power, "sum/npu_multiply/by": power}
    assert "end = Neg[float32](sum/npu_multiply)" in result.text


def test_bfloat16_has_the_range_for_sums():
    assert "npu_divide" not in check(in_group_of(2), None, run=False).text


def test_of_a_group_of_unknown_size_float16_stays_float32():
    text = alone().replace(
        "size = Const[int32](value=1)", "size = Placeholder[int32](shape=scalar)"
    )
    assert reasons(check(text, None, mode="allow_mix_precision", run=False)) == {
        "sum": "unknown_size"
    }
    assert reasons(check(text, None, run=False)) == {"sum": "lowered"}


def test_what_would_overflow_in_a_sum_of_float16_does_not():
    # Two devices of one session are a group of two.
    text = "\n".join(
        f"""
        {GRADIENT}_{k} = MatMul(x, y)
        sum{k} = CollectiveReduceV2({GRADIENT}_{k}, size, group, key, merge_op=Add, final_op=Id,
            Nordering_token=0) @ /device:CPU:{k}
        end{k} = Identity(sum{k}) @ /device:CPU:{k}
        """
        for k in range(2)
    )
    text = f"""
        x = Placeholder(shape=64x1)
        y = Placeholder(shape=1x32)
        {KEYS.replace("size = Const[int32](value=1)", "size = Const[int32](value=2)")}
        {text}
        """
    feeds = {"x:0": np.full([64, 1], 192, np.float32), "y:0": np.full([1, 32], 256, np.float32)}
    rewritten, _ = npu_precision.rewrite_graph_def(
        read_graph(text),
        ["end0", "end1"],
        precision_mode="allow_mix_precision",
        lower_collectives=True,
    )
    config = tf1.ConfigProto(device_count={"CPU": 2})
    with tf.Graph().as_default(), tf1.Session(config=config) as session:
        tf1.import_graph_def(rewritten, name="")
        for value in session.run(["end0:0", "end1:0"], feeds):
            np.testing.assert_array_equal(value, 98_304.0)


def test_it_needs_a_mode_that_lowers():
    with pytest.raises(ValueError, match="lower_collectives: got true with precision_mode"):
        npu_precision.PrecisionOptions("force_fp32", lower_collectives=True)


def test_a_graph_without_collectives_is_left_alone():
    assert not check("x = Placeholder(shape=4)\nend = Neg(x)", UNCHANGED).ledger.collectives
