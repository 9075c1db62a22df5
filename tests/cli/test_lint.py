"""npu-precision lint: errors, suspicious and needless entries in a mixlist, and their fixes."""

from __future__ import annotations

import json
import os

import pytest
from support.text_graph import read_graph

import npu_precision


def test_a_mixlist_with_nothing_wrong_has_nothing_said_of_it(lint):
    text = '// Ours.\n{"black-list": {"to-add": ["Relu", "node:conv1/.*"]}}'
    assert lint(text) == ["m.json: nothing to be said"]


# The content of the mixlist, and the message about it.
ERRORS = {
    "[]": ["m.json:1:1: error: got a list, expected an object [structure]"],
    '{"black-list": {"to-add": ["Relu",]}}': [
        "m.json: error: not valid JSON. Line 1, Column 35: Syntax error: value, object or array "
        "expected. [structure]"
    ],
    "": ["m.json: error: the file is empty, expected a JSON object [structure]"],
    '{"blacklist": {}, "white-list": {"add": []}, "gray-list": {"to-add": "Relu"}}': [
        "m.json:1:15: error: got key 'blacklist', expected one of white-list, black-list, "
        "gray-list; did you mean 'black-list'? [structure]",
        "m.json:1:41: error: got key 'add', expected one of to-add, to-remove [structure]",
        "m.json:1:70: error: to-add of gray-list: got the string 'Relu', expected a list of "
        "strings [structure]",
    ],
    '{"black-list": {"to-add": ["node:conv[", 7]}}': [
        "m.json:1:28: error: 'conv[' is not a regular expression in RE2's syntax: missing ]: [ "
        "[structure]",
        'm.json:1:42: error: got a number, expected an op type or "node:<regular expression>" '
        "[structure]",
    ],
    '{"black-list": {"to-add": ["Relu", "Tanh"]}, "white-list": {"to-add": ["Relu", "Tanh"]}}': [
        "m.json: error: 'Relu' is added to black-list at m.json:1:28 and added to white-list at "
        "m.json:1:72; it can be on one list only [contradiction]",
        "m.json: error: 'Tanh' is added to black-list at m.json:1:36 and added to white-list at "
        "m.json:1:80; it can be on one list only [contradiction]",
    ],
}


@pytest.mark.parametrize("text", ERRORS)
def test_all_errors_are_told_and_the_status_is_1(text, lint):
    assert lint(text, status=1) == ERRORS[text]


WARNINGS = {
    '{"black-list": {"to-add": ["Relo", "conv1/.*"]}}': [
        "m.json:1:28: warning: 'Relo' is not an op type of TensorFlow or Ascend; did you mean "
        "'Relu'? [unknown-op]",
        "m.json:1:36: warning: 'conv1/.*' is not an op type of TensorFlow or Ascend; entries for "
        'nodes are "node:<regular expression>" [unknown-op]',
    ],
    '{"black-list": {"to-add": ["DynamicRNN", "RealDiv", "SoftmaxV2"]}}': [
        "m.json:1:28: note: 'DynamicRNN' is an op type of Ascend that this TensorFlow lacks, so it "
        "has no effect here [no-counterpart]",
        "m.json:1:53: note: 'SoftmaxV2' stands for Softmax [ascend-name]",
    ],
    '{"black-list": {"to-add": ["LayerNorm", "Gelu"]}}': [
        "m.json:1:28: note: 'LayerNorm' is an op type of Ascend that this TensorFlow lacks, so it "
        "has no effect here; here it is several ops: Mean, SquaredDifference, Rsqrt, Mul, Sub and "
        "AddV2, or Keras' FusedBatchNormV3. List these, or the scope of the layer, as "
        '"node:<scope>/.*" [no-counterpart]',
        "m.json:1:41: note: 'Gelu' is an op type of Ascend that this TensorFlow lacks, so it has "
        "no effect here; here it is several ops: Erf or Tanh, with Mul and AddV2. List these, or "
        'the scope of the layer, as "node:<scope>/.*" [no-counterpart]',
    ],
    '{"black-list": {"to-add": ["Relu", "Relu", "Exp"]}}': [
        "m.json:1:36: warning: 'Relu' is added to black-list at m.json:1:28 already [redundant]",
        "m.json:1:44: warning: 'Exp' is on the target's black-list already [redundant]",
    ],
    '{"black-list": {"to-remove": ["Relu", "Exp"]}, "gray-list": {"to-add": ["Exp"]}}': [
        "m.json:1:31: warning: 'Relu' is not on the target's black-list, so removing it changes "
        "nothing [redundant]",
        "m.json:1:39: warning: 'Exp' is added to gray-list at m.json:1:73, which takes it off "
        "black-list [redundant]",
    ],
    '{"black-list": {"to-add": ["MatMul", "MatMulV2"]}}': [
        "m.json:1:38: warning: 'MatMulV2' is added to black-list at m.json:1:28 already "
        "[redundant]",
        "m.json:1:38: note: 'MatMulV2' stands for MatMul [ascend-name]",
    ],
    '{"white-list": {"to-add": ["node:a", "node:a"]}}': [
        "m.json:1:38: warning: 'node:a' is added to white-list at m.json:1:28 already [redundant]"
    ],
}


