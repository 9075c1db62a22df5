"""lower_collectives on CollectiveReduceV3, which has a communicator in place of keys."""

from __future__ import annotations

import functools
import json

from support.check_rewrite import check_rewrite
from support.tf_versions import needs_kernels

pytestmark = needs_kernels("bfloat16", "CollectiveReduceV3", "CollectiveInitializeCommunicator")

BF16 = "allow_mix_precision_bf16"
check = functools.partial(check_rewrite, mode=BF16, lower_collectives=True)

# The nodes that two devices of one session, a group of two, share. Only the empty group assignment,
# which is the whole group, has a kernel.
SHARED = """
    key = Const[int32](value=1)
    size = Const[int32](value=2)
    all = Const[int32](shape=0x0)
    flat = Const[int32](value=[-1])
    axis = Const[int32](value=0)
    """
GROUP = """
    rank{k} = Const[int32](value={k})
    group{k} = CollectiveInitializeCommunicator(key, rank{k}, size) @ /device:CPU:{k}
    """
A, B = "gradients/a_grad/MatMul", "gradients/b_grad/MatMul"


def gradient(name, rows=64):
    """A product of rows x 32 on device k, which is lowered."""
    return f"""
        {name}{{k}}/x = Placeholder(shape={rows}x8)
        {name}{{k}}/y = Placeholder(shape=8x32)
        {name}{{k}} = MatMul({name}{{k}}/x, {name}{{k}}/y) @ /device:CPU:{{k}}
        """


def reduced(name, tensor, *more, reduction="Add"):
    """The sum over the devices, and a reader of it."""
    inputs = ", ".join([f"{tensor}{{k}}", "group{k}", "all", *more])
    return f"""
        {name}{{k}} = CollectiveReduceV3({inputs}, reduction={reduction}) @ /device:CPU:{{k}}
        {name}_end{{k}} = Neg({name}{{k}}) @ /device:CPU:{{k}}
        """


def on_both(text, shared=""):
    """The graph in which each of the devices has the nodes of the text, with its number for k."""
    return shared + "".join(text.format(k=k) for k in range(2))


def graph(text):
    return on_both(GROUP + text, SHARED)


def both(*names):
    return [f"{name}{k}" for name in names for k in range(2)]


def check_reason(text, reason, *names, **options):
    """Checks that each sum has this reason to be kept or lowered; returns the result's text."""
    result = check(graph(text), None, both(*names), **options)
    assert {entry.name: entry.reason for entry in result.ledger.collectives} == {
        "sum0": reason,
        "sum1": reason,
    }
    return result.text


def test_a_gradient_is_added_up_before_it_is_cast_to_float32():
    result = check(
        graph(gradient(A) + reduced("sum", A)),
        on_both(
            f"""
            {A}{{k}} = MatMul[bfloat16]({A}{{k}}/x/npu_cast_0_bfloat16,
                {A}{{k}}/y/npu_cast_0_bfloat16) @ /device:CPU:{{k}}
            sum{{k}} = CollectiveReduceV3[bfloat16]({A}{{k}}, group{{k}}, all) @ /device:CPU:{{k}}
            sum_end{{k}} = Neg[float32](sum{{k}}/npu_cast_0_float32) @ /device:CPU:{{k}}
            """
        ),
        both("sum_end"),
    )
    for entry in result.ledger.collectives:
        assert (entry.op, entry.reason) == ("CollectiveReduceV3", "lowered")
        assert (entry.bytes_before, entry.bytes_after) == (64 * 32 * 4, 64 * 32 * 2)


