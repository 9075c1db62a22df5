"""low_sums: float32 sums read tensors of the low type as they are, without Casts of their own."""

from __future__ import annotations

import re

import numpy as np
import pytest
import tensorflow as tf
from support.live_rewrite import rewrite_and_run
from support.text_graph import read_graph
from support.tf_versions import needs_functions_by_default, needs_onednn_in_bfloat16

import npu_precision

pytestmark = pytest.mark.cpu("sums are fused on CPUs alone")
tf1 = tf.compat.v1
LOW = ["bfloat16", "float16"]
TERMS, ROWS = "NpuPrecisionSum", "NpuPrecisionSumRows"
# a, b and c are of the low type, and wide_a, wide_b and wide_c their Casts to float32.
SOURCES = """
    x = Placeholder(shape={x})
    y = Placeholder(shape=6x8)
    z = Placeholder(shape=6x8)
    bias = Placeholder(shape=8)
    a = Cast[float32,{low}](x)
    b = Cast[float32,{low}](y)
    wide_a = Cast[{low},float32](a)
    wide_b = Cast[{low},float32](b)
    zero = Const[int32](value=0)
    first = Const[int32](value=[0])
    all = Const[int32](value=[0, -1])
    second = Const[int32](value=[1])
    """


def run(text, folder, low="bfloat16", x="6x8", **options):
    graph = read_graph(SOURCES.format(low=low, x=x) + text.format(low=low))
    folder.mkdir()
    mode = "allow_mix_precision_bf16" if low == "bfloat16" else "allow_mix_precision"
    return rewrite_and_run(graph, ["end"], folder, precision_mode=mode, **options)


def both(text, folder, low="bfloat16", **options):
    """Runs with the pass, which may do nothing else, and without it."""
    return (
        run(text, folder / rewrites.strip("-"), low, rewrites=rewrites, **options)
        for rewrites in ("low_sums", "none")
    )


def terms_of(run):
    """The sorted names of what "end" adds, as they were before TensorFlow fed and sorted them."""
    return sorted(re.sub(r"^_arg_(\w+?)_0_\d+$", r"\1", name) for name in run.nodes["end"].input)


EXACT = {
    "AddN, the Cast first": ("end = AddN(wide_a, z)", ["a", "z"]),
    "AddN, the Cast last": ("end = AddN(z, x, wide_a)", ["z", "x", "a"]),
    "AddN of Casts": ("end = AddN(wide_a, wide_b, z)", ["a", "b", "z"]),
    "AddV2": ("end = AddV2(z, wide_a)", ["z", "a"]),
    "Add": ("end = Add(wide_a, z)", ["a", "z"]),
    "an offset of the last dimension": ("end = AddV2(wide_a, bias)", ["a", "bias"]),
    "BiasAdd": ("end = BiasAdd(wide_a, bias)", ["a", "bias"]),
    "sums of sums": (
        "sum = AddV2(wide_a, wide_b)\n more = AddN(sum, z, y)\n end = BiasAdd(more, bias)",
        ["a", "b", "z", "y", "bias"],
    ),
}


@pytest.mark.parametrize("low", LOW)
@pytest.mark.parametrize("form", EXACT)
def test_terms_are_added_without_casts_and_to_the_same_bits(form, low, tmp_path):
    text, terms = EXACT[form]
    fused, plain = both(text, tmp_path, low)
    assert fused.nodes["end"].op == TERMS
    assert terms_of(fused) == sorted(terms)
    assert "wide_a" not in fused.nodes
    assert fused.rewrites[-1].by == "low_sums"
    np.testing.assert_array_equal(fused.values[0], plain.values[0])


# Each with the same sum in float32.
LOW_SUMS = {
    "AddN": ("sum = AddN(a, b)", ["wide_a", "wide_b"]),
    "AddV2": ("sum = AddV2(a, b)", ["wide_a", "wide_b"]),
    "a sum of sums": (
        "part = AddN(a, b, a)\n sum = AddN(b, part)",
        ["wide_b", "wide_a", "wide_b", "wide_a"],
    ),
}


