"""The documentation: its code runs and prints the shown output, and its lists are complete."""

import os
import pathlib
import re
import shutil
import sys

import pytest
from support import ROOT, warm_python
from support.pages import PAGES
from support.report_files import needs_page
from support.strict_zip import strict_zip
from support.tf_versions import (
    needs_estimator,
    needs_functions_by_default,
    needs_fused_optimizers,
    needs_keras_2,
    needs_kernels,
    needs_logical_devices,
    needs_outputs_of_the_docs,
)

from npu_precision import PrecisionOptions, _library

sys.path.append(str(ROOT))
from wheels import readme

# The examples that each page shows.
EXAMPLES = {
    "README.md": ["keras_fit.py", "sess_run_script.py"],
    "docs/training.md": ["watched_training.py", "compared_training.py"],
    "docs/distributed.md": ["cluster_server.py"],
}
# Pages that show an example among other code.
ALSO_SHOWN = {"docs/options.md": "modern.py"}
# These pages have their own tests: test_cli_docs.py, test_recipes.py and test_write_a_pass.py.
PAGES_WITH_TESTS = (
    "docs/cli.md",
    "docs/hand-offs.md",
    "docs/write-a-pass.md",
    *(page for page in PAGES if page.startswith("docs/tutorials/")),
)
NUMBER = re.compile(r"\d+\.\d+")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)


def blocks(page, language):
    """The code blocks of a page, and of each the ```text block right after it, or None."""
    found = BLOCK.findall((ROOT / page).read_text())
    following = [*found[1:], ("", None)][: len(found)]
    return [
        (code, text if kind == "text" else None)
        for (block, code), (kind, text) in strict_zip(found, following)
        if block == language
    ]


def text_block(page, start):
    """The only ```text block of a page with this start: the output of an example."""
    found = [block for kind, block in BLOCK.findall((ROOT / page).read_text()) if kind == "text"]
    (block,) = [block for block in found if block.startswith(start)]
    return block


def example(name):
    """An example as a reader would paste it: without its comments for the linter."""
    lines = (ROOT / "examples" / name).read_text().splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("# ruff:"))


@pytest.fixture
def run_code(tmp_path):
    """Runs code in a folder with only the examples' mixlist; returns its output."""

    def run(code):
        shutil.copy(ROOT / "examples" / "mixlist.json", tmp_path)
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        status, stdout, stderr = warm_python.run(["-c", code], tmp_path, environment, timeout=300)
        assert status == 0, stderr[-4000:]
        return stdout

    return run


@needs_keras_2
def test_the_session_script_learns(run_code):
    printed = run_code(example("sess_run_script.py"))
    assert 0 < float(printed[len("loss ") :]) < 2.3  # ln(10): a guess


@needs_estimator
def test_the_estimator_script_trains_evaluates_predicts_and_exports(run_code):
    printed = run_code(example("estimator_script.py"))
    values = re.fullmatch(r"accuracy (.*)\nfirst digit (\d)\nexported to (.*)\n", printed)
    assert float(values[1]) > 0.5
    assert (pathlib.Path(values[3]) / "saved_model.pb").is_file()


@needs_functions_by_default
def test_the_keras_script_learns_and_has_ledgers(run_code, tmp_path):
    accuracy = run_code(example("keras_fit.py")).splitlines()[0]
    assert float(accuracy[len("accuracy ") :]) > 0.5
    assert list((tmp_path / "ledgers").glob("*.json"))
    assert (tmp_path / "inputs.npz").is_file()


@needs_functions_by_default
def test_the_calls_that_options_go_to_cast_and_convert(run_code, tmp_path):
    printed = run_code(example("modern.py"))
    assert "logits MatMul lowered white_list" in printed
    assert (tmp_path / "model_bf16" / "saved_model.pb").is_file()


@needs_functions_by_default
@needs_page
def test_the_readme_can_be_followed_to_its_end(run_code, tmp_path):
    def run_command(arguments):
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = ["-m", "npu_precision_command", *arguments]
        status, stdout, stderr = warm_python.run(command, tmp_path, environment, timeout=300)
        assert status == 0, f"{arguments}: {stderr[-4000:]}"
        return stdout

    readme.follow(tmp_path, run_code, run_command)


