"""modify_mixlist files as users write them: comments, Ascend's names, typos, and the messages."""

import dataclasses
import os

import pytest
from support.check_rewrite import UNCHANGED, check_rewrite
from support.tf_versions import needs_ops

import npu_precision

# One node of each op in the mixlists below.
GRAPH = """
    x = Placeholder(shape=4x4)
    two = Const(value=2.0)
    axis = Const[int32](value=[1])
    order = Const[int32](value=[1, 0])
    bias = Const(shape=4)
    matmul = MatMul(x, x)
    biasadd = BiasAdd(matmul, bias)
    relu = Relu(biasadd)
    batchmatmul = BatchMatMulV2(relu, relu)
    transpose = Transpose(batchmatmul, order)
    mul = Mul(transpose, two)
    realdiv = RealDiv(mul, two)
    add = AddV2(realdiv, two)
    addn = AddN(add, add)
    abs = Abs(addn)
    mean = Mean(abs, axis, keep_dims=True)
    sum = Sum(abs, axis, keep_dims=True)
    pow = Pow(abs, two)
    expm1 = Expm1(abs)
    softmax = Softmax(abs)
    end = AddN(softmax, expm1, pow)
    """
BUILT_IN = "matmul biasadd relu batchmatmul transpose mul realdiv add addn abs"


def lowered(result):
    return {node.name for node in result.ledger.nodes if node.decision == "lowered"}


def rewrite(path):
    return check_rewrite(GRAPH, None, ["mean", "sum", "end"], modify_mixlist=path)


# Mixlists like those in published scripts: their text, and the changed decisions.
PUBLISHED = {
    "sums and powers kept": (
        {"black": ["ReduceSumD", "Pow"]},
        BUILT_IN,
    ),
    "products kept": (
        {"black": ["MatMulV2", "MatMul"]},
        "batchmatmul transpose mul realdiv add addn abs",
    ),
    "means lowered": (
        {"white": ["ReduceMeanD", "ReduceMean"], "black": [], "gray": []},
        BUILT_IN + " mean",
    ),
    "casts and scaling kept": (
        {"black": ["Cast", "RealDiv", "Mul"]},
        "matmul biasadd relu batchmatmul transpose",
    ),
    "transposes lowered": (
        {"white": ["TransposeD"]},
        BUILT_IN,
    ),
    "sums kept, products with their bias lowered": (
        {"black": ["AddN", "Add", "Pow", "Log", "ReduceSumD"], "white": ["MatMulV2", "BiasAdd"]},
        "matmul biasadd relu batchmatmul transpose mul realdiv",
    ),
    "nearly everything kept": (
        {"black": "Assign MatMulV2 Cast Mul ReduceSumD SoftmaxV2 BatchMatMul".split()},
        "",
    ),
}


@pytest.mark.parametrize(("adds", "expected"), PUBLISHED.values(), ids=PUBLISHED)
def test_mixlists_of_published_scripts(mixlist, adds, expected):
    assert lowered(rewrite(mixlist(**adds))) == set(expected.split())


def test_the_published_sample_with_its_comments(mixlist):
    path = mixlist(
        """{
          "black-list": {                  // black list
            "to-remove": [                 // ops that leave the black list become gray
              "SoftmaxV2"
            ],
            "to-add": [                    /* ops that come to the black list,
                                              wherever they were */
              "Relu",
              "Transpose"
            ]
          },
          // the white list stays as it is
          "white-list": {"to-remove": [], "to-add": []}
        }"""
    )
    assert lowered(rewrite(path)) == {"matmul", "biasadd", "batchmatmul"}


LONG = (
    "Data TransData Loglp ReduceSumD ReduceMeanD Log Log1p Exp Pow Sqrt Rsqrt Square SoftmaxV2 "
    "LogSoftmaxV2 ReduceStd LayerNorm LayerNormGrad BatchNorm BatchNormGrad L2Loss KLDiv MseLoss "
    "Assign AssignAdd ApplyAdamD ApplyMomentum SquareSumV1 Gelu GeluGrad DynamicRNN Sigmoid Tanh "
    "GatherV2D TopKD ArgMaxD ConcatD SplitD StridedSliceD PadD TileD"
)


def test_forty_names_some_of_which_are_unknown(mixlist):
    result = rewrite(mixlist(black=LONG.split()))
    assert lowered(result) == set(BUILT_IN.split())
    told = [warning.partition(": ")[2] for warning in result.ledger.warnings]
    assert "'Loglp' is not an op type of TensorFlow or Ascend; did you mean 'Log1p'?" in told
    assert "'Tanh' matches no node of the graph" in told
    assert not any("'Pow'" in warning or "'ReduceSumD'" in warning for warning in told)
    # Ops of Ascend's that TensorFlow lacks are no mistake: the list is for an NPU too.
    for name in ("LayerNorm", "Data", "TransData", "DynamicRNN"):
        assert not any(f"'{name}'" in warning for warning in told)
    assert {mapping.entry: mapping.ops for mapping in result.ledger.mappings}["LayerNorm"] == ()


@pytest.mark.parametrize(
    ("typo", "meant"), [("MatMu1V2", "MatMulV2"), ("matmulv2", "MatMulV2"), ("SoftMax", "Softmax")]
)
def test_a_typo_changes_nothing_and_is_told_with_a_guess(mixlist, typo, meant):
    path = mixlist(black=[typo])
    result = rewrite(path)
    assert lowered(result) == set(BUILT_IN.split())
    assert result.ledger.warnings[0] == (
        f"{path}:1:28: {typo!r} is not an op type of TensorFlow or Ascend; did you mean {meant!r}?"
    )