@pytest.mark.parametrize("low", LOW)
@pytest.mark.parametrize("form", LOW_SUMS)
def test_a_low_sum_for_float32_is_not_rounded(form, low, tmp_path):
    text, wide = LOW_SUMS[form]
    fused, plain = both(text + "\n end = Cast[{low},float32](sum)", tmp_path, low)
    assert fused.nodes["end"].op == TERMS
    assert terms_of(fused) == sorted(name.replace("wide_", "") for name in wide)
    exact = run(f"end = AddN({', '.join(wide)})", tmp_path / "exact", low, rewrites="none")
    np.testing.assert_array_equal(fused.values[0], exact.values[0])
    assert np.any(plain.values[0] != exact.values[0])


def test_a_recorder_changes_no_bit(tmp_path):
    text = "sum = AddN(a, b)\n end = Cast[bfloat16,float32](sum)"
    with npu_precision.FlightRecorder(tmp_path / "records", every_n_steps=1):
        recorded = run(text, tmp_path / "recorded", rewrites="low_sums")
    fused = run(text, tmp_path / "fused", rewrites="low_sums")
    np.testing.assert_array_equal(recorded.values[0], fused.values[0])


def test_a_gate_is_one_sum(tmp_path):
    text = "sum = AddV2(a, b)\n wide = Cast[{low},float32](sum)\n end = BiasAdd(wide, bias)"
    fused, _ = both(text, tmp_path)
    assert fused.nodes["end"].op == TERMS
    assert terms_of(fused) == ["a", "b", "bias"]
    assert {"sum", "wide"}.isdisjoint(fused.nodes)


REDUCED = {
    "BiasAddGrad": ("end = BiasAddGrad(wide_a)", 1),
    "Sum of the first dimension": ("end = Sum(wide_a, first)", 1),
    "Sum of all": ("end = Sum(wide_a, all)", 0),
}


@pytest.mark.parametrize("low", LOW)
@pytest.mark.parametrize("form", REDUCED)
def test_rows_are_added_up_without_a_cast(form, low, tmp_path):
    text, kept = REDUCED[form]
    fused, plain = both(text, tmp_path, low)
    assert (fused.nodes["end"].op, fused.nodes["end"].attr["kept"].i) == (ROWS, kept)
    assert "wide_a" not in fused.nodes
    np.testing.assert_allclose(fused.values[0], plain.values[0], rtol=1e-6, atol=1e-6)


SEGMENTS = """
    ids = Const[int32](value=[2, 0, 2, -1, 0, 2])
    count = Const[int32](value=4)
    """


@pytest.mark.parametrize("low", LOW)
def test_rows_are_added_up_by_segment_without_a_cast(low, tmp_path):
    text = SEGMENTS + "end = UnsortedSegmentSum(wide_a, ids, count)"
    fused, plain = both(text, tmp_path, low)
    assert fused.nodes["end"].op == "NpuPrecisionSumSegments"
    assert "wide_a" not in fused.nodes
    np.testing.assert_array_equal(fused.values[0], plain.values[0])


def test_rows_of_a_low_sum_are_added_up_by_segment(tmp_path):
    text = """
        sum = AddN(a, b)
        wide = Cast[{low},float32](sum)
        end = UnsortedSegmentSum(wide, ids, count)
        """
    fused, plain = both(SEGMENTS + text, tmp_path)
    assert (fused.nodes["sum"].op, "wide" in fused.nodes) == ("AddN", False)
    assert [each.node for each in fused.rewrites] == ["end"]
    np.testing.assert_array_equal(fused.values[0], plain.values[0])


STAYS = {
    "the Cast has another reader": "other = Exp(wide_a)\n end = AddN(wide_a, other)",
    "the Cast waits": "wide = Cast[{low},float32](b, ^wide_a)\n end = AddN(wide, z)",
    "something waits for the Cast": "late = Exp(z, ^wide_a)\n end = AddN(wide_a, late)",
    "dimensions broadcast": (
        "column = Sum(wide_b, second, keep_dims=True)\n end = AddV2(wide_a, column)"
    ),
    "other rows": "end = Sum(wide_a, second)",
    "channels first": (
        "long = ExpandDims(wide_a, zero)\n image = ExpandDims(long, zero)\n"
        "end = BiasAddGrad(image, data_format=NCHW)"
    ),
    "dimensions of size 1 stay": "end = Sum(wide_a, first, keep_dims=True)",
    "no low term": "end = AddN(x, z)",
    "segments of float32": SEGMENTS + "end = UnsortedSegmentSum(x, ids, count)",
}


