"""npu-precision explain --node: one node's story, from its own reason to the one behind all."""

from __future__ import annotations

import json

import pytest
from support.model_files import ModelFiles

from npu_precision import _library
from npu_precision.explain import story

MIXED = ("--mode", "allow_mix_precision")


@pytest.fixture
def tell(command, model_files: ModelFiles):
    """tell(pattern, model="frozen") -> the lines."""

    def run(pattern, model="frozen", options=MIXED):
        text = command("explain", getattr(model_files, model), *options, "--node", pattern)
        return text.splitlines()

    return run


def test_a_gray_node_s_story_goes_back_to_the_black_one_that_decided(tell):
    assert tell("^after$") == [
        "after (Tanh): kept",
        "  gray; both feeds it and was kept",
        "  because both (AddV2), kept: gray; scale feeds it and was kept",
        "  because scale (Exp), kept: on the black list (built-in)",
        "  fed by both:0 (AddV2), kept",
        "  Cast of after:0 from float32 to float16, 64 bytes",
        '  the mixlist {"gray-list": {"to-add": ["node:scale"]}} lets scale follow what feeds it',
        '  the mixlist {"white-list": {"to-add": ["node:after"]}} lowers it',
    ]


def test_a_fetched_node_s_story_names_the_cast_that_has_taken_its_name(tell):
    assert tell("^out$") == [
        "out (MatMul): lowered, T float32 -> float16",
        "  on the white list (built-in)",
        "  fed by lowered:0 (Relu), lowered",
        "  fed by after:0 (Tanh), kept",
        "  Cast of out:0 from float16 to float32, 64 bytes",
        "  Cast of after:0 from float32 to float16, 64 bytes",
        '  the mixlist {"black-list": {"to-add": ["node:out"]}} keeps it in float32',
    ]


def test_who_is_in_the_way_says_of_how_many(tell):
    assert "  gray nodes that are kept because it is: 2" in tell("^scale$")


def test_the_advice_does_what_it_says(tell, command, model_files):
    for name in ("after", "lowered", "out"):
        for line in tell(f"^{name}$"):
            if not line.startswith("  the mixlist"):
                continue
            mixlist, _, effect = line[len("  the mixlist ") :].rpartition("}} ")
            told = tell(f"^{name}$", options=(*MIXED, "--mixlist-edits", mixlist + "}}"))
            expected = "kept" if effect == "keeps it in float32" else "lowered"
            assert told[0].split()[2].strip(",") == expected, line


def test_a_node_of_a_function_is_told_with_its_function_and_arguments(tell):
    lines = tell("lstm.*/MatMul|^while/MatMul$", model="lstm")
    text = "\n".join(lines)
    assert " in while_body" in text or " in __inference" in text
    assert "on the white list (built-in)" in text


def test_json_has_the_same_steps(command, model_files):
    data = json.loads(command("explain", model_files.frozen, *MIXED, "--node", "^after$", "--json"))
    (told,) = data["stories"]
    assert [step["node"] for step in told["steps"]] == ["after", "both", "scale"]
    assert told["steps"][2]["why"] == "on the black list (built-in)"
    assert told["node"]["cause"] == "both"


def test_every_reason_of_the_optimizer_has_a_sentence():
    assert set(story.SENTENCES) == set(_library.describe()["reasons"])


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("softmax", "node: 'softmax' is found in the name of no float node"),
        ("[", "node: '[' is not a regular expression: unterminated character set at position 0"),
    ],
)
def test_a_pattern_that_finds_nothing_is_an_error(pattern, message, command, model_files):
    text = command("explain", model_files.frozen, *MIXED, "--node", pattern, status=2)
    assert text == f"npu-precision: {message}\n"


def test_in_a_mode_without_lists_no_mixlist_is_advised(tell):
    text = "\n".join(tell("^out$", options=("--mode", "force_fp16")))
    assert "the mode changes whatever can be changed" in text
    assert "mixlist" not in text
