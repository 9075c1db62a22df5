"""Which list each node is on: the built-in lists, the mixlist's edits, and which of two wins."""

import json

import pytest
import tensorflow as tf
from support.check_rewrite import UNCHANGED, check_rewrite
from support.strict_zip import strict_zip
from support.tf_versions import need_kernels

# "white" is a white op and so on; the last op always keeps float32.
GRAPH = """
    x = Placeholder(shape=4x3)
    w = Const(shape=3x3)
    white = MatMul(x, w)
    gray = Sigmoid(white)
    black = Softmax(gray)
    unlisted = HSVToRGB(gray)
    end = NextAfter(black, unlisted)
    """

# A mixlist's additions (+) and removals (-); and which of the four ops are lowered (L) or kept (-).
TABLE = """
    edits                               white  gray  black  unlisted

                                        L      L     -      -
    white+Softmax                       L      L     L      -
    white+HSVToRGB                      L      L     -      L
    white+Sigmoid                       L      L     -      -
    black+MatMul                        -      -     -      -
    black+Sigmoid                       L      -     -      -
    black+HSVToRGB                      L      L     -      -
    gray+MatMul                         -      -     -      -
    gray+Softmax                        L      L     L      -
    gray+HSVToRGB                       L      L     -      L

    white-MatMul                        -      -     -      -
    black-Softmax                       L      L     L      -
    gray-Sigmoid                        L      L     -      -
    gray-Sigmoid black+Sigmoid          L      -     -      -
    white-MatMul gray+MatMul            -      -     -      -
    black-Softmax white+Softmax         L      L     L      -
    black+MatMul white+Softmax          -      -     L      -

    black+node:white                    -      -     -      -
    white+node:black                    L      L     L      -
    gray+node:.*l.*                     L      L     L      L
    black+node:g                        L      L     -      -
    black-node:black                    L      L     L      -
    white-node:white                    -      -     -      -
    white-node:black                    L      L     -      -
    gray-node:.*                        L      L     -      -
    gray+node:nowhere                   L      L     -      -

    black+MatMul white+node:white       L      L     -      -
    white+Softmax black+node:black      L      L     -      -
    black+MatMul gray-node:white        -      -     -      -
    white+Sigmoid black-node:gray       L      L     -      -
    black-node:black white+Softmax      L      L     L      -
    black-node:black white+node:bl.*    L      L     L      -
    gray-node:gray black+node:gr.*      L      -     -      -
    """
COLUMNS, *ROWS = (line.rsplit(maxsplit=4) for line in TABLE.splitlines() if line.strip())


def mixlist_of(edits):
    """The mixlist that a text such as "white+Softmax black-Exp" stands for."""
    lists = {}
    for edit in edits.split():
        sign = "+" if "+" in edit.partition(":")[0] else "-"
        color, _, entry = edit.partition(sign)
        key = "to-add" if sign == "+" else "to-remove"
        lists.setdefault(f"{color}-list", {}).setdefault(key, []).append(entry)
    return json.dumps(lists)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: "".join(row[:-4]).strip() or "no edits")
def test_the_table_of_edits(mixlist, row):
    *edits, white, gray, black, unlisted = row
    if unlisted == "L":
        need_kernels("float16", "HSVToRGB")
    path = mixlist(mixlist_of("".join(edits)))
    expected = UNCHANGED if "L" not in row else None
    result = check_rewrite(GRAPH, expected, modify_mixlist=path)
    got = {name: result.ledger.node(name).decision == "lowered" for name in COLUMNS[1:]}
    assert got == dict(strict_zip(COLUMNS[1:], [cell == "L" for cell in row[-4:]]))


def test_the_ledger_tells_who_put_a_node_on_its_list(mixlist):
    path = mixlist(
        """{
          "white-list": {"to-add": ["HSVToRGB"]},
          "black-list": {
            "to-remove": ["Softmax"],
            "to-add": ["node:gr.y"]
          }
        }"""
    )
    result = check_rewrite(GRAPH, None, modify_mixlist=path)
    assert {node.name: (node.list, node.listed_by) for node in result.ledger.nodes} == {
        "x": ("unlisted", "no file"),
        "w": ("unlisted", "no file"),
        "white": ("white", "built-in"),
        "gray": ("black", f"{path}:5:24"),
        "black": ("gray", f"{path}:4:27"),
        "unlisted": ("white", f"{path}:2:37"),
        "end": ("unlisted", "no file"),
    }


def test_a_pattern_must_match_the_whole_name(mixlist):
    graph = """
        x = Placeholder(shape=4x4)
        net/layer1/a = MatMul(x, x)
        net/layer11/a = MatMul(x, net/layer1/a)
        head/net/layer1/a = MatMul(x, net/layer11/a)
        end = Softmax(head/net/layer1/a)
        """
    result = check_rewrite(graph, None, modify_mixlist=mixlist(black=["node:net/layer1/.*"]))
    assert result.reasons == {
        "net/layer1/a": ("kept", "black_list", ""),
        "net/layer11/a": ("lowered", "white_list", ""),
        "head/net/layer1/a": ("lowered", "white_list", ""),
        "end": ("kept", "black_list", ""),
    }


