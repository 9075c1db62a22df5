"""ops_info_dir: the user's own ops-info files in place of the target's, in CANN's format."""

import json

import pytest
from support.check_rewrite import UNCHANGED, check_rewrite

GRAPH = """
    x = Placeholder(shape=4x4)
    product = MatMul(x, x)
    relu = Relu(product)
    exp = Exp(relu)
    end = NextAfter(exp, x)
    """
WHITE = {"precision_reduce": {"flag": "true"}}
BLACK = {"precision_reduce": {"flag": "false"}}


@pytest.fixture
def ops_info(tmp_path):
    """ops_info({file name: entries or text}) -> the folder."""

    def write(files):
        folder = tmp_path / "ops_info"
        folder.mkdir()
        for name, entries in files.items():
            text = entries if isinstance(entries, str) else json.dumps(entries)
            (folder / name).write_text(text)
        return folder

    return write


def decisions(result):
    return {name: reason for name, (_, reason, _) in result.reasons.items() if name != "end"}


def test_the_folder_replaces_the_lists_of_the_target(ops_info):
    """Ops that the folder does not name are on no list: exp, otherwise black, and white."""
    folder = ops_info({"mine.json": {"Exp": WHITE, "Relu": {}}})
    result = check_rewrite(
        GRAPH,
        """
        product = MatMul[float32](x, x)
        relu = Relu[float32](product)
        exp = Exp[float16](relu/npu_cast_0_float16)
        end = NextAfter(exp/npu_cast_0_float32, x)
        """,
        ops_info_dir=folder,
    )
    assert decisions(result) == {
        "product": "unlisted",
        "relu": "gray_follows_kept",
        "exp": "white_list",
    }
    listed_by = {node.name: node.listed_by for node in result.ledger.nodes}
    assert listed_by["product"] == "no file"
    assert listed_by["exp"] == f"{folder}/mine.json:1:9"


def test_all_files_count_and_a_later_one_replaces_an_op_whole(ops_info):
    folder = ops_info(
        {
            "a.json": {"MatMul": {**WHITE, "input0": {"dtype": "float32"}}, "Relu": BLACK},
            "b.json": {"MatMul": WHITE, "Exp": BLACK},
            "c.json": {"Relu": {}},
            "notes.txt": "not read",
        }
    )
    result = check_rewrite(GRAPH, None, ops_info_dir=folder)
    assert decisions(result) == {
        "product": "white_list",  # and no longer restricted to float32
        "relu": "gray_follows_lowered",
        "exp": "black_list",
    }


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({}, "gray_no_votes"),
        ({"precision_reduce": {}}, "gray_no_votes"),
        (WHITE, "white_list"),
        (BLACK, "black_list"),
    ],
)
def test_the_flag_is_the_list(ops_info, entry, reason):
    folder = ops_info({"ops.json": {"MatMul": entry}})
    result = check_rewrite(GRAPH, None, ops_info_dir=folder)
    assert decisions(result)["product"] == reason


@pytest.mark.parametrize(
    ("restriction", "reason"),
    [
        ({"input0": {"dtype": "float16,float32"}}, "white_list"),
        ({"input0": {"dtype": "float16, float32"}}, "white_list"),
        ({"input0": {"dtype": "float,float16,int32"}}, "white_list"),
        ({"input0": {"dtype": "float32"}}, "target_unsupported"),
        ({"input1": {"dtype": "float,bfloat16"}}, "target_unsupported"),
        ({"output0": {"dtype": "float32"}}, "target_unsupported"),
        ({"input7": {"dtype": "float32"}}, "white_list"),
        ({"input0": {"name": "x1", "paramType": "required"}}, "white_list"),
        ({"opFile": {"value": "mat_mul"}, "opInterface": {"value": "mat_mul"}}, "white_list"),
    ],
)
def test_the_dtypes_of_a_port_restrict_what_is_lowered(ops_info, restriction, reason):
    folder = ops_info({"ops.json": {"MatMul": {**WHITE, **restriction}}})
    result = check_rewrite(GRAPH, None, ops_info_dir=folder)
    assert decisions(result)["product"] == reason


