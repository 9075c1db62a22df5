"""The ledger: its content, its totals, and the cause of each reason."""

import pytest
import tensorflow as tf
from support.text_graph import read_graph

import npu_precision

GRAPH = """
    x = Placeholder(shape=4x8)
    w = Const(shape=8x4)
    n = Const[int32](value=[1])
    white = MatMul(x, w)
    gray = Relu(white)
    black = Exp(gray)
    after = AddV2(gray, black)
    end = Sum(after, n)
    """


def rewrite(graph=GRAPH, fetches="end", mode="allow_mix_precision", **options):
    options = {"fold_constants": False, **options}
    return npu_precision.rewrite_graph_def(
        read_graph(graph), fetches, precision_mode=mode, name="net/a graph", **options
    )


def test_the_whole_ledger_of_a_small_graph():
    _, ledger = rewrite()
    data = ledger.to_dict()
    assert data["schema"] == "npu_precision.ledger/1"
    assert data["graph"] == "net/a graph"
    assert data["options"] == {
        "precision_mode": "allow_mix_precision",
        "rewrites": "-fold_constants",
    }
    assert data["totals"] == {
        "nodes": 11,
        "float_nodes": 5,
        "sources": 2,
        "variable_updates": 0,
        "bookkeeping": 0,
        "lowered": 2,
        "raised": 0,
        "kept": 3,
        "products": 1,
        "products_changed": 1,
        "white": 1,
        "white_lowered": 1,
        "flops": 2.0 * 8 * 4 * 4,
        "flops_lowered": 2.0 * 8 * 4 * 4,
        "computed_in_float32": 0,
        "casts": 3,
        "cast_bytes": 4 * 8 * 2 + 8 * 4 * 2 + 4 * 4 * 4,
        "collective_bytes_before": 0,
        "collective_bytes_after": 0,
        "by_list": {"unlisted": 2, "white": 1, "gray": 2, "black": 2},
        "by_reason": {
            "neutral_source": 2,
            "white_list": 1,
            "gray_follows_lowered": 1,
            "gray_follows_kept": 1,
            "black_list": 2,
        },
    }
    rows = [
        (n["name"], n["op"], n["list"], n["decision"], n["reason"], n["cause"], n["dtypes"])
        for n in data["nodes"]
    ]
    assert sorted(rows) == [
        ("after", "AddV2", "gray", "kept", "gray_follows_kept", "black", same("T")),
        ("black", "Exp", "black", "kept", "black_list", "", same("T")),
        ("end", "Sum", "black", "kept", "black_list", "", {**same("T"), "Tidx": ["int32"] * 2}),
        ("gray", "Relu", "gray", "lowered", "gray_follows_lowered", "white", halved("T")),
        ("w", "Const", "unlisted", "kept", "neutral_source", "", same("dtype")),
        ("white", "MatMul", "white", "lowered", "white_list", "", halved("T")),
        ("x", "Placeholder", "unlisted", "kept", "neutral_source", "", same("dtype")),
    ]
    assert {(n["listed_by"], n["list"] != "unlisted") for n in data["nodes"]} == {
        ("built-in", True),
        ("no file", False),
    }
    assert sorted(data["casts"], key=lambda cast: cast["name"]) == [
        cast("gray/npu_cast_0_float32", "gray:0", "float16", "float32", 4 * 4 * 4, 2),
        cast("w/npu_cast_0_float16", "w:0", "float32", "float16", 8 * 4 * 2, 1),
        cast("x/npu_cast_0_float16", "x:0", "float32", "float16", 4 * 8 * 2, 1),
    ]
    assert data["warnings"] == []


def same(attribute):
    return {attribute: ["float32", "float32"]}


def halved(attribute):
    return {attribute: ["float32", "float16"]}


def cast(name, tensor, source, target, size, consumers):
    return {
        "name": name,
        "input": tensor,
        "from": source,
        "to": target,
        "bytes": size,
        "consumers": consumers,
    }


def test_bytes_are_unknown_where_a_shape_is():
    with_unknown = GRAPH.replace("x = Placeholder(shape=4x8)", "x = Placeholder(shape=?x8)")
    _, ledger = rewrite(with_unknown)
    sizes = {cast.name: cast.bytes for cast in ledger.casts}
    assert sizes == {
        "gray/npu_cast_0_float32": None,
        "w/npu_cast_0_float16": 8 * 4 * 2,
        "x/npu_cast_0_float16": None,
    }
    assert ledger.totals["cast_bytes"] is None


def test_shapes_are_those_of_the_outputs_as_far_as_they_are_known():
    with_unknown = GRAPH.replace("x = Placeholder(shape=4x8)", "x = Placeholder(shape=?x8)")
    _, ledger = rewrite(with_unknown)
    assert ledger.node("x").shapes == [[None, 8]]
    assert ledger.node("w").shapes == [[8, 4]]
    assert ledger.node("gray").shapes == [[None, 4]]
    assert ledger.node("end").shapes == [[None]]
    of_unknown_rank = GRAPH.replace("x = Placeholder(shape=4x8)", "x = Placeholder()")
    _, ledger = rewrite(of_unknown_rank)
    assert ledger.node("x").shapes == [None]


def test_nothing_inserted_is_nothing_moved():
    _, ledger = rewrite(mode="must_keep_origin_dtype")
    assert ledger.totals["casts"] == 0
    assert ledger.totals["cast_bytes"] == 0