def test_one_layer_is_kept_out_by_its_scope_and_its_neighbours_pay_with_casts(mixlist):
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        a/mul = MatMul(x, x)
        a/relu = Relu(a/mul)
        b/mul = MatMul(a/relu, x)
        b/relu = Relu(b/mul)
        c/mul = MatMul(b/relu, x)
        end = Softmax(c/mul)
        """,
        """
        a/mul = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        a/relu = Relu[float16](a/mul)
        b/mul = MatMul[float32](a/relu/npu_cast_0_float32, x)
        b/relu = Relu[float32](b/mul)
        c/mul = MatMul[float16](b/relu/npu_cast_0_float16, x/npu_cast_0_float16)
        end = Softmax[float32](c/mul/npu_cast_0_float32)
        """,
        modify_mixlist=mixlist(black=["node:b/.*"]),
    )


def test_sources_and_random_ops_stay_what_they_are_on_any_list(mixlist):
    """No list can lower fed, stored or random values."""
    result = check_rewrite(
        """
        x = Placeholder(shape=4x4)
        c = Const(shape=4x4)
        shape = Const[int32](value=[4, 4])
        seed = Const[int32](value=[1, 2])
        random = StatelessRandomUniform(shape, seed)
        v = VarHandleOp(shape=4x4)
        assign = AssignVariableOp(v, c)
        read = ReadVariableOp(v)
        sum = AddN(x, c, random, read)
        """,
        UNCHANGED,
        modify_mixlist=mixlist(white=["node:(x|c|random|v|assign|read)"]),
        init=["assign"],
    )
    assert result.reasons["random"] == ("kept", "never_changed", "")


def test_what_only_reads_bits_is_never_changed(mixlist):
    """A Bitcast of other bits is another number, or an error."""
    result = check_rewrite(
        """
        x = Placeholder(shape=4x4)
        white = MatMul(x, x)
        bits = Bitcast[float32,int32](white)
        number = Bitcast[int32,float32](bits)
        end = Softmax(number)
        """,
        """
        white = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        bits = Bitcast[float32,int32](white/npu_cast_0_float32)
        number = Bitcast[int32,float32](bits)
        end = Softmax[float32](number)
        """,
        modify_mixlist=mixlist(white=["node:(bits|number)", "Bitcast"]),
        run=False,  # the bits of a rounded product are other integers
    )
    assert result.reasons["bits"] == ("kept", "never_changed", "")


def model_with_functions():
    @tf.function(autograph=False)
    def product(x):
        return tf.nn.relu(tf.matmul(x, x))

    @tf.function(autograph=False)
    def model(x, n):
        y = product(x)
        y = tf.cond(n > 0, lambda: tf.tanh(y), lambda: tf.matmul(y, y))
        _, y = tf.while_loop(lambda i, _: i < 3, lambda i, v: (i + 1, tf.matmul(v, v)), [0, y])
        (y,) = tf.py_function(lambda v: v, [y], [tf.float32])
        return tf.nn.softmax(y, name="end")

    specs = [tf.TensorSpec([4, 4], name="x"), tf.TensorSpec([], tf.int32, name="n")]
    return model.get_concrete_function(*specs)


@pytest.mark.parametrize("entry", ["node:.*", "PartitionedCall", "StatelessIf", "StatelessWhile"])
def test_the_signatures_of_functions_are_never_changed(mixlist, entry):
    """A pattern for a scope also matches nodes that call functions, whose bodies stay float32."""
    model = model_with_functions()  # The function of tf.py_function lives as long.
    graph = model.graph.as_graph_def()
    result = check_rewrite(graph, None, ["end"], modify_mixlist=mixlist(white=[entry]))
    # TensorFlow 1.15 has no StatelessWhile, and makes it a While.
    calls = {node.op.replace("Stateless", ""): node for node in result.ledger.nodes}
    for op in ("PartitionedCall", "If", "While"):
        assert calls[op].decision == "kept"


def test_a_user_without_a_kernel_to_lower_to_is_told(mixlist):
    """Cholesky has no float16 kernel: on the white list it keeps float32 and says why."""
    result = check_rewrite(
        """
        x = Placeholder(shape=4x4)
        start = Const(shape=4)
        spd = Diag(start)
        white = Cholesky(spd)
        gray = Relu(white)
        """,
        UNCHANGED,
        modify_mixlist=mixlist(white=["Cholesky"]),
        run=False,
    )
    assert result.reasons["white"] == ("kept", "no_kernel", "")
    assert result.reasons["gray"] == ("kept", "gray_follows_kept", "white")


@pytest.mark.parametrize(
    ("patterns", "message"),
    [
        (
            {"black": ["node:gray"], "white": ["node:gr.*"]},
            r"node 'gray' matches 'node:gray' \(added to black-list at .*\) and "
            r"'node:gr\.\*' \(added to white-list at .*\); it can be on one list only",
        ),
    ],
)
def test_patterns_that_contradict_each_other_about_a_node_are_an_error(mixlist, patterns, message):
    with pytest.raises(ValueError, match=message):
        check_rewrite(GRAPH, None, modify_mixlist=mixlist(**patterns))


def test_patterns_that_agree_about_a_node_are_none(mixlist):
    path = mixlist(black=["node:gray", "node:gr.*"], white=["node:grey"])
    result = check_rewrite(GRAPH, None, modify_mixlist=path)
    assert result.reasons["gray"] == ("kept", "black_list", "")
