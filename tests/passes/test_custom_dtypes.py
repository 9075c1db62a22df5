"""customize_dtypes: the dtypes of a node's inputs, computation and outputs, by op type or name."""

import numpy as np
import pytest
from support.check_rewrite import check_rewrite, run
from support.loop_text import counter, loop
from support.text_graph import random_values, read_graph

import npu_precision

CHAIN = """
    x = Placeholder(shape=4x4)
    product = MatMul(x, x)
    gray = Relu(product)
    end = Exp(gray)
    """


@pytest.fixture
def dtypes(tmp_path):
    """Writes a customize_dtypes file and returns its path: dtypes("Relu::...", "OpType::...")."""

    def write(*lines):
        path = tmp_path / "dtypes.cfg"
        path.write_text("\n".join(lines) + "\n")
        return str(path)

    return write


def test_a_node_whose_ports_are_all_of_the_low_type_is_lowered(dtypes):
    """Exp is on the black list; a line of the file overrides the list."""
    path = dtypes("OpType::Exp:InputDtype:float16,OutputDtype:float16")
    result = check_rewrite(
        CHAIN,
        """
        product = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        gray = Relu[float16](product)
        end/npu_changed = Exp[float16](gray)
        end = Cast[float16,float32](end/npu_changed)
        """,
        customize_dtypes=path,
    )
    assert result.reasons["end"] == ("lowered", "customized", "")
    assert result.ledger.node("end").listed_by == f"{path}:1:1"


def test_what_a_line_keeps_is_a_kept_predecessor(dtypes):
    """MatMul is on the white list; gray follows it in float32."""
    result = check_rewrite(
        CHAIN,
        "unchanged",
        customize_dtypes=dtypes("product::InputDtype:float32,float32,OutputDtype:float32"),
    )
    assert result.reasons["product"] == ("kept", "customized", "")
    assert result.reasons["gray"] == ("kept", "gray_follows_kept", "product")


def test_inputs_of_a_low_type_are_rounded_where_the_output_is_float32(dtypes):
    """A product of float16 that adds up in float32 and yields it, as Ascend's MatMulV2 does.

    MatMulV2 has an optional bias, which TensorFlow's MatMul lacks: its dtype may be left out.
    """
    result = check_rewrite(
        CHAIN,
        """
        product = MatMul[float32](x/npu_cast_0_float16/npu_cast_0_float32, \
x/npu_cast_0_float16/npu_cast_0_float32)
        gray = Relu[float32](product)
        end = Exp[float32](gray)
        """,
        customize_dtypes=dtypes(
            "OpType::MatMulV2:InputDtype:float16,float16,float32,OutputDtype:float32"
        ),
    )
    assert result.ledger.warnings == ()
    assert [mapping.ops for mapping in result.ledger.mappings] == [("MatMul",)]


def test_an_output_of_a_low_type_is_rounded_for_those_that_read_float32(dtypes):
    check_rewrite(
        CHAIN,
        """
        product = MatMul[float32](x, x)
        gray = Relu[float32](product/npu_cast_0_float16/npu_cast_0_float32)
        end = Exp[float32](gray)
        """,
        customize_dtypes=dtypes("product::InputDtype:float32,float32,OutputDtype:float16"),
    )


def test_lowered_consumers_read_a_rounded_output_as_it_is(dtypes):
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        gray = Relu(x)
        end = MatMul(gray, gray)
        """,
        """
        gray = Relu[float32](x)
        end/npu_changed = MatMul[float16](gray/npu_cast_0_float16, gray/npu_cast_0_float16)
        end = Cast[float16,float32](end/npu_changed)
        """,
        customize_dtypes=dtypes("gray::InputDtype:float32,OutputDtype:float16"),
    )


def test_what_is_fetched_is_rounded_under_its_name(dtypes):
    result = check_rewrite(
        CHAIN,
        """
        product = MatMul[float32](x, x)
        gray = Relu[float32](product)
        end/npu_changed = Exp[float32](gray)
        end/npu_cast_0_float16 = Cast[float32,float16](end/npu_changed)
        end = Cast[float16,float32](end/npu_cast_0_float16)
        """,
        mode="must_keep_origin_dtype",
        customize_dtypes=dtypes("end::InputDtype:float32,OutputDtype:float16"),
    )
    (end,) = run(result.graph, ["end"])
    np.testing.assert_array_equal(end, end.astype(np.float16).astype(np.float32))


@pytest.mark.parametrize("mode", ["force_fp32", "must_keep_origin_dtype", "cube_fp16in_fp32out"])
def test_modes_that_lower_nothing_round(dtypes, mode):
    """Public projects use ATC's --precision_mode=force_fp32 with float16 products."""
    result = check_rewrite(
        CHAIN,
        """
        product = MatMul[float32](x/npu_cast_0_float16/npu_cast_0_float32, \
x/npu_cast_0_float16/npu_cast_0_float32)
        gray = Relu[float32](product/npu_cast_0_float16/npu_cast_0_float32)
        end = Exp[float32](gray)
        """,
        mode=mode,
        customize_dtypes=dtypes("product::InputDtype:float16,float16,OutputDtype:float16"),
    )
    assert result.ledger.node("product").reason == "customized"


