"""pad_into_convolutions: convolutions add the zeros that a Pad before them added."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import tensorflow as tf
from support.check_rewrite import TOLERANCE, UNCHANGED, check_rewrite, run
from support.text_graph import random_values, read_graph
from support.tf_versions import need_kernels, needs_onednn_in_bfloat16

import npu_precision

check = functools.partial(check_rewrite, pad_into_convolutions=True)
tf1 = tf.compat.v1

# The padding that Keras writes for a kernel of 3x3, a stride of 2, and images of an even size.
BEFORE_STRIDE_2 = "[[0, 0], [0, 1], [0, 1], [0, 0]]"
ALL_AROUND = "[[0, 0], [1, 1], [1, 1], [0, 0]]"


def graph(amounts=BEFORE_STRIDE_2, shape="2x8x8x4", op="Conv2D", filter="3x3x4x4", strides=2):
    return f"""
        x = Placeholder(shape={shape})
        amounts = Const[int32](value={amounts})
        w = Const(shape={filter})
        pad = Pad(x, amounts)
        conv = {op}(pad, w, strides=[1, {strides}, {strides}, 1], padding=VALID)
        end = Softmax(conv)
        """


def padding_of(result):
    """(padding, its amounts) of each convolution."""
    return [
        (node.attr["padding"].s.decode(), list(node.attr["explicit_paddings"].list.i))
        for node in result.graph.node
        if node.op in ("Conv2D", "DepthwiseConv2dNative")
    ]


GOLDEN = """
    conv = {op}[float16](x/npu_cast_0_float16, w/npu_cast_0_float16)
    end = Softmax[float32](conv/npu_cast_0_float32)
    """


@pytest.mark.parametrize("op", ["Conv2D", "DepthwiseConv2dNative"])
def test_what_keras_adds_before_a_stride_is_padding_same(op):
    result = check(graph(op=op), GOLDEN.format(op=op))
    assert padding_of(result) == [("SAME", [])]
    (rewrite,) = result.ledger.rewrites
    assert rewrite == npu_precision.ledger.LedgerRewrite(
        "pad_into_convolutions", "conv", "pad", "SAME"
    )


def test_other_zeros_are_written_out():
    result = check(graph(ALL_AROUND), GOLDEN.format(op="Conv2D"))
    assert padding_of(result) == [("EXPLICIT", [0, 0, 1, 1, 1, 1, 0, 0])]
    assert [entry.after for entry in result.ledger.rewrites] == ["EXPLICIT"]


def test_for_an_image_of_unknown_size_zeros_are_written_out():
    """Odd images get zeros on both sides by SAME."""
    result = check(graph(shape="2x?x8x4"), None, run=False)
    assert padding_of(result) == [("EXPLICIT", [0, 0, 0, 1, 0, 1, 0, 0])]


@pytest.mark.parametrize("size", [6, 7, 8, 9])
@pytest.mark.parametrize("kernel", [3, 5])
@pytest.mark.parametrize("strides", [1, 2, 3])
def test_each_size_gets_the_zeros_of_the_pad(size, kernel, strides):
    """check_rewrite compares the values with those of the original graph with its Pad."""
    before, after = (kernel - 1) // 2, kernel // 2
    for amounts in ([before, after], [after, before], [before, before], [0, 1]):
        written = f"[[0, 0], {amounts}, {amounts}, [0, 0]]"
        filter = f"{kernel}x{kernel}x4x4"
        check(graph(written, f"2x{size}x{size}x4", filter=filter, strides=strides), None)


def test_heights_and_widths_are_not_mixed_up():
    amounts = "[[0, 0], [1, 0], [0, 2], [0, 0]]"
    result = check(graph(amounts, "2x8x7x4", filter="2x3x4x4"), None)
    assert padding_of(result) == [("EXPLICIT", [0, 0, 1, 0, 0, 2, 0, 0])]


def test_all_convolutions_behind_one_pad_pad_by_themselves():
    text = graph() + "other = DepthwiseConv2dNative(pad, w, strides=[1, 2, 2, 1], padding=VALID)"
    result = check(text, None, ["end", "other"])
    assert padding_of(result) == [("SAME", []), ("SAME", [])]
    assert "pad" not in {node.name for node in result.graph.node}


def pad_v2(value):
    return (
        graph()
        .replace("pad = Pad(x, amounts)", "pad = PadV2(x, amounts, value)")
        .replace("w = Const", f"value = Const(value={value})\n        w = Const")
    )


def test_a_pad_that_says_which_value_it_adds_goes_if_that_is_zero():
    assert padding_of(check(pad_v2("0.0"), None)) == [("SAME", [])]
    assert padding_of(check(pad_v2("1.0"), None)) == [("VALID", [])]


OTHERS = {
    "another op reads the Pad": (graph() + "    other = Relu(pad)", ["end", "other"]),
    "the Pad is fetched": (graph(), ["end", "pad"]),
    "the batch is padded": (graph("[[0, 1], [0, 1], [0, 1], [0, 0]]"), None),
    "channels are padded": (
        graph("[[0, 0], [0, 1], [0, 1], [0, 2]]", "2x8x8x2"),
        None,
    ),
    "the amounts are not known": (
        graph().replace(f"Const[int32](value={BEFORE_STRIDE_2})", "Placeholder[int32](shape=4x2)"),
        None,
    ),
    "it does not add zeros": (
        graph(ALL_AROUND).replace("Pad(x, amounts)", "MirrorPad(x, amounts, mode=REFLECT)"),
        None,
    ),
    "the convolution pads too": (graph().replace("padding=VALID", "padding=SAME"), None),
    "dilations": (graph(strides=1).replace("VALID", "VALID, dilations=[1, 2, 2, 1]"), None),
    "more zeros than the kernel": (graph("[[0, 0], [0, 3], [0, 0], [0, 0]]"), None),
    "the Pad has a control dependency": (
        graph().replace("Pad(x, amounts)", "Pad(x, amounts, ^x)"),
        None,
    ),
    "another node has a control dependency on it": (
        graph().replace("Softmax(conv)", "Softmax(conv, ^pad)"),
        None,
    ),
    "the Pad keeps its dtype by its scope": (
        graph().replace("Pad(x, amounts)", "Pad(x, amounts, _keep_dtype=1)"),
        None,
    ),
    "another device": (graph().replace("Pad(x, amounts)", "Pad(x, amounts) @ /device:CPU:1"), None),
    "a depthwise convolution has no amounts": (
        graph(ALL_AROUND, op="DepthwiseConv2dNative"),
        None,
    ),
}


@pytest.mark.parametrize("other", sorted(OTHERS))
def test_the_pad_stays_where_the_convolutions_cannot_take_its_place(other):
    text, fetches = OTHERS[other]
    # Fed amounts would be random numbers, and oneDNN's kernel of a Pad and a convolution, which
    # replaces both without regard to the optimizer, pads height and width only.
    runs = other not in (
        "the amounts are not known",
        "the batch is padded",
        "channels are padded",
    )
    assert not check(text, None, fetches, run=runs).ledger.rewrites


def test_an_image_of_channels_first_stays():
    for amounts, shape in (
        ("[[0, 0], [0, 0], [0, 1], [0, 1]]", "2x4x8x8"),
        # A channel is added, where images of channels last have their height.
        (BEFORE_STRIDE_2, "2x3x8x9"),
    ):
        text = graph(amounts, shape).replace(
            "strides=[1, 2, 2, 1], padding=VALID",
            "strides=[1, 1, 2, 2], padding=VALID, data_format=NCHW",
        )
        assert not check(text, None, run=False).ledger.rewrites


def test_a_filter_that_is_padded_stays():
    text = """
        x = Placeholder(shape=2x8x8x4)
        amounts = Const[int32](value=[[0, 0], [0, 1], [0, 0], [0, 0]])
        w = Placeholder(shape=2x3x4x4)
        pad = Pad(w, amounts)
        conv = Conv2D(x, pad, strides=[1, 2, 2, 1], padding=VALID)
        """
    # The process would end: oneDNN's kernel takes the Pad for one of the images.
    assert not check(text, None, run=False).ledger.rewrites


def test_a_filter_of_unknown_shape_says_nothing_of_the_kernel():
    text = graph().replace("w = Const(shape=3x3x4x4)", "w = Placeholder(shape=?x?x4x4)")
    assert not check(text, None, run=False).ledger.rewrites
    known = graph().replace("w = Const(", "w = Placeholder(")
    assert len(check(known, None).ledger.rewrites) == 1


@pytest.mark.parametrize("named", ["Pad", "Conv2D", "node:conv", "node:pad"])
def test_a_node_that_the_mixlist_names_stays_as_it_is(named, tmp_path):
    mixlist = tmp_path / "mixlist.json"
    mixlist.write_text(f'{{"gray-list": {{"to-add": ["{named}"]}}}}')
    assert not check(graph(), None, modify_mixlist=str(mixlist)).ledger.rewrites


def test_a_pad_that_is_fed_stays():
    _, ledger = npu_precision.rewrite_graph_def(
        read_graph(graph()), "end", feeds=["pad"], precision_mode="allow_mix_precision"
    )
    assert not ledger.rewrites


@pytest.mark.parametrize(
    "options",
    [
        {
            "mode": "must_keep_origin_dtype",
            "pad_into_convolutions": None,
            "rewrites": "-fold_constants",
        },
        {"mode": "force_fp32", "pad_into_convolutions": None, "rewrites": "-fold_constants"},
        {
            "mode": "cube_fp16in_fp32out",
            "pad_into_convolutions": None,
            "rewrites": "-fold_constants",
        },
        {"target": "ascend910", "pad_into_convolutions": None, "rewrites": "-fold_constants"},
        {"pad_into_convolutions": False},
    ],
)
def test_the_pad_stays_where_it_was_not_asked_for(options):
    assert not check(graph(), None, **options).ledger.rewrites


def test_the_pad_stays_where_the_low_type_is_emulated():
    _, ledger = npu_precision.rewrite_graph_def(
        read_graph(graph()),
        "end",
        precision_mode="allow_mix_precision",
        emulate=True,
        pad_into_convolutions=True,
    )
    assert not ledger.rewrites


def test_a_graph_without_convolutions_stays():
    text = """
        x = Placeholder(shape=2x8)
        amounts = Const[int32](value=[[0, 1], [0, 0]])
        end = Pad(x, amounts)
        """
    check(text, UNCHANGED)


def test_gradients_read_the_pad_and_it_stays():
    with tf.Graph().as_default() as built:
        x = tf1.placeholder(tf.float32, [2, 8, 8, 4])
        w = tf1.get_variable("w", [3, 3, 4, 4], use_resource=True)
        padded = tf.pad(x, [[0, 0], [0, 1], [0, 1], [0, 0]])
        out = tf1.nn.conv2d(padded, w, strides=[1, 2, 2, 1], padding="VALID")
        (gradient,) = tf.gradients(tf.reduce_sum(out * out), [w])
    graph_def, name = built.as_graph_def(), gradient.op.name
    _, ledger = npu_precision.rewrite_graph_def(
        graph_def, name, precision_mode="allow_mix_precision", pad_into_convolutions=True
    )
    assert not [entry for entry in ledger.rewrites if entry.by == "pad_into_convolutions"]


def convolved(x, w, amounts, stride):
    """The convolution of a padded image, in float64."""
    x = np.pad(x.astype(np.float64), amounts)
    rows, columns = ((x.shape[k + 1] - w.shape[k]) // stride + 1 for k in range(2))
    out = np.zeros([x.shape[0], rows, columns, w.shape[3]])
    for i in range(rows):
        for j in range(columns):
            window = x[:, i * stride :, j * stride :][:, : w.shape[0], : w.shape[1]]
            out[:, i, j] = np.tensordot(window, w.astype(np.float64), 3)
    return out


@pytest.mark.parametrize("mode", ["allow_mix_precision_fp16", "allow_mix_precision_bf16"])
@pytest.mark.parametrize("amounts", [BEFORE_STRIDE_2, ALL_AROUND])
@pytest.mark.parametrize("keep", ["", ", _keep_dtype=1"])
def test_the_values_are_those_of_a_padded_image(mode, amounts, keep):
    """Checks the low type, and float32 if both nodes keep it."""
    low = "bfloat16" if "bf16" in mode else "float16"
    need_kernels(low, "Conv2D")
    text = graph(amounts).replace("padding=VALID", "padding=VALID" + keep)
    text = text.replace("Pad(x, amounts)", f"Pad(x, amounts{keep})").replace("Softmax", "Identity")
    result = check(text, None, mode=mode)
    assert len(result.ledger.rewrites) == 1
    (got,) = run(result.graph, ["end"])
    padding = (
        [[0, 0], [0, 1], [0, 1], [0, 0]]
        if amounts == BEFORE_STRIDE_2
        else [[0, 0]] + [[1, 1]] * 2 + [[0, 0]]
    )
    x, w = random_values("x", [2, 8, 8, 4]), random_values("w", [3, 3, 4, 4])
    want = convolved(x, w, padding, 2)
    error = np.abs(got - want).max() / np.abs(want).max()
    assert error <= (1e-6 if keep else TOLERANCE[low])


@needs_onednn_in_bfloat16
@pytest.mark.parametrize("pads_by_itself", [True, False])
@pytest.mark.parametrize(
    ("text", "op"),
    [(pad_v2("0.0"), "PadV2"), (graph(op="DepthwiseConv2dNative"), "Pad")],
)
def test_no_pad_runs(pads_by_itself, text, op, executed_nodes):
    """oneDNN runs a Pad before a Conv2D in one kernel with it in any case."""
    with tf.Graph().as_default() as imported:
        tf.import_graph_def(read_graph(text), name="")
    config = npu_precision.npu_config_proto(
        precision_mode="allow_mix_precision_bf16", pad_into_convolutions=pads_by_itself
    )
    x = np.random.default_rng(0).normal(size=[2, 8, 8, 4]).astype("f")
    with tf1.Session(graph=imported, config=config) as session:
        nodes = executed_nodes(session, "end:0", {"x:0": x})
    assert (op in [node.op for node in nodes.values()]) != pads_by_itself
    (conv,) = (node for node in nodes.values() if "onv2" in node.op)
    assert "Mkl" in conv.op
    assert conv.attr["padding"].s.decode() == ("SAME" if pads_by_itself else "VALID")