@pytest.mark.parametrize("text", WARNINGS)
def test_what_is_odd_or_needless_is_told_and_is_no_error(text, lint):
    assert lint(text) == WARNINGS[text]


# The sample of Huawei's documents, a name of Ascend's misspelt and two that TensorFlow lacks:
# https://www.hiascend.com/document/detail/en/canncommercial/800/devaids/aoe/aoepar_16_049.html
SAMPLE = """\
{
"black-list": {                  // black list
     "to-remove": [              // leaves the black list
     "Yolo"
     ],
     "to-add": [                 // comes to the black list
     "Matmul"
     ]
  },
  "white-list": {                // white list
     "to-remove": [              // leaves the white list
     "Conv2D"
     ],
     "to-add": [                 // comes to the white list
     "Bias"
     ]
  }
}
"""
NOTES_OF_SAMPLE = [
    f"m.json:{place}: note: {name!r} is an op type of Ascend that this TensorFlow lacks, so it has "
    "no effect here [no-counterpart]"
    for place, name in (("4:6", "Yolo"), ("15:6", "Bias"))
]


@pytest.mark.parametrize("target", ["host", "ascend910", "ascend910b", "ascend310p"])
def test_the_documents_own_sample_has_one_misspelt_name_and_is_fixed_whole(target, lint, tmp_path):
    assert lint(SAMPLE, "--target", target) == [
        "m.json:7:6: warning: 'Matmul' is not an op type of TensorFlow or Ascend; did you mean "
        "'MatMul'? [unknown-op]",
        *NOTES_OF_SAMPLE,
    ]
    lint(SAMPLE, "--target", target, "--fix")
    assert (tmp_path / "m.json").read_text() == SAMPLE.replace("Matmul", "MatMul")
    assert lint(SAMPLE.replace("Matmul", "MatMul"), "--target", target) == NOTES_OF_SAMPLE


def test_a_run_with_the_documents_own_sample_has_no_warning_but_of_that_name(tmp_path):
    (tmp_path / "m.json").write_text(SAMPLE)
    _, ledger = npu_precision.rewrite_graph_def(
        read_graph(
            """
            x = Placeholder(shape=1x4x4x1)
            f = Const(shape=1x1x1x1)
            end = Conv2D(x, f, strides=[1, 1, 1, 1], padding=SAME)
            """
        ),
        "end",
        precision_mode="allow_mix_precision",
        modify_mixlist=str(tmp_path / "m.json"),
    )
    assert [warning.partition(": ")[2] for warning in ledger.warnings] == [
        "'Matmul' is not an op type of TensorFlow or Ascend; did you mean 'MatMul'?"
    ]
    assert {mapping.entry: mapping.ops for mapping in ledger.mappings} == {"Yolo": (), "Bias": ()}