def test_a_rounded_product_is_that_of_rounded_values(dtypes):
    graph = read_graph(CHAIN)
    after, _ = npu_precision.rewrite_graph_def(
        graph,
        ["product"],
        precision_mode="must_keep_origin_dtype",
        customize_dtypes=dtypes("product::InputDtype:float16,float32,OutputDtype:float32"),
    )
    (value,) = run(after, ["product"])
    x = random_values("x", (4, 4))
    np.testing.assert_allclose(value, x.astype(np.float16).astype(np.float32) @ x, rtol=1e-5)


def test_in_force_fp32_what_is_of_float16_stays_so_where_a_line_says_it(dtypes):
    graph = """
        h = Placeholder[float16](shape=4x4)
        kept = Relu(h)
        raised = Tanh(kept)
        end = Cast[float16,float32](raised)
        """
    result = check_rewrite(
        graph,
        """
        kept = Relu[float16](h)
        raised = Tanh[float32](kept/npu_cast_0_float32)
        end = Cast[float32,float32](raised)
        """,
        mode="force_fp32",
        customize_dtypes=dtypes("kept::InputDtype:float16,OutputDtype:float16"),
    )
    assert result.reasons["kept"] == ("kept", "customized", "")


def test_another_low_type_than_that_of_the_mode_is_rounded(dtypes):
    result = check_rewrite(
        CHAIN,
        None,
        mode="allow_mix_precision_bf16",
        customize_dtypes=dtypes("end::InputDtype:float16,OutputDtype:float32"),
    )
    assert "end = Exp[float32](gray/npu_cast_0_float16/npu_cast_0_float32)" in result.text