@pytest.mark.full  # The script with a flight recorder scales too.
@pytest.mark.parametrize(
    "name",
    [
        "loss_scale_npu_bridge.py",
        pytest.param("loss_scale_grad_scaler.py", marks=needs_functions_by_default),
        pytest.param(
            "loss_scale_replicas.py", marks=[needs_functions_by_default, needs_logical_devices]
        ),
    ],
)
def test_a_script_with_loss_scaling_skips_steps_and_learns(run_code, name):
    printed = run_code(example(name))
    values = re.fullmatch(
        r"made (\d+) of 200 steps\nlast: loss (.*), scale (\d+), made (True|False)\n", printed
    )
    assert 100 < int(values[1]) < 200
    assert float(values[2]) < 1
    assert 2**10 <= int(values[3]) < 2**24


@pytest.mark.full
@needs_functions_by_default
def test_the_script_with_amp_learns_at_o2(run_code):
    printed = run_code(example("loss_scale_amp.py"))
    assert "all_white           : True" in printed
    values = re.search(r"made (\d+) of 200 steps\nlast: loss (.*), scale (\d+)\n", printed)
    assert int(values[1]) > 190
    assert float(values[2]) < 1
    assert 2**12 <= int(values[3]) <= 2**16


@needs_fused_optimizers
def test_the_script_with_a_fused_optimizer_learns_at_o2(run_code):
    printed = run_code(example("fused_optimizer.py"))
    assert float(printed.rpartition("accuracy ")[2]) > 0.9


@needs_functions_by_default
def test_the_script_with_a_flight_recorder_prints_what_the_page_says(run_code):
    assert run_code(example("flight_recorder.py")) == text_block("docs/loss-scaling.md", "SGD: ")


@needs_outputs_of_the_docs
def test_the_scripts_of_a_training_print_what_the_page_says(run_code):
    for name, start in (("watched_training.py", "graph 0 "), ("guarded_training.py", "loss nan")):
        said, printed = text_block("docs/training.md", start), run_code(example(name))
        # The numbers of a training depend on the processor.
        assert NUMBER.sub("#", printed) == NUMBER.sub("#", said)


@needs_outputs_of_the_docs
def test_the_training_to_compare_stays_within_its_yardstick(tmp_path):
    shutil.copy(ROOT / "examples" / "compared_training.py", tmp_path)
    flags = ["--training", "compared_training:training", "--mode", "allow_mix_precision_bf16"]
    command = ["-m", "npu_precision_command", "compare", *flags, "--steps", "20"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    status, stdout, stderr = warm_python.run(command, tmp_path, environment, timeout=300)
    assert status == 0, stderr[-4000:]
    assert "the loss stays within what other seeds make of float32's" in stdout


@needs_outputs_of_the_docs
def test_the_script_with_batch_norms_over_replicas_prints_what_the_page_says(run_code):
    said = text_block("docs/distributed.md", "ordinary ")
    assert run_code(example("sync_batch_norms.py")) == said


@pytest.mark.parametrize("page", EXAMPLES)
def test_a_page_shows_the_examples_as_they_are(page):
    shown = [code for code, _ in blocks(page, "python")]
    assert shown == [example(name) for name in EXAMPLES[page]]


@pytest.mark.parametrize("page", ALSO_SHOWN)
def test_a_page_shows_an_example_as_it_is(page):
    assert example(ALSO_SHOWN[page]) in [code for code, _ in blocks(page, "python")]


def test_the_readme_shows_the_mixlist_as_it_is():
    mixlists = [code for code, _ in blocks("README.md", "json")]
    assert mixlists == [(ROOT / "examples" / "mixlist.json").read_text()]


# Marks for pages whose code needs more than every TensorFlow has.
PAGE_NEEDS = {
    "docs/modes.md": [needs_kernels("bfloat16", "Conv2D")],
    "docs/from-torch-amp.md": [needs_functions_by_default],
    "docs/from-keras-policy.md": [needs_functions_by_default],
    "docs/npu-device.md": [needs_functions_by_default],
    "docs/options.md": [needs_functions_by_default],
}


@pytest.mark.parametrize(
    ("page", "number"),
    [
        pytest.param(page, number, marks=PAGE_NEEDS.get(page, ()))
        for page in PAGES
        if page not in EXAMPLES and page not in PAGES_WITH_TESTS
        for number, (code, _) in enumerate(blocks(page, "python"))
        if page not in ALSO_SHOWN or code != example(ALSO_SHOWN[page])
    ],
)
def test_code_in_the_docs_prints_what_they_say(run_code, page, number):
    code, expected = blocks(page, "python")[number]
    assert run_code(code) == expected


@pytest.mark.parametrize(
    ("page", "number"),
    [
        (page, number)
        for page in PAGES
        if page not in PAGES_WITH_TESTS
        for number in range(len(blocks(page, "json")))
    ],
)
def test_json_in_the_documentation_is_accepted(tmp_path, page, number):
    text, _ = blocks(page, "json")[number]
    file = tmp_path / "lists.json"
    file.write_text(text)
    if "-list" in text:
        PrecisionOptions(precision_mode="allow_mix_precision", modify_mixlist=file)
    else:
        PrecisionOptions(precision_mode="allow_mix_precision", ops_info_dir=tmp_path)


def table_columns(page, heading):
    """The cells of the table whose first heading this is, column by column, without marks."""
    lines = iter((ROOT / page).read_text().splitlines())
    start = next(line for line in lines if line.startswith(f"| {heading} |"))
    next(lines)
    rows = [start]
    for line in lines:
        if not line.startswith("|"):
            break
        rows.append(line)
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[1:]]
    return list(strict_zip(*cells))


