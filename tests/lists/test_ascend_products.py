"""target="ascend910b" and "ascend310p": the 910's lists, with the dtypes that documents state."""

import re

import pytest
from support import ROOT
from support.check_rewrite import UNCHANGED, check_rewrite
from support.text_graph import read_graph
from support.tf_versions import need_kernels

import npu_precision
from npu_precision import _library

CONFIGS = ROOT / "configs"
GRAPH = """
    x = Placeholder(shape=4x4)
    b = Const(shape=4)
    product = MatMul(x, x)
    sum = BiasAdd(product, b)
    relu = Relu(sum)
    end = NextAfter(relu, x)
    """
LOWERED = """
    product = MatMul[{low}](x/npu_cast_0_{low}, x/npu_cast_0_{low})
    sum = BiasAdd[{low}](product, b/npu_cast_0_{low})
    relu = Relu[{low}](sum)
    end = NextAfter(relu/npu_cast_0_float32, x)
    """
MATRIX_ONLY = """
    product = MatMul[{low}](x/npu_cast_0_{low}, x/npu_cast_0_{low})
    sum = BiasAdd[float32](product/npu_cast_0_float32, b)
    relu = Relu[float32](sum)
    end = NextAfter(relu, x)
    """
MIXED, MIXED_BF16 = "allow_mix_precision", "allow_mix_precision_bf16"
NEEDED, NEEDED_BF16 = "allow_fp32_to_fp16", "allow_fp32_to_bf16"


@pytest.mark.parametrize(
    ("target", "mode", "expected"),
    [
        ("ascend910", MIXED, LOWERED.format(low="float16")),
        ("ascend310p", MIXED, LOWERED.format(low="float16")),
        ("ascend910b", MIXED, LOWERED.format(low="float16")),
        ("ascend910", MIXED_BF16, UNCHANGED),
        ("ascend310p", MIXED_BF16, UNCHANGED),
        ("ascend910b", MIXED_BF16, LOWERED.format(low="bfloat16")),
        ("ascend910", NEEDED, MATRIX_ONLY.format(low="float16")),
        ("ascend310p", NEEDED, MATRIX_ONLY.format(low="float16")),
        ("ascend910b", NEEDED, MATRIX_ONLY.format(low="float16")),
        ("ascend910", NEEDED_BF16, UNCHANGED),
        ("ascend310p", NEEDED_BF16, UNCHANGED),
        ("ascend910b", NEEDED_BF16, MATRIX_ONLY.format(low="bfloat16")),
    ],
)
def test_bfloat16_is_the_910bs_alone(target, mode, expected):
    need_kernels("bfloat16", "BiasAdd", "Relu")
    check_rewrite(GRAPH, expected, mode=mode, target=target)


def test_a_mode_for_a_low_type_that_the_target_lacks_is_told():
    warning = (
        "precision_mode: got 'allow_mix_precision_bf16', and target 'ascend310p', which computes "
        "nothing in bfloat16, so nothing is lowered"
    )
    told = check_rewrite(GRAPH, UNCHANGED, mode=MIXED_BF16, target="ascend310p").ledger.warnings
    assert told.count(warning) == 1
    need_kernels("bfloat16", "BiasAdd", "Relu")
    for other in ("ascend910b", "host"):
        result = check_rewrite(GRAPH, None, mode=MIXED_BF16, target=other)
        assert not any("computes nothing" in text for text in result.ledger.warnings)


def test_the_910b_has_float32_in_its_cube_unit_and_the_others_have_not():
    check_rewrite(GRAPH, UNCHANGED, mode="must_keep_origin_dtype", target="ascend910b")
    for target in ("ascend910", "ascend310p"):
        with pytest.raises(ValueError, match=r"product \(MatMul, float32\)"):
            check_rewrite(GRAPH, None, mode="must_keep_origin_dtype", target=target)


def test_modes_that_lower_what_they_must_lower_the_910bs_matrix_ops_too():
    result = check_rewrite(GRAPH, None, mode=NEEDED, target="ascend910b")
    assert result.reasons["product"] == ("lowered", "matrix_or_convolution", "")
    assert result.reasons["relu"] == ("kept", "target_has_float32", "")


@pytest.mark.parametrize("target", ["ascend910", "ascend310p"])
def test_no_list_gives_bfloat16_to_a_target_without_it(target, mixlist):
    """Relu has an entry without dtypes, and HSVToRGB none."""
    path = mixlist(white=["Relu", "HSVToRGB"])
    result = check_rewrite(
        """
        x = Placeholder(shape=4x3)
        relu = Relu(x)
        end = HSVToRGB(relu)
        """,
        UNCHANGED,
        mode=MIXED_BF16,
        target=target,
        modify_mixlist=path,
    )
    assert result.reasons["relu"] == ("kept", "target_unsupported", "")
    assert result.reasons["end"] == ("kept", "target_unsupported", "")


def test_what_is_not_public_of_the_910b_is_left_out():
    """No document gives bfloat16 to Tanh: it stays float32 behind a product in bfloat16."""
    need_kernels("bfloat16", "Tanh")
    result = check_rewrite(
        """
        x = Placeholder(shape=4x4)
        product = MatMul(x, x)
        tanh = Tanh(product)
        end = NextAfter(tanh, x)
        """,
        None,
        mode=MIXED_BF16,
        target="ascend910b",
    )
    assert result.reasons["product"] == ("lowered", "white_list", "")
    assert result.reasons["tanh"][0] == "kept"
    assert result.ledger.node("tanh").list == "gray"


@pytest.mark.parametrize(
    ("target", "saturates"), [("ascend910", True), ("ascend910b", False), ("ascend310p", False)]
)
def test_what_overflows_saturates_where_that_is_public(target, saturates):
    """Only the 910 is documented to have no other mode."""
    graph, _ = npu_precision.rewrite_graph_def(
        read_graph(GRAPH), "end", precision_mode=MIXED, target=target, emulate=True
    )
    assert any(node.op == "NpuPrecisionSaturate" for node in graph.node) == saturates


def test_every_folder_is_of_a_target_and_every_target_has_a_line():
    folders = {path.name for path in CONFIGS.iterdir() if path.is_dir()}
    assert folders == set(_library.describe()["targets"])


@pytest.mark.parametrize("target", ["ascend910b", "ascend310p"])
def test_the_lists_are_those_of_the_910(target):
    def colors(of):
        return {op: row["list"] for op, row in _library.lists(of)["folders"][""].items()}

    assert colors(target) == colors("ascend910")


SOURCE = re.compile(r"^\s*// (.*: )?https://(www\.)?(hiascend\.com|mindspore\.cn)/\S+$")


@pytest.mark.parametrize(
    "file",
    [
        CONFIGS / "targets.json",
        *sorted((CONFIGS / "ascend910b").glob("*.json")),
        *sorted((CONFIGS / "ascend310p").glob("*.json")),
    ],
    ids=lambda file: str(file.relative_to(CONFIGS)),
)
def test_each_line_follows_its_source(file):
    """Up from a line, a public document of Huawei's comes before the group of lines begins."""
    lines = file.read_text().splitlines()
    facts = [i for i, line in enumerate(lines) if re.match(r'  (  )?"\w+": ("|\{"|true|\{$)', line)]
    groups = [i for i in facts if '"ascend' not in lines[i] and '"host"' not in lines[i]]
    assert groups
    for i in groups:
        above = lines[:i][::-1]
        until = next((n for n, line in enumerate(above) if not line.strip()), len(above))
        found = any(SOURCE.match(line) for line in above[:until])
        assert found or '"lists_of"' in lines[i], f"{file.name}:{i + 1}: {lines[i]}"