def test_ops_info_is_told_by_its_content_and_linted_file_by_file(command, tmp_path):
    (tmp_path / "a.json").write_text('{"Relu": {}}')
    (tmp_path / "b.json").write_text('{"Relu": {"input0": []}, "Reluu": {}}')
    (tmp_path / "gpu").mkdir()
    (tmp_path / "gpu" / "c.json").write_text("{")
    printed = command("lint", tmp_path, status=1).replace(f"{tmp_path}{os.sep}", "")
    read = [f"{name}: read as ops-info" for name in ("a.json", "b.json", f"gpu{os.sep}c.json")]
    assert printed.splitlines()[:3] == read
    assert [line.partition(": ")[0] for line in printed.splitlines()[3:]] == [
        "b.json:1:21",
        "b.json:1:35",
        f"gpu{os.sep}c.json",
    ]
    one = command("lint", tmp_path / "b.json", status=1).replace(f"{tmp_path}{os.sep}", "")
    assert one.splitlines() == [read[1], *printed.splitlines()[3:5]]
    nothing = command("lint", tmp_path / "a.json").splitlines()
    assert nothing[1:] == [f"{tmp_path / 'a.json'}: nothing to be said"]
    data = json.loads(command("lint", tmp_path / "b.json", "--json", status=1))
    assert [found["rule"] for found in data["findings"]] == ["structure", "unknown-op"]


@pytest.mark.parametrize(
    ("text", "read_as"),
    [
        ('{"black-list": {"to-add": ["Relu"]}}', "modify_mixlist"),
        ("# mine\nOpType::Relu:InputDtype:float16,OutputDtype:float16\n", "customize_dtypes"),
        ('{"Relu": {}}', "ops-info"),
        ('{"Switch": {"input0": {"dtype": "float16"}}}', "ops-info"),
        ('{"Switch": {"GraphFusion": {"ALL": "off"}, "UBFusion": {}}}', "fusion_switch_file"),
        ("ConvBatchnormFusionPass:off\nOther:on\n", "fusion_switch_file"),
    ],
)
def test_the_detected_format_is_told(text, read_as, command, tmp_path):
    file = tmp_path / "file"
    file.write_text(text)
    printed = command("lint", file)
    assert printed.splitlines()[0] == f"{file}: read as {read_as}"
    assert json.loads(command("lint", file, "--json"))["format"] == read_as
    no_effect = "fusion_switch_file switches fusions of CANN, and has no effect here"
    assert (no_effect in printed) == (read_as == "fusion_switch_file")


def test_a_fusion_switch_file_is_not_fixed(command, tmp_path):
    (tmp_path / "f.cfg").write_text("ConvBatchnormFusionPass:off")
    text = command("lint", tmp_path / "f.cfg", "--fix", status=2)
    assert "--fix goes with a mixlist" in text
    assert "is fusion_switch_file" in text


@pytest.mark.parametrize(
    ("entry", "warning"),
    [
        (
            '{"gray-list": {"to-remove": ["Relu"]}}',
            "'Relu' is gray when it is on no other list, so removing it from gray-list changes "
            "nothing; to-add of another list moves it [redundant]",
        ),
        (
            '{"gray-list": {"to-remove": ["node:out"]}}',
            "'node:out' is gray when it is on no other list, so removing it from gray-list changes "
            "nothing; to-add of another list moves it [redundant]",
        ),
        (
            '{"gray-list": {"to-remove": ["MatMul"]}}',
            "'MatMul' is not on the target's gray-list, so removing it changes nothing [redundant]",
        ),
        (
            '{"gray-list": {"to-remove": ["Relu"]}, "black-list": {"to-add": ["Relu"]}}',
            "'Relu' is added to black-list at m.json:1:66, which takes it off gray-list "
            "[redundant]",
        ),
    ],
)
def test_an_entry_that_removes_nothing_is_a_warning(entry, warning, lint):
    (line,) = lint(entry)
    assert line.partition(": warning: ")[2] == warning


def test_a_pattern_that_removes_nothing_is_a_warning_for_a_model(lint, model_files):
    text = '{"white-list": {"to-remove": ["node:lowered", "node:product"]}}'
    (line,) = [line for line in lint(text, "--model", model_files.frozen) if "warning" in line]
    assert line == (
        "m.json:1:31: warning: 'node:lowered' matches no node of the graph on the white list, so "
        "removing it changes nothing [no-match]"
    )


