"""ops_info_overlay: the user's own ops-info files on top of the target's lists."""

import json

import pytest
from support.check_rewrite import check_rewrite
from support.tf_versions import needs_gpu_kernels

GRAPH = """
    x = Placeholder(shape=4x4)
    product = MatMul(x, x)
    relu = Relu(product)
    exp = Exp(relu)
    end = NextAfter(exp, x)
    """
WHITE = {"precision_reduce": {"flag": "true"}}
BLACK = {"precision_reduce": {"flag": "false"}}
FOLLOWS = "gray_follows_lowered"


@pytest.fixture
def folder(tmp_path):
    """folder("name", {file name: entries}) -> the folder; a file name may have a folder."""

    def write(name, files):
        path = tmp_path / name
        for file, entries in files.items():
            (path / file).parent.mkdir(parents=True, exist_ok=True)
            (path / file).write_text(json.dumps(entries))
        return str(path)

    return write


def decisions(result):
    return {name: reason for name, (_, reason, _) in result.reasons.items() if name != "end"}


def test_what_it_does_not_name_stays_as_the_target_has_it(folder):
    overlay = folder("mine", {"mine.json": {"Exp": WHITE}})
    result = check_rewrite(GRAPH, None, ops_info_overlay=overlay)
    assert decisions(result) == {
        "product": "white_list",
        "relu": FOLLOWS,
        "exp": "white_list",
    }
    listed_by = {node.name: node.listed_by for node in result.ledger.nodes}
    assert listed_by["product"] == "built-in"
    assert listed_by["exp"] == f"{overlay}/mine.json:1:9"


def test_it_replaces_an_entry_whole_and_a_later_file_one_of_an_earlier(folder):
    """The ascend910 has MatMul only in float16; the overlay's entry has no dtypes."""
    files = {"a.json": {"MatMul": BLACK, "Relu": BLACK}, "b.json": {"MatMul": {}}}
    result = check_rewrite(
        GRAPH,
        None,
        mode="must_keep_origin_dtype",
        target="ascend910",
        ops_info_overlay=folder("mine", files),
    )
    assert decisions(result)["product"] == "origin_kept"
    with pytest.raises(ValueError, match=r"product \(MatMul, float32\)"):
        check_rewrite(GRAPH, None, mode="must_keep_origin_dtype", target="ascend910")


def test_with_both_it_lies_on_the_folder_that_replaces_the_targets(folder):
    own = folder("own", {"own.json": {"MatMul": WHITE, "Relu": {}}})
    overlay = folder("mine", {"mine.json": {"Relu": BLACK}})
    result = check_rewrite(GRAPH, None, ops_info_dir=own, ops_info_overlay=overlay)
    assert decisions(result) == {"product": "white_list", "relu": "black_list", "exp": "unlisted"}


def test_a_mixlist_edits_what_lies_on_top(folder, mixlist):
    overlay = folder("mine", {"mine.json": {"MatMul": BLACK, "Exp": WHITE}})
    result = check_rewrite(
        GRAPH, None, ops_info_overlay=overlay, modify_mixlist=mixlist(white=["MatMul"])
    )
    assert decisions(result)["product"] == "white_list"
    assert decisions(result)["exp"] == "white_list"


GPU_GRAPH = """
    x = Placeholder(shape=4x4)
    product = MatMul(x, x) @ /device:GPU:0
    softmax = Softmax(product) @ /device:GPU:0
    end = NextAfter(softmax, x)
    """


@needs_gpu_kernels
@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"mine.json": {"Relu": {}}}, FOLLOWS),
        ({"mine.json": {"Softmax": BLACK}}, "black_list"),
        ({"mine.json": {"Relu": {}}, "gpu/mine.json": {"Softmax": BLACK}}, "black_list"),
        (
            {"mine.json": {"Softmax": BLACK}, "gpu/mine.json": {"Softmax": {}}},
            FOLLOWS,
        ),
        ({"mine.json": {"Relu": {}}, "cpu/mine.json": {"Softmax": BLACK}}, FOLLOWS),
    ],
    ids=["untouched", "for all devices", "for a gpu", "of two for a gpu", "for a cpu"],
)
def test_a_file_is_for_all_devices_or_in_the_folder_of_one(folder, files, reason):
    """Softmax is gray on a GPU by a file of that device, and black elsewhere."""
    overlay = folder("mine", files)
    result = check_rewrite(GPU_GRAPH, None, ops_info_overlay=overlay, run=False)
    assert decisions(result)["softmax"] == reason


def test_unknown_names_are_told_with_a_guess_three_at_most_and_are_no_error(folder):
    """A file of CANN has hundreds of ops; those that only Ascend has are known."""
    entries = {"Reluu": {}, "DynamicRNN": WHITE, "Yolo": {}, **{f"Own{i}": {} for i in range(4)}}
    overlay = folder("mine", {"mine.json": entries})
    warnings = check_rewrite(GRAPH, None, ops_info_overlay=overlay).ledger.warnings
    assert [warning for warning in warnings if "Own3" in warning] == []
    assert any(
        f"ops_info_overlay: {overlay}/mine.json: 2 more entries or keys are not known" in warning
        for warning in warnings
    )
    (folder_file,) = (warning for warning in warnings if "'Own0'" in warning)
    assert folder_file.endswith("is not an op type of TensorFlow or Ascend")
    only = check_rewrite(
        GRAPH, None, ops_info_overlay=folder("one", {"one.json": {"Reluu": {}}})
    ).ledger.warnings
    assert any(warning.endswith("did you mean 'Relu'?") for warning in only)