def names(cells):
    """The text in backquotes at the start of each cell; other cells are left out."""
    matches = (re.match(r"`([\w\[\].]+)`", cell) for cell in cells)
    return [match[1] for match in matches if match]


def test_the_modes_page_names_every_mode():
    text = (ROOT / "docs" / "modes.md").read_text()
    for mode in (*_library.describe()["modes"], *_library.describe()["modes_v2"]):
        assert f"`{mode}`" in text


def test_the_documentation_names_every_target():
    text = (ROOT / "docs" / "modes.md").read_text()
    for target in _library.describe()["targets"]:
        assert f"\n| `{target}` " in text


def test_the_ledger_page_explains_every_reason():
    reasons = [row["word"] for row in _library.describe()["reasons"]]
    explained, _, _ = table_columns("docs/ledger.md", "word")
    assert names(explained) == reasons


def test_the_ledger_page_lists_every_field(run_code):
    code = """
import tensorflow as tf, npu_precision
with tf.Graph().as_default() as graph:
    x = tf.compat.v1.placeholder(tf.float32, [4, 8], name="x")
    tf.matmul(x, tf.ones([8, 3]), name="logits")
    image = tf.reshape(x, [4, 2, 2, 2])
    tf.nn.conv2d(image, tf.ones([1, 1, 2, 3]), [1, 1, 1, 1], "VALID", name="filtered")
    total = tf.raw_ops.CollectiveReduce(
        input=x, group_size=1, group_key=1, instance_key=1, merge_op="Add", final_op="Id",
        subdiv_offsets=[0],
    )
    tf.identity(total, name="total")
_, ledger = npu_precision.rewrite_graph_def(
    graph.as_graph_def(), ["logits", "filtered", "total"], precision_mode="allow_mix_precision",
    lower_collectives=True,
)
def fields(data, prefix=""):
    for name, value in data.items():
        if prefix + name in ("options", "nodes[].dtypes", "totals.by_list", "totals.by_reason"):
            value = None
        if isinstance(value, dict):
            fields(value, f"{prefix}{name}.")
        else:
            print(prefix + name)
        if isinstance(value, list) and value and isinstance(value[0], dict):
            fields(value[0], f"{prefix}{name}[].")
fields(ledger.data)
"""
    written = set(run_code(code).split())
    described = set()
    fields, _ = table_columns("docs/ledger.md", "field")
    for cell in fields:
        first, *others = re.findall(r"`([\w\[\].]+)`", cell)
        prefix = first.rpartition(".")[0]
        described.add(first)
        described.update(
            f"{prefix}.{name}" if prefix and "." not in name else name for name in others
        )
    assert described == written


def test_the_readme_has_the_two_commands_before_all_others_and_is_short():
    lines = (ROOT / "README.md").read_text().splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("    make"))
    assert [line.split()[:2] for line in lines[first : first + 2]] == [
        ["make", "demo"],
        ["make", "test"],
    ]
    assert not any(line.startswith("```python") for line in lines[:first])
    assert len(lines) <= 150


def test_the_documents_are_short():
    """Tables do not count: readers look something up in a table, but read the rest."""
    lines = [line for page in PAGES for line in (ROOT / page).read_text().splitlines()]
    words = sum(len(line.split()) for line in lines if not line.startswith("|"))
    assert words <= 20_000


@pytest.mark.parametrize("page", [*PAGES, "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)", BLOCK.sub("", (ROOT / page).read_text())):
        if not target.startswith("https://"):
            assert ((ROOT / page).parent / target).exists(), target