# Each reason, with the last lines of a graph whose node "it" has that reason, and with the options.
BF16 = {"mode": "allow_mix_precision_bf16"}
REASONS = {
    "white_list": ("it = MatMul(x, x)", {}),
    "black_list": ("it = Exp(x)", {}),
    "unlisted": ("it = NextAfter(x, x)", {}),
    "gray_follows_lowered": ("it = Relu(white)", {}),
    "gray_follows_kept": ("black = Exp(x) \n it = AddV2(white, black)", {}),
    "gray_no_votes": ("it = AddV2(x, x)", {}),
    "neutral_source": ("it = Const(shape=4x4)", {}),
    "fed": ("it = MatMul(x, x)", {"feeds": ["it"]}),
    "never_changed": ("v = VarHandleOp(shape=4x4) \n it = AssignVariableOp(v, white)", {}),
    "keep_dtype_scope": ("it = MatMul(x, x, _keep_dtype=1)", {}),
    "preserved_outputs": ("n = Const[int32](value=2) \n it = TopKV2(white, n)", {}),
    "fixed_dtype": (
        "i = Const[int32](shape=1x2x2x1) \n n = Const[int32](value=[4, 4]) \n"
        "it = ResizeBilinear(i, n)",
        {},
    ),
    "no_kernel": ("it = Rint(white)", {}),
    "target_unsupported": ("it = MatMul(x, x)", {**BF16, "target": "ascend910"}),
    "forced": ("it = Exp(x)", {"mode": "force_fp16"}),
    "origin_kept": ("it = MatMul(x, x)", {"mode": "must_keep_origin_dtype"}),
    "target_has_float32": ("it = MatMul(x, x)", {"mode": "allow_fp32_to_fp16"}),
    "target_lacks_float32": (
        "it = MatMul(x, x)",
        {"mode": "allow_fp32_to_fp16", "target": "ascend910"},
    ),
    "matrix_or_convolution": (
        "it = MatMul(x, x)",
        {"mode": "allow_fp32_to_bf16", "target": "ascend910b"},
    ),
    "inputs_rounded": ("it = MatMul(x, x)", {"mode": "cube_fp16in_fp32out"}),
    "not_matrix_or_convolution": ("it = Relu(x)", {"mode": "cube_fp16in_fp32out"}),
}


@pytest.mark.parametrize("reason", REASONS)
def test_the_reason_is_told(reason):
    """ "shares_dtype" needs a loop: see test_resolve_gray.py."""
    lines, options = REASONS[reason]
    graph = f"x = Placeholder(shape=32x32) \n white = MatMul(x, x) \n {lines}"
    _, ledger = rewrite(graph, "it", **options)
    it = ledger.node("it")
    assert it.reason == reason
    assert it.cause == {"gray_follows_lowered": "white", "gray_follows_kept": "black"}.get(
        reason, ""
    )
    lowers = {"white_list", "gray_follows_lowered", "forced", "target_lacks_float32"}
    assert it.decision == ("lowered" if reason in {*lowers, "matrix_or_convolution"} else "kept")


def test_the_cause_is_behind_the_casts_between():
    """x -> white -> Cast -> black: the voter is an op of the user's, never a Cast of ours."""
    after, _ = rewrite()
    _, ledger = npu_precision.rewrite_graph_def(
        after, "end", precision_mode="allow_mix_precision", fold_constants=False
    )
    assert ledger.node("after").cause == "black"
    assert ledger.node("gray").cause == "white"


def test_the_cause_is_the_nearest_predecessor_that_said_so():
    _, ledger = rewrite(
        """
        x = Placeholder(shape=4x4)
        black = Exp(x)
        first = Relu(black)
        second = Relu(first)
        """,
        "second",
    )
    assert ledger.node("first").cause == "black"
    assert ledger.node("second").cause == "first"


def test_a_device_is_told():
    _, ledger = rewrite(
        """
        x = Placeholder(shape=4x4)
        it = MatMul(x, x) @ /device:CPU:1
        """,
        "it",
    )
    assert ledger.node("it").device == "/device:CPU:1"


def test_functions_have_ledgers_of_their_own_that_add_up():
    @tf.function(autograph=False)
    def product(x):
        return tf.nn.relu(tf.matmul(x, x))

    @tf.function(autograph=False)
    def model(x):
        return tf.nn.softmax(product(x) + tf.exp(x))

    graph = model.get_concrete_function(tf.TensorSpec([4, 4])).graph.as_graph_def()
    fetch = [node.name for node in graph.node if node.op == "Identity"]
    _, ledger = npu_precision.rewrite_graph_def(graph, fetch, precision_mode="allow_mix_precision")
    (body,) = ledger.functions
    lowered = [node.op for node in body.nodes if node.decision == "lowered"]
    assert lowered == ["MatMul", "Relu", "Identity"]
    assert ledger.totals["lowered"] == 0
    assert ledger.total("lowered") == 3
    counted = ("float_nodes", "sources", "variable_updates", "bookkeeping")
    assert sum(map(ledger.total, counted)) == sum(len(part.nodes) for part in ledger)
    assert ledger.total("casts") == sum(len(part.casts) for part in ledger)


def test_the_summary_line_says_what_the_totals_say():
    _, ledger = rewrite()
    sentence = (
        "1 of 1 matrix and convolution ops in float16; lowered 2 of 5 float nodes, "
        "3 Casts of 192 bytes; kept 3: 2 black_list, 1 gray_follows_kept"
    )
    assert str(ledger) == f"net/a graph: {sentence}"
    assert ledger.data["summary"] == sentence