def test_ops_info_is_neither_fixed_nor_compared_with_a_model(command, tmp_path, model_files):
    (tmp_path / "a.json").write_text('{"Relu": {}}')
    error = command("lint", tmp_path / "a.json", "--fix", status=2)
    assert "--fix goes with a mixlist" in error
    error = command("lint", tmp_path, "--model", model_files.frozen, status=2)
    assert "--model goes with a mixlist" in error


def test_what_is_needless_depends_on_the_target(lint):
    text = '{"gray-list": {"to-add": ["Softmax"]}}'
    assert lint(text) == ["m.json: nothing to be said"]
    assert lint(text, "--target", "ascend910") == [
        "m.json:1:27: warning: 'Softmax' is on the target's gray-list already [redundant]"
    ]


def test_under_a_mode_that_uses_no_lists_it_is_inert(lint):
    (line,) = lint('{"black-list": {"to-add": ["Relu"]}}', "--mode", "force_fp16", status=1)
    assert line.startswith("m.json: error: modify_mixlist: got ")
    assert "which does not use the lists" in line
    assert line.endswith("[inert-option]")


@pytest.mark.parametrize(
    ("model", "unmatched"),
    [
        ("cnn", ["'Tanh'", "'node:no_such.*'"]),
        ("lstm", ["'Relu'", "'node:no_such.*'"]),
        ("checkpoint", ["'Tanh'", "'node:no_such.*'"]),
    ],
)
def test_with_a_model_entries_that_match_nothing_anywhere_are_told(
    model, unmatched, lint, model_files
):
    text = '{"black-list": {"to-add": ["Relu", "Tanh", "node:.*MatMul.*", "node:no_such.*"]}}'
    lines = lint(text, "--model", getattr(model_files, model))
    assert [line.split()[2] for line in lines] == unmatched


def test_patterns_that_contradict_each_other_about_a_node_are_told(lint, model_files):
    text = '{"black-list": {"to-add": ["node:out"]}, "white-list": {"to-add": ["node:o.*"]}}'
    (line,) = lint(text, "--model", model_files.frozen, status=1)
    assert "node 'out' matches 'node:out'" in line
    assert line.endswith("[contradiction]")


MESSY = """\
// Ours.
{
  "black-list": {
    "to-add": ["Relo", "Relu6", "Relu6"],
    // Since the loss went up.
    "to-remove": ["Sum", "Exp", /* not this */ "Loglp"]
  },
  "white-list": {"to-add": [
    "MatMul",
    "ReduceSumD"  // tried in May
  ]}
}
"""

TIDY = """\
// Ours.
{
  "black-list": {
    "to-add": ["Relu", "Relu6"],
    // Since the loss went up.
    "to-remove": ["Exp", /* not this */ "Log1p"]
  },
  "white-list": {"to-add": [
    "ReduceSumD"  // tried in May
  ]}
}
"""


def test_fixing_keeps_comments_and_layout(lint, tmp_path):
    lines = lint(MESSY, "--fix")
    assert (tmp_path / "m.json").read_text() == TIDY
    assert [line.split(": ")[0] for line in lines] == ["fixed"] * 5 + ["m.json:9:5"]
    assert lint(TIDY, "--fix") == ["m.json: has nothing that --fix can fix", *lines[-1:]]
    assert (tmp_path / "m.json").read_text() == TIDY


def test_fixing_says_so_where_nothing_is_wrong(lint):
    assert lint('{"black-list": {"to-add": ["Relu"]}}', "--fix") == [
        "m.json: has nothing that --fix can fix"
    ]