def test_no_name_is_guessed_of_which_half_the_letters_differ(mixlist):
    warning = rewrite(mixlist(black=["Rxlx"])).ledger.warnings[0]
    assert warning.endswith("'Rxlx' is not an op type of TensorFlow or Ascend")


def test_removing_from_a_list_what_is_not_on_it_is_told(mixlist):
    path = mixlist('{"white-list": {"to-remove": ["Relu", "MatMul"]}}')
    result = rewrite(path)
    assert lowered(result) == set("batchmatmul transpose mul realdiv add addn abs".split())
    assert result.ledger.warnings == (
        f"{path}:1:31: 'Relu' is not on the white list, so removing it changes nothing",
    )


@pytest.mark.parametrize("entry", ["Relu", "node:relu"])
def test_what_is_removed_from_the_gray_list_stays_gray_and_is_told(mixlist, entry):
    path = mixlist(f'{{"gray-list": {{"to-remove": ["{entry}"]}}}}')
    result = rewrite(path)
    assert lowered(result) == lowered(rewrite(mixlist("{}")))
    assert result.ledger.warnings == (
        f"{path}:1:30: '{entry}' is gray when it is on no other list, so removing it from "
        "gray-list changes nothing; to-add of another list moves it",
    )
    assert not [node for node in result.ledger.nodes if node.listed_by.startswith(path)]


def test_a_pattern_that_takes_no_node_off_the_list_is_told(mixlist):
    path = mixlist('{"white-list": {"to-remove": ["node:relu", "node:matmul"]}}')
    result = rewrite(path)
    assert "matmul" not in lowered(result)
    assert result.ledger.warnings == (
        f"{path}:1:31: 'node:relu' matches no node of the graph on the white list, so removing it "
        "changes nothing",
    )


@needs_ops("BatchMatMulV3")
def test_a_name_of_ascend_stands_for_every_op_of_tensorflow_that_it_covers(mixlist):
    """Ascend's Add is TensorFlow's Add and AddV2; its BatchMatMul, all three versions."""
    result = check_rewrite(
        """
        x = Placeholder(shape=2x4x4)
        a = BatchMatMul(x, x)
        b = BatchMatMulV2(a, a)
        c = BatchMatMulV3(b, b)
        end = Exp(c)
        """,
        UNCHANGED,
        modify_mixlist=mixlist(black=["BatchMatMul"]),
    )
    assert result.reasons["c"] == ("kept", "black_list", "")


def test_what_a_name_of_ascend_stands_for_is_told(mixlist):
    path = mixlist(black=["MatMulV2", "Relu", "BatchMatMul", "LayerNorm"])
    assert [dataclasses.astuple(mapping) for mapping in rewrite(path).ledger.mappings] == [
        ("MatMulV2", f"{path}:1:28", ("MatMul",)),
        ("BatchMatMul", f"{path}:1:48", ("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")),
        ("LayerNorm", f"{path}:1:63", ()),
    ]


def test_an_op_named_twice_by_different_names_on_one_list_is_no_contradiction(mixlist):
    result = rewrite(mixlist(black=["MatMulV2", "MatMul", "MatMul"]))
    assert "matmul" not in lowered(result)


def test_an_op_on_two_lists_by_different_names_is_one(mixlist):
    path = mixlist(black=["MatMulV2"], white=["MatMul"])
    with pytest.raises(
        ValueError, match=r"'MatMul' is added to black-list at .*:1:.*\(as 'MatMulV2'\)"
    ):
        rewrite(path)


def test_an_empty_mixlist_changes_nothing(mixlist):
    plain = check_rewrite(GRAPH, None, ["mean", "sum", "end"])
    for text in ("{}", '{"black-list": {}}', '{"gray-list": {"to-add": []}}'):
        assert rewrite(mixlist(text)).text == plain.text


def test_a_mixlist_for_another_graph_is_not_blamed_on_a_graph_nothing_is_lowered_in(mixlist):
    """An initializer is optimized too; it need not have the nodes of the user's model."""
    result = check_rewrite(
        """
        x = Placeholder(shape=4x4)
        y = Exp(x)
        """,
        UNCHANGED,
        modify_mixlist=mixlist(black=["MatMul", "node:model/.*"]),
    )
    assert result.ledger.warnings == ()


def test_nesting_is_measured_behind_every_comment_that_the_parser_ends(mixlist):
    """A carriage return ends a // comment too; the parser's own depth limit ends the process."""
    path = mixlist('// comment\r{"white-list": ' + "[" * 300)
    with pytest.raises(ValueError, match="nested deeper than 64 levels"):
        npu_precision.PrecisionOptions(precision_mode="allow_mix_precision", modify_mixlist=path)


def test_a_pipe_is_refused_rather_than_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="not a regular file"):
        npu_precision.PrecisionOptions(
            precision_mode="allow_mix_precision", modify_mixlist=tmp_path / "pipe"
        )


def test_a_nul_byte_is_an_error_that_says_where(tmp_path):
    path = tmp_path / "mixlist.json"
    path.write_bytes(b'{"black-list":\n {"to-add": ["Mul\0"]}}')
    with pytest.raises(ValueError, match=r"mixlist\.json:2:18: a NUL byte, which no JSON has"):
        rewrite(str(path))