def test_an_op_without_a_kernel_computes_in_float32_on_rounded_values(dtypes):
    """Rint has no float16 kernel on a CPU."""
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        end = Rint(x)
        """,
        """
        end/npu_changed = Rint[float32](x/npu_cast_0_float16/npu_cast_0_float32)
        end/npu_cast_0_float16 = Cast[float32,float16](end/npu_changed)
        end = Cast[float16,float32](end/npu_cast_0_float16)
        """,
        customize_dtypes=dtypes("OpType::Rint:InputDtype:float16,OutputDtype:float16"),
    )


# Each column overrides those to its right: the dtype that a line or entry requests for the node
# "it", MatMul(x, x).
LOWER, KEEP = "float16", "float32"


@pytest.mark.parametrize(
    ("name", "node_entry", "op_type", "mark", "mixlist_op", "decision"),
    [
        (LOWER, "black", KEEP, True, "black", "lowered"),
        (KEEP, "white", LOWER, False, "white", "kept"),
        (None, "black", LOWER, False, "white", "kept"),
        (None, "white", KEEP, True, "black", "lowered"),
        (None, None, LOWER, True, "black", "lowered"),
        (None, None, KEEP, False, "white", "kept"),
        (None, None, None, True, "white", "kept"),
        (None, None, None, False, "black", "kept"),
    ],
)
def test_the_order_of_precedence(
    dtypes, mixlist, name, node_entry, op_type, mark, mixlist_op, decision
):
    lines = []
    if name:
        lines.append(f"it::InputDtype:{name},{name},OutputDtype:{name}")
    if op_type:
        lines.append(f"OpType::MatMul:InputDtype:{op_type},{op_type},OutputDtype:{op_type}")
    entries = {mixlist_op: ["MatMul"]}
    if node_entry:
        entries.setdefault(node_entry, []).append("node:it")
    kept = ", _keep_dtype=1" if mark else ""
    result = check_rewrite(
        f"x = Placeholder(shape=4x4) \n it = MatMul(x, x{kept}) \n end = Relu(it)",
        None,
        customize_dtypes=dtypes(*lines),
        modify_mixlist=mixlist(**entries),
    )
    assert result.ledger.node("it").decision == decision


def test_the_gradient_of_what_a_line_keeps_by_name_follows_it(dtypes):
    graph = """
        x = Placeholder(shape=4x4)
        layer = MatMul(x, x)
        gradients/layer_grad/MatMul = MatMul(layer, x)
        end = Relu(gradients/layer_grad/MatMul)
        """
    result = check_rewrite(
        graph,
        "unchanged",
        customize_dtypes=dtypes("layer::InputDtype:float32,float32,OutputDtype:float32"),
    )
    assert result.reasons["gradients/layer_grad/MatMul"] == ("kept", "follows_forward", "layer")


def test_what_is_rounded_and_fetched_by_name_stays_so_in_a_second_application(dtypes):
    """After the first application, the node has another name."""
    result = check_rewrite(
        CHAIN,
        """
        product/npu_changed = MatMul[float32](x, x)
        product/npu_cast_0_float16 = Cast[float32,float16](product/npu_changed)
        product = Cast[float16,float32](product/npu_cast_0_float16)
        gray = Relu[float32](product)
        end = Exp[float32](gray)
        """,
        ["product", "end"],
        customize_dtypes=dtypes("product::InputDtype:float32,float32,OutputDtype:float16"),
    )
    assert result.reasons["product"] == ("kept", "customized", "")


@pytest.mark.parametrize("consumer", ["MatMul", "Exp"])
@pytest.mark.parametrize("low", ["float16", "bfloat16"])
def test_a_loop_reads_rounded_what_it_reads_from_outside(dtypes, consumer, low):
    """MatMul is lowered to float16 in the loop, Exp keeps float32."""
    body = {
        "MatMul": "turn = MatMul(switch:1, w)",
        "Exp": "exp = Exp(w) \n turn = AddV2(switch:1, exp)",
    }[consumer]
    text = f"""
        x = Placeholder(shape=4x4)
        {counter(3)}
        a = Softmax(x)
        w = Enter(a, frame_name=loop, is_constant=True)
        enter = Enter(x, frame_name=loop)
        merge = Merge(enter, next)
        switch = Switch(merge, cond)
        {body}
        next = NextIteration(turn)
        exit = Exit(switch)
        """
    path = dtypes(f"a::InputDtype:float32,OutputDtype:{low}")
    result = check_rewrite(text, None, customize_dtypes=path)
    (got,) = run(result.graph, ["exit"])
    (exact,) = run(read_graph(text), ["exit"])
    rounded, _ = npu_precision.rewrite_graph_def(
        read_graph(text), ["exit"], precision_mode="must_keep_origin_dtype", customize_dtypes=path
    )
    (expected,) = run(rounded, ["exit"])
    assert np.abs(expected - exact).max() > 0
    np.testing.assert_allclose(got, expected, rtol=2e-2 if consumer == "MatMul" else 0)


def test_lines_about_one_node_are_taken_together(dtypes):
    result = check_rewrite(
        CHAIN,
        None,
        mode="must_keep_origin_dtype",
        customize_dtypes=dtypes(
            "product::InputDtype:float16,float16", "product::OutputDtype:float16"
        ),
    )
    assert "gray = Relu[float32](product/npu_cast_0_float16/npu_cast_0_float32)" in result.text
    assert "product = MatMul[float32](x/npu_cast_0_float16/npu_cast_0_float32" in result.text


def test_what_only_steers_a_loop_has_no_ports_to_round(dtypes):
    path = dtypes("merge::InputDtype:float16,float16,OutputDtype:float16,int32")
    result = check_rewrite(
        loop("start = Softmax(x)", "turn = Exp(switch:1)"),
        "unchanged",
        ["exit"],
        mode="must_keep_origin_dtype",
        customize_dtypes=path,
    )
    warning = "'merge' cannot be followed: shares_dtype (1 node, 'merge')"
    assert result.ledger.warnings == (f"{path}:1:1: {warning}",)


WARNINGS = {
    "x::InputDtype:float16,OutputDtype:float16": (
        "'x' cannot be followed: neutral_source (1 node, 'x')"
    ),
    "gray::InputDtype:float16,OutputDtype:int8": (
        "'gray' cannot give int8 to what is of float32 and keeps that (1 node, 'gray')"
    ),
    "OpType::Relu:InputDtype:float16,float16,OutputDtype:float16": (
        "'Relu' has dtypes for 2 inputs, and there are 1 (1 node, 'gray')"
    ),
    "grey::InputDtype:float16,OutputDtype:float16": "'grey' matches no node of the graph",
    "OpType::Conv2D:InputDtype:float16,OutputDtype:float16": (
        "'Conv2D' matches no node of the graph"
    ),
    "OpType::Relo:InputDtype:float16,OutputDtype:float16": (
        "'Relo' is not an op type of TensorFlow or Ascend; did you mean 'Relu'?"
    ),
}


@pytest.mark.parametrize("line", WARNINGS)
def test_what_cannot_be_followed_is_warned_of(dtypes, line):
    path = dtypes(line)
    result = check_rewrite(CHAIN, None, customize_dtypes=path)
    assert result.ledger.warnings == (f"{path}:1:1: {WARNINGS[line]}",)


def test_a_port_that_a_line_does_not_name_has_the_dtype_in_which_the_node_computes(dtypes):
    result = check_rewrite(CHAIN, None, customize_dtypes=dtypes("OpType::Relu:OutputDtype:float32"))
    assert result.reasons["gray"] == ("kept", "customized", "")
    assert result.reasons["product"][0] == "lowered"


def test_before_an_input_that_a_line_rounds_nothing_is_kept_for_its_digits(dtypes):
    """A Log keeps what is before it; this one reads rounded values whatever comes before."""
    graph = CHAIN.replace("Exp(gray)", "Log(gray)")
    kept = check_rewrite(graph, None, run=False)
    assert kept.reasons["gray"] == ("kept", "before_magnifier", "end")
    path = dtypes("OpType::Log:InputDtype:float16,OutputDtype:float32")
    lowered = check_rewrite(graph, None, run=False, customize_dtypes=path)
    assert lowered.reasons["gray"][0] == "lowered"