@pytest.mark.parametrize("form", STAYS)
def test_others_stay(form, tmp_path):
    fused, plain = both(STAYS[form], tmp_path)
    assert fused.nodes["end"].op == plain.nodes["end"].op
    np.testing.assert_array_equal(fused.values[0], plain.values[0])


def test_small_terms_of_a_low_sum_do_not_vanish_in_a_large_one(tmp_path):
    # Each is lost beside 1 in float32, and their sum is not.
    small = [
        f"tiny{k} = Placeholder(shape=8)\n small{k} = Cast[float32,{{low}}](tiny{k})"
        for k in range(12)
    ]
    terms = ", ".join(f"small{k}" for k in range(12))
    text = f"""
        sum = AddN({terms})
        wide = Cast[{{low}},float32](sum)
        large = Exp(x)
        end = AddN(large, wide)
        """
    feeds = {f"tiny{k}": np.full(8, 2e-8, np.float32) for k in range(12)}
    feeds["x"] = np.zeros(8, np.float32)
    fused, plain = both("\n".join([*small, text]), tmp_path, feeds=feeds, x="8")
    assert (fused.nodes["wide"].op, fused.nodes["end"].op) == (TERMS, "AddN")
    np.testing.assert_allclose(fused.values[0] - 1, 12 * 2e-8, rtol=0.3)
    np.testing.assert_allclose(fused.values[0], plain.values[0], rtol=2e-7)


def test_more_sums_than_are_added_at_once_are_added_in_parts(tmp_path):
    lines = [
        f"""
        x{k} = Placeholder(shape=6x8)
        low{k} = Cast[float32,{{low}}](x{k})
        wide{k} = Cast[{{low}},float32](low{k})
        sum{k} = AddV2({f"sum{k - 1}" if k else "z"}, wide{k})
        """
        for k in range(40)
    ]
    fused, plain = both("\n".join([*lines, "end = Identity(sum39)"]), tmp_path)
    ops = [node.op for node in fused.nodes.values()]
    assert (ops.count(TERMS), ops.count("AddV2"), ops.count("Cast")) == (3, 0, 40)
    np.testing.assert_array_equal(fused.values[0], plain.values[0])


def test_a_sum_that_several_read_is_written_once(tmp_path):
    blocks = [
        f"""
        even{k} = AddV2(sum{k}, y)
        odd{k} = AddV2(sum{k}, z)
        sum{k + 1} = AddV2(even{k}, odd{k})
        """
        for k in range(6)
    ]
    text = "\n".join(["sum0 = AddN(wide_a, z)", *blocks, "end = Exp(sum6)"])
    fused, plain = both(text, tmp_path)
    assert [each.node for each in fused.rewrites] == ["sum0"]
    np.testing.assert_array_equal(fused.values[0], plain.values[0])


@pytest.mark.parametrize("reader", ["Sum(sum, first)", "BiasAddGrad(sum)"])
def test_a_sum_whose_rows_are_added_up_is_written(reader, tmp_path):
    fused, plain = both(f"sum = AddN(wide_a, z)\n end = {reader}", tmp_path)
    assert fused.nodes["sum"].op == TERMS
    np.testing.assert_array_equal(fused.values[0], plain.values[0])


def test_a_sum_in_a_keep_dtype_scope_keeps_the_low_type(tmp_path):
    def value(rewrites):
        with tf.Graph().as_default():
            x = tf1.placeholder(tf.float32, [64])
            with npu_precision.keep_dtype_scope():
                total = tf.cast(x, tf.bfloat16) + tf.cast(tf.exp(x), tf.bfloat16)
            config = npu_precision.npu_config_proto(
                precision_mode="allow_mix_precision_bf16", rewrites=rewrites
            )
            with tf1.Session(config=config) as session:
                return session.run(tf.cast(total, tf.float32), {x: np.linspace(0, 1, 64)})

    np.testing.assert_array_equal(value("low_sums"), value("none"))