def test_what_has_no_float32_is_lowered_by_the_default_mode(ops_info):
    folder = ops_info({"ops.json": {"MatMul": {"input0": {"dtype": "float16"}}, "Relu": {}}})
    check_rewrite(
        GRAPH,
        """
        product = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        relu = Relu[float32](product/npu_cast_0_float32)
        exp = Exp[float32](relu)
        end = NextAfter(exp, x)
        """,
        mode="allow_fp32_to_fp16",
        ops_info_dir=folder,
    )


def test_names_of_ascend_stand_for_ops_of_tensorflow_unless_those_are_named(ops_info):
    folder = ops_info({"ops.json": {"MatMulV2": BLACK, "MatMul": WHITE, "SoftmaxV2": WHITE}})
    result = check_rewrite(
        """
        x = Placeholder(shape=4x4)
        product = MatMul(x, x)
        softmax = Softmax(product)
        end = NextAfter(softmax, x)
        """,
        None,
        ops_info_dir=folder,
    )
    assert decisions(result) == {"product": "white_list", "softmax": "white_list"}


@pytest.mark.parametrize(("plain", "d_form"), [(BLACK, {}), ({}, BLACK), (BLACK, BLACK)])
def test_of_two_names_of_ascend_the_one_that_keeps_more_counts(ops_info, plain, d_form):
    folder = ops_info({"ops.json": {"MatMul": WHITE, "ReduceMean": plain, "ReduceMeanD": d_form}})
    result = check_rewrite(
        """
        x = Placeholder(shape=4x4)
        axis = Const[int32](value=[1])
        product = MatMul(x, x)
        mean = Mean(product, axis, keep_dims=True)
        end = NextAfter(mean, x)
        """,
        None,
        ops_info_dir=folder,
    )
    assert decisions(result)["mean"] == "black_list"


def test_ascend_ops_that_tensorflow_lacks_are_no_mistake(ops_info):
    folder = ops_info({"ops.json": {"LayerNorm": {}, "DynamicRNN": WHITE, "NoSuchOp": BLACK}})
    check_rewrite(GRAPH, UNCHANGED, ops_info_dir=folder)


def test_comments_are_allowed(ops_info):
    folder = ops_info({"ops.json": '// mine\n{"MatMul": /* both */ {}, "Exp": {}}\n'})
    check_rewrite(GRAPH, UNCHANGED, ops_info_dir=folder)


def test_what_the_files_do_not_forbid_the_kernels_may(ops_info):
    """No kernel has statistics in float16, so they stay float32 though the entry is empty."""
    folder = ops_info({"ops.json": {"Conv2D": WHITE, "FusedBatchNormV3": {}}})
    check_rewrite(
        """
        x = Placeholder(shape=2x4x4x2)
        f = Const(shape=1x1x2x2)
        s = Const(value=[1.0, 0.5])
        conv = Conv2D(x, f, strides=[1, 1, 1, 1], padding=SAME)
        norm = FusedBatchNormV3(conv, s, s, s, s, is_training=False)
        end = NextAfter(norm, x)
        """,
        """
        conv = Conv2D[float16](x/npu_cast_0_float16, f/npu_cast_0_float16)
        norm = FusedBatchNormV3[float16,float32](conv, s, s, s, s)
        end = NextAfter(norm/npu_cast_0_float32, x)
        """,
        ops_info_dir=folder,
    )


def test_a_mixlist_edits_the_folders_lists(ops_info, mixlist):
    folder = ops_info({"ops.json": {"MatMul": WHITE, "Relu": WHITE}})
    result = check_rewrite(
        GRAPH, None, ops_info_dir=folder, modify_mixlist=mixlist(black=["MatMul"], white=["Exp"])
    )
    assert decisions(result) == {
        "product": "black_list",
        "relu": "white_list",
        "exp": "white_list",
    }


def test_a_mode_without_lists_takes_the_folder_as_its_library(ops_info):
    """force_fp16 lowers all ops of the library, whatever their list; others are not supported."""
    folder = ops_info({"ops.json": {"MatMul": BLACK, "Exp": {}}})
    result = check_rewrite(GRAPH, None, mode="force_fp16", ops_info_dir=folder)
    assert decisions(result) == {"product": "forced", "relu": "unlisted", "exp": "forced"}