@pytest.mark.parametrize(
    ("text", "fixed"),
    [
        ('{"gray-list": {"to-add": ["Relu"]}}', '{"gray-list": {"to-add": []}}'),
        ('{"gray-list": {"to-add": [ "Relu" ]}}', '{"gray-list": {"to-add": [ ]}}'),
        ('{"gray-list":{"to-add":["Relu","Exp"]}}', '{"gray-list":{"to-add":["Exp"]}}'),
        ('{"gray-list":{"to-add":["Exp","Relu"]}}', '{"gray-list":{"to-add":["Exp"]}}'),
        (
            '{"gray-list": {"to-add": ["Exp" /* , */ , "Relu"]}}',
            '{"gray-list": {"to-add": ["Exp" /* , */ ]}}',
        ),
        (
            '{"gray-list": {"to-add": ["Relu", "Tanh", "Neg"]}}',
            '{"gray-list": {"to-add": []}}',
        ),
        (
            '{"gray-list": {"to-add": ["Exp", "Relu" // a, b\n, "Log"]}}',
            '{"gray-list": {"to-add": ["Exp", // a, b\n "Log"]}}',
        ),
    ],
)
def test_an_entry_goes_with_its_comma(text, fixed, lint, tmp_path):
    lint(text, "--fix")
    assert (tmp_path / "m.json").read_text() == fixed
    npu_precision.PrecisionOptions(
        precision_mode="allow_mix_precision", modify_mixlist=str(tmp_path / "m.json")
    )


def test_nothing_is_fixed_into_a_mistake(lint, tmp_path):
    text = '{"black-list": {"to-add": ["Relo"]}, "white-list": {"to-add": ["Relu"]}}'
    first, line = lint(text, "--fix")
    assert first == "m.json: has nothing that --fix can fix"
    assert "'Relo' is not an op type" in line
    assert (tmp_path / "m.json").read_text() == text


def test_a_fixed_mixlist_decides_as_the_one_before_but_for_misspelt_names(lint, tmp_path):
    graph = read_graph(
        """
        x = Placeholder(shape=4x4)
        product = MatMul(x, x)
        e = Exp(product)
        s = Relu6(e)
        end = MatMul(s, s)
        """
    )

    def decisions():
        _, ledger = npu_precision.rewrite_graph_def(
            graph,
            "end",
            precision_mode="allow_mix_precision",
            modify_mixlist=str(tmp_path / "m.json"),
        )
        return [(node.name, node.decision, node.list) for node in ledger.nodes]

    (tmp_path / "m.json").write_text(MESSY)
    before = decisions()
    lint(MESSY, "--fix")
    assert decisions() == before


def test_fixing_into_another_file_leaves_this_one_alone(lint, command, tmp_path):
    other = tmp_path / "other.json"
    lint(MESSY, "--fix", "-o", other)
    assert (tmp_path / "m.json").read_text() == MESSY
    assert other.read_text() == TIDY
    arguments = ("lint", tmp_path / "m.json", "--fix", "-o", other)
    assert "exists; --force replaces it" in command(*arguments, status=2)


def test_json_has_the_findings_and_what_was_fixed(command, tmp_path):
    (tmp_path / "m.json").write_text(MESSY)
    data = json.loads(command("lint", tmp_path / "m.json", "--json"))
    assert data["schema"] == "npu_precision.lint/1"
    assert data["mended"] == []
    assert data["findings"][0] == {
        "severity": "warning",
        "rule": "unknown-op",
        "place": f"{tmp_path / 'm.json'}:4:16",
        "text": "'Relo' is not an op type of TensorFlow or Ascend; did you mean 'Relu'?",
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no.json"], "no.json: No such file or directory"),
        (["MIXLIST", "--target", "gpu"], "target: got 'gpu'"),
        (["MIXLIST", "--mode", "mixed"], "--mode: got 'mixed'"),
        (["MIXLIST", "--model", "no.pb"], "no file 'no.pb'"),
        (["MIXLIST", "-o", "other.json"], "--output and --force go with --fix"),
    ],
)
def test_other_mistakes_are_status_2(arguments, message, command, mixlist):
    mixed = mixlist(black=["Relu"])
    text = command("lint", *(mixed if each == "MIXLIST" else each for each in arguments), status=2)
    assert message in text
    assert text.count("\n") == 1


ESCAPED = r'"node:\u00e9\"x"'