ERRORS = {
    "AddN of several shapes": (
        "end = AddN(wide_a, more)",
        {"x": np.ones([6, 8]), "more": np.ones([1, 8])},
        "?x8",
    ),
    "a bias of one element": (
        "end = BiasAdd(wide_a, short)",
        {"x": np.ones([6, 8]), "short": np.ones([1])},
        "?x8",
    ),
    "an axis twice": (
        "twice = Const[int32](value=[0, 0])\n end = Sum(wide_a, twice)",
        {"x": np.ones([6, 8])},
        "?x8",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_what_is_an_error_stays_one(case, tmp_path):
    text, feeds, shape = ERRORS[case]
    text = "more = Placeholder(shape=?x8)\nshort = Placeholder(shape=?)\n" + text
    unread = {"more": np.ones([6, 8]), "short": np.ones(8)}
    feeds = {name: value.astype(np.float32) for name, value in {**unread, **feeds}.items()}
    is_error = []
    for rewrites in ("low_sums", "none"):
        try:
            run(text, tmp_path / rewrites, feeds=feeds, x=shape, rewrites=rewrites)
        except tf.errors.InvalidArgumentError:
            is_error.append(True)
        else:
            is_error.append(False)
    # TensorFlow 1.15 takes an axis twice.
    assert is_error in ([True, True], [False, False] if "axis" in case else None)


def test_a_sum_that_is_not_the_first_term_stays_one(tmp_path):
    # z + (a + b) is not (z + a) + b in float32. TensorFlow sorts terms by their names.
    text = "late = AddN(wide_a, wide_b)\n early = Exp(z)\n end = AddN(early, late)"
    fused, plain = both(text, tmp_path)
    assert (fused.nodes["late"].op, fused.nodes["end"].op) == (TERMS, "AddN")
    np.testing.assert_array_equal(fused.values[0], plain.values[0])


def test_a_node_that_a_mixlist_names_stays(tmp_path):
    mixlist = tmp_path / "mixlist.json"
    mixlist.write_text('{"black-list": {"to-add": ["node:end"]}}')
    fused, _ = both("end = AddN(wide_a, z)", tmp_path, modify_mixlist=str(mixlist))
    assert fused.nodes["end"].op == "AddN"


def test_a_graph_for_another_machine_has_no_op_of_ours():
    graph = read_graph((SOURCES + "end = AddN(wide_a, z)").format(low="bfloat16", x="6x8"))
    rewritten, _ = npu_precision.rewrite_graph_def(
        graph, ["end"], precision_mode="allow_mix_precision_bf16"
    )
    assert "NpuPrecision" not in str(rewritten)


@needs_functions_by_default
@needs_onednn_in_bfloat16
def test_gradients_of_a_recurrent_cell_are_added_up_over_its_steps(tmp_path):
    # As in an LSTM: 12 steps with the same weights.
    random = np.random.default_rng(0)
    weights = tf.Variable(random.normal(size=[32, 32], scale=0.1).astype(np.float32))
    x = tf.constant(random.normal(size=[8, 12, 32]).astype(np.float32))

    def gradient(**fields):
        @tf.function
        def step():
            with tf.GradientTape() as tape:
                state = tf.zeros([8, 32])
                for i in tf.range(12):
                    state = tf.tanh(tf.matmul(state + x[:, i], weights))
                loss = tf.reduce_sum(tf.square(state))
            return tape.gradient(loss, weights)

        options = npu_precision.PrecisionOptions(
            precision_mode="allow_mix_precision_bf16", strict=True, **fields
        )
        with npu_precision.autocast(options):
            return step().numpy()

    fused = gradient(report_dir=str(tmp_path))
    plain = gradient(rewrites="-low_sums")
    entries = [
        entry
        for path in tmp_path.rglob("*.json")
        for entry in npu_precision.Ledger.from_json(path.read_text()).rewrites
    ]
    assert ("AddN", TERMS) in {(entry.before, entry.after) for entry in entries}
    np.testing.assert_array_equal(fused, plain)