def test_the_order_of_calls_stays_which_alone_tells_them_apart():
    """A float32 call that met a bfloat16 one would be an error of the run."""
    result = check(
        graph(
            gradient(B, rows=8)
            + reduced("few", B)
            + gradient(A)
            + reduced("sum", A, "^few{k}")
            + reduced("last", B, "^sum{k}")
        ),
        None,
        both("few_end", "sum_end", "last_end"),
    )
    for k in range(2):
        for line in (
            f"few{k} = CollectiveReduceV3[float32]({B}{k}/npu_cast_0_float32, group{k}, all)",
            f"sum{k} = CollectiveReduceV3[bfloat16]({A}{k}, group{k}, all, ^few{k})",
            f"last{k} = CollectiveReduceV3[float32]({B}{k}/npu_cast_0_float32, group{k}, all, "
            f"^sum{k})",
        ):
            assert f"{line} @ /device:CPU:{k}" in result.text


def test_another_reduction_stays_float32():
    text = gradient(A) + reduced("sum", A, reduction="Max")
    assert "sum0 = CollectiveReduceV3[float32]" in check_reason(text, "not_a_sum", "sum_end")


BIAS = """
    given{k} = Placeholder(shape=8)
    bias{k} = Exp(given{k}) @ /device:CPU:{k}
    """


def pack(**sizes):
    """The tensors of these sizes, flat, concatenated, added up over the devices, and split."""
    flat = "".join(f"flat_{name}{{k}} = Reshape({name}{{k}}, flat)\n" for name in sizes)
    tensors = ", ".join(f"flat_{name}{{k}}" for name in sizes)
    ends = "".join(f"end_{i}_{{k}} = Neg(parts{{k}}:{i})\n" for i in range(len(sizes)))
    return f"""
        {flat}
        packed{{k}} = ConcatV2({tensors}, axis, N={len(sizes)}) @ /device:CPU:{{k}}
        sum{{k}} = CollectiveReduceV3(packed{{k}}, group{{k}}, all,
            reduction=Add) @ /device:CPU:{{k}}
        sizes{{k}} = Const[int32](value={list(sizes.values())})
        parts{{k}} = SplitV(sum{{k}}, sizes{{k}}, axis, num_split={len(sizes)}) @ /device:CPU:{{k}}
        {ends}
        """


def test_a_pack_of_gradients_is_lowered_as_a_whole():
    text = gradient(A) + gradient(B) + pack(**{A: 64 * 32, B: 64 * 32})
    rewritten = check_reason(text, "lowered", "end_0_", "end_1_")
    assert "sum1 = CollectiveReduceV3[bfloat16](packed1, group1, all)" in rewritten


def test_a_mixed_pack_stays_since_no_key_would_tell_two_sums_apart():
    text = gradient(A) + BIAS + pack(**{A: 64 * 32, "bias": 8})
    rewritten = check_reason(text, "mixed_pack", "end_0_", "end_1_")
    assert "sum1 = CollectiveReduceV3[float32](packed1, group1, all)" in rewritten
    assert "npu_low" not in rewritten


def test_float16_is_divided_by_the_size_that_the_communicator_has():
    graph = gradient(A) + reduced("sum", A)
    rewritten = check_reason(graph, "lowered", "sum_end", mode="allow_mix_precision")
    assert "sum0 = CollectiveReduceV3[float16](sum0/npu_divide, group0, all)" in rewritten


def test_float16_stays_where_the_size_of_the_group_is_not_known():
    given = "two = Const[int32](value=2)\nsize = PlaceholderWithDefault[int32](two, shape=scalar)"
    shared = SHARED.replace("size = Const[int32](value=2)", given)
    result = check(
        on_both(GROUP + gradient(A) + reduced("sum", A), shared),
        None,
        both("sum_end"),
        mode="allow_mix_precision",
    )
    assert {entry.reason for entry in result.ledger.collectives} == {"unknown_size"}


def test_one_replica_lowers_nothing_that_another_keeps():
    """A mixlist names the nodes of one replica: the other replica would expect another dtype."""
    result = check(
        graph(gradient(A) + reduced("sum", A)),
        None,
        both("sum_end"),
        mixlist_edits=json.dumps({"black-list": {"to-add": [f"node:{A}1"]}}),
    )
    assert {entry.name: entry.reason for entry in result.ledger.collectives} == {
        "sum0": "replicas_differ",
        "sum1": "computed_in_float32",
    }