@pytest.mark.parametrize(
    ("text", "removed"),
    [
        # A byte order mark, which jsoncpp skips.
        ('\ufeff{"gray-list": {"to-add": ["Relu", "Log"]}}', '"Relu", '),
        (f'{{"gray-list": {{"to-add": ["Log", {ESCAPED}, {ESCAPED}]}}}}', f", {ESCAPED}"),
        ('{"gray-list":\r\n {"to-add": ["Log",\r\n  "Relu",\r\n  "Exp"]}}\r\n', '  "Relu",\r\n'),
        ('{"gray-list": {"to-add": ["Log", "node:é", "Relu"]}}', ', "Relu"'),
    ],
    ids=["mark", "escapes", "crlf", "unicode"],
)
def test_offsets_are_those_of_the_file(text, removed, command, tmp_path):
    path = tmp_path / "m.json"
    path.write_bytes(text.encode("utf-8"))
    command("lint", path, "--fix")
    assert path.read_bytes().decode("utf-8") == text.replace(removed, "", 1)


def test_columns_do_not_count_a_byte_order_mark(command, tmp_path):
    path = tmp_path / "m.json"
    path.write_bytes(b'\xef\xbb\xbf{"black-list": {"to-add": ["Relo"]}}')
    assert f"{path}:1:28: warning: 'Relo'" in command("lint", path)


@pytest.mark.parametrize(
    ("entry", "becomes"),
    [
        ("MatMu1V2", "MatMulV2"),
        ("Loglp", "Log1p"),
        ("relu6", "Relu6"),
        ("Sigmoidd", "Sigmoid"),
        # Another version, or another number of dimensions.
        ("Relu7", "Relu7"),
        ("FusedBatchNormV9", "FusedBatchNormV9"),
        ("Conv4D", "Conv4D"),
        ("TopKV7", "TopKV7"),
    ],
)
def test_only_what_can_be_nothing_else_is_taken_for_a_misspelt_name(
    entry, becomes, command, tmp_path
):
    path = tmp_path / "m.json"
    key = "white-list" if becomes == "Log1p" else "black-list"
    path.write_text(f'{{"{key}": {{"to-add": ["{entry}"]}}}}')
    command("lint", path, "--fix")
    assert path.read_text() == f'{{"{key}": {{"to-add": ["{becomes}"]}}}}'


def test_hundreds_of_entries_are_fixed_at_once(command, tmp_path):
    entries = [f'"Unknown{number}"' for number in range(200)] + ['"Relu"'] * 200
    path = tmp_path / "m.json"
    path.write_text(f'{{"black-list": {{"to-add": [{", ".join(entries)}]}}}}')
    text = command("lint", path, "--fix")
    assert text.count("fixed: ") == 199
    assert path.read_text().count("Relu") == 1


def test_a_link_stays_and_so_do_a_file_s_rights(command, tmp_path):
    path, link = tmp_path / "m.json", tmp_path / "link.json"
    path.write_text('{"black-list": {"to-add": ["Relo"]}}')
    path.chmod(0o600)
    link.symlink_to(path)
    command("lint", link, "--fix")
    assert link.is_symlink()
    assert "Relu" in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    before = path.stat().st_mtime_ns
    command("lint", path, "--fix")
    assert path.stat().st_mtime_ns == before


def test_what_is_never_changed_has_no_place_on_a_list(lint, tmp_path):
    text = '{"white-list": {"to-add": ["Const", "RandomUniform", "While", "Identity"]}}'
    assert lint(text) == [
        f"m.json:1:{column}: warning: '{op}' is never changed, whatever list it is on "
        "[never-changed]"
        for column, op in ((28, "Const"), (37, "RandomUniform"), (54, "While"))
    ]
    lint(text, "--fix")
    assert (tmp_path / "m.json").read_text() == '{"white-list": {"to-add": ["Identity"]}}'


def test_what_cannot_be_read_is_not_copied(lint, tmp_path):
    lint("[", "--fix", "-o", tmp_path / "other.json", status=1)
    assert not (tmp_path / "other.json").exists()
