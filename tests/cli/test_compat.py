"""npu-precision compat: which names of a script for Ascend are supported."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import tensorflow as tf
from support import ROOT
from support.tf_versions import HAS_ESTIMATOR, HAS_NPU_DEVICE

import npu_precision
from npu_precision import _errors, _library
from npu_precision.compat import collect, coverage, notes, project, script, table
from npu_precision.npu_bridge import alias, dump_settings

tf1 = tf.compat.v1


@pytest.fixture
def found():
    """found(script) -> {name: (status, note)} of the names that a script uses."""

    def scan(text):
        return {
            each.name: (each.status, each.note)
            for each in script.scan(text.encode(), table.shipped())
        }

    return scan


def statuses(found):
    return {name: status for name, (status, _) in found.items()}


# The table.


def test_the_table_is_that_of_the_modules_and_parameters(run_cold_python):
    printed = run_cold_python(
        "import sys\nfrom npu_precision.compat import collect\n"
        "sys.stdout.write(collect.as_text(collect.collect()))\n"
    ).stdout
    shipped, collected = json.loads(table.FILE.read_text()), json.loads(printed)
    # Newer versions have more arguments, and the newest have no tf.estimator.
    arguments = collected.pop("run_config") if HAS_ESTIMATOR else []
    assert set(arguments) <= set(shipped.pop("run_config"))
    collected.pop("run_config", None)
    if not HAS_NPU_DEVICE:
        for each in (shipped, collected):
            modules = each["modules"].items()
            each["modules"] = {k: v for k, v in modules if k.partition(".")[0] != "npu_device"}
    assert collected == shipped, "run `python -m npu_precision.compat.collect`"


def test_the_table_is_written_as_the_command_writes_it():
    text = table.FILE.read_text()
    assert collect.as_text(json.loads(text)) == text


def test_the_table_says_what_scripts_may_use():
    names = table.shipped()
    expected = {
        "npu_bridge.npu_init.NPUEstimator": table.RUNS,
        "npu_bridge.estimator.npu.npu_config.NPURunConfig": table.RUNS,
        "npu_bridge.estimator.npu_ops.dropout": table.RUNS,
        "npu_bridge.estimator.npu_ops.initialize_system": table.NO_EFFECT,
        "npu_bridge.estimator.npu.npu_scope.without_npu_compile_scope": table.NO_EFFECT,
        "npu_bridge.npu_init.ProfilingConfig": table.NO_EFFECT,
        "hccl.split.api.set_split_strategy_by_idx": table.NO_EFFECT,
        "hccl.manage.api.get_rank_size": table.RUNS,
        "npu_bridge.npu_init.npu_scope.keep_dtype_scope": table.RUNS,
        "npu_bridge.embedding.embedding_service.ESWorker": table.MISSING,
        "npu_bridge.estimator.npu_ops.no_such_op": table.MISSING,
    }
    assert {name: names.name(name).status for name in expected} == expected


def test_what_is_missing_comes_with_what_to_write_instead():
    notes = {
        "npu_bridge.estimator.npu_ops.outfeed_enqueue_op": "fetch the tensors in session.run",
        "npu_bridge.estimator.npu_ops.dropot": "did you mean 'dropout'?",
        "npu_bridge.embedding.embedding_service": (
            "an embedding service of NPUs; write tf.nn.embedding_lookup on a variable"
        ),
    }
    names = table.shipped()
    assert {name: names.name(name).note for name in notes} == notes


# Keys of published scripts, and typos of ours.
UNKNOWN_KEYS = (
    "min_group_size dynamic_inputs_shape_range enable_auto_mix_precision autotune_tune_mode "
    "fp_point bp_point use_mix_list MixlistPath repot_dir ops_info_dirs precison_mode "
    "Precision_Mode x prof"
    " grap_run_mode use_offline dump modify_mixlists hcom_paralel strickt quit targets target_"
).split()


def one_letter_less():
    """Every known parameter with one letter of its middle removed."""
    known = [*_library.describe()["parameters"], *_library.describe()["inert_parameters"]]
    return [name[: len(name) // 2] + name[len(name) // 2 + 1 :] for name in known]


def test_no_note_is_about_a_name_that_there_is():
    data = json.loads(table.FILE.read_text(encoding="utf-8"))["modules"]
    assert not set(notes.MODULES) & set(alias.module_names())
    for module, instead in notes.NAMES.items():
        for name, text in instead.items():
            assert data[module][name] == {"missing": text}, (module, name)


def test_parameters_are_judged_as_the_optimizer_judges_them(tmp_path):
    ignored = {}
    for key in [*UNKNOWN_KEYS, *one_letter_less(), *_library.describe()["inert_parameters"]]:
        known = table.shipped().parameter(key, "s")
        entry = npu_precision.PrecisionOptions().custom_optimizer()
        entry.parameter_map[key].s = b"x"
        try:
            _library.check_options(entry)
        except ValueError as error:
            assert known.status == table.ERROR, (key, known)
            hint = str(error).partition("; did you mean ")[2]
            assert known.note.partition("; did you mean ")[2] == hint
        else:
            acts = key in dump_settings.NAMES
            expected = (table.RUNS,) if acts else (table.WARNING, table.NO_EFFECT)
            assert known.status in expected, (key, known)
            if known.status == table.WARNING:
                ignored[key] = known.note.partition("; did you mean ")[2]
    assert len(ignored) > 50
    assert warnings_of_the_optimizer(ignored, tmp_path) == ignored


def warnings_of_the_optimizer(keys, folder):
    """The optimizer's hints, by the key that it warns about."""
    config = npu_precision.npu_config_proto(precision_mode="force_fp16", report_dir=folder)
    for key in keys:
        entry = config.graph_options.rewrite_options.custom_optimizers[0]
        entry.parameter_map[key].s = b"x"
    with tf.Graph().as_default(), tf1.Session(config=config) as session:
        x = tf1.placeholder(tf.float32, [8, 8])
        session.run(tf.identity(tf.matmul(x, x)), {x: [[1.0] * 8] * 8})
    hints = {}
    for file in folder.glob("*.json"):
        for warning in npu_precision.Ledger.from_json(file.read_text()).warnings:
            key = warning.split("'")[1]
            hints[key] = warning.partition("; did you mean ")[2]
    return hints


@pytest.mark.parametrize(
    ("field", "status"), [("s", table.RUNS), ("b", table.ERROR), ("CopyFrom", table.RUNS)]
)
def test_a_value_of_another_type_is_an_error(field, status):
    known = table.shipped().parameter("precision_mode", field)
    assert known.status == status
    if status == table.ERROR:
        assert known.note == 'write parameter_map["precision_mode"].s = b"..."'


def test_the_nearest_name_is_the_first_of_the_nearest():
    assert _errors.nearest("relu7", ["Relu", "Relu6", "Elu"]) == "Relu"
    assert _errors.nearest("RELU6", ["Relu", "Relu6"]) == "Relu6"
    assert _errors.nearest("prof", ["graph", "profiling_mode"]) == "profiling_mode"
    assert _errors.nearest("dtpye", ["type", "dtype"]) == "dtype"
    assert _errors.nearest("unlike", ["Relu", "Elu"]) is None


# Scripts.

IMPORTS = """\
import npu_bridge
from npu_bridge.npu_init import *
from npu_bridge.estimator import npu_ops as ops
from npu_bridge.estimator.npu.npu_config import NPURunConfig, DumpConfig
import npu_bridge.estimator.npu.util as npu_util
from hccl.manage.api import get_rank_size as size
import npu_bridge.no_such_module

ops.dropout(x, 0.5)
npu_util.set_iteration_per_loop(session, op, 10)
npu_bridge.estimator.npu.npu_scope.keep_dtype_scope()
size()
opt = NPULossScaleOptimizer(tf.train.AdamOptimizer(), manager)
activate = npu_unary_ops.gelu
activate(x)
"""


def test_names_are_followed_from_imports_through_aliases(found):
    assert statuses(found(IMPORTS)) == {
        "hccl.manage.api.get_rank_size": table.RUNS,
        "npu_bridge": table.RUNS,
        "npu_bridge.estimator.npu.npu_config.DumpConfig": table.shipped()
        .name("npu_bridge.npu_init.DumpConfig")
        .status,
        "npu_bridge.estimator.npu.npu_config.NPURunConfig": table.RUNS,
        "npu_bridge.estimator.npu.npu_scope.keep_dtype_scope": table.RUNS,
        "npu_bridge.estimator.npu.util": table.RUNS,
        "npu_bridge.estimator.npu.util.set_iteration_per_loop": table.RUNS,
        "npu_bridge.estimator.npu_ops": table.RUNS,
        "npu_bridge.estimator.npu_ops.dropout": table.RUNS,
        "npu_bridge.no_such_module": table.MISSING,
        "npu_bridge.npu_init.*": table.RUNS,
        "npu_bridge.npu_init.NPULossScaleOptimizer": table.RUNS,
        "npu_bridge.npu_init.npu_unary_ops.gelu": table.RUNS,
    }


def test_a_name_of_the_script_itself_is_not_one_of_the_star(found):
    text = "from npu_bridge.npu_init import *\n"
    assert "npu_bridge.npu_init.util.helper" in found(f"{text}util.helper()\n")
    assert set(found(f"{text}from mine import util\nutil.helper()\n")) == {"npu_bridge.npu_init.*"}
    assert set(found(f"{text}def f(util):\n    util.helper()\n")) == {"npu_bridge.npu_init.*"}


def test_a_name_that_only_npu_bridge_could_have_is_missed_in_the_star(found):
    scanned = found("from npu_bridge.npu_init import *\nnpu_config_prot(config)\nother(config)\n")
    assert scanned["npu_bridge.npu_init.npu_config_prot"] == (
        table.MISSING,
        "did you mean 'npu_config_proto'?",
    )
    assert len(scanned) == 2


PARAMETERS = """\
entry = config.graph_options.rewrite_options.custom_optimizers.add()
entry.name = "NpuOptimizer"
entry.parameter_map["precision_mode"].s = tf.compat.as_bytes("allow_mix_precision")
entry.parameter_map['use_off_line'].b = True
entry.parameter_map["min_group_size"].i = 1
entry.parameter_map["precison_mode"].s = b"force_fp16"
entry.parameter_map["modify_mixlist"].b = True
value = entry.parameter_map["graph_run_mode"]
entry.parameter_map[key].s = b"not known"
"""


def test_keys_of_parameter_maps(found):
    assert found(PARAMETERS) == {
        'parameter_map["precision_mode"]': (table.RUNS, ""),
        'parameter_map["use_off_line"]': (table.NO_EFFECT, ""),
        'parameter_map["graph_run_mode"]': (table.NO_EFFECT, ""),
        'parameter_map["min_group_size"]': (
            table.WARNING,
            "npu_bridge knows no such parameter either",
        ),
        'parameter_map["precison_mode"]': (
            table.ERROR,
            "no such parameter; did you mean 'precision_mode'?",
        ),
        'parameter_map["modify_mixlist"]': (
            table.ERROR,
            'write parameter_map["modify_mixlist"].s = b"..."',
        ),
    }


def test_arguments_of_a_run_config(found):
    scanned = found(
        "from npu_bridge.npu_init import NPURunConfig as Config\n"
        "Config(model_dir='x', precision_mode='y', hcom_parallel=True, iteration_per_loop=2, **more"
        ")"
    )
    assert {name: scanned[name] for name in scanned if name.startswith("NPURunConfig")} == {
        "NPURunConfig(model_dir)": (table.RUNS, ""),
        "NPURunConfig(precision_mode)": (table.RUNS, ""),
        "NPURunConfig(hcom_parallel)": (table.NO_EFFECT, ""),
        "NPURunConfig(iteration_per_loop)": (
            table.ERROR,
            "no such argument; did you mean 'iterations_per_loop'?",
        ),
    }


@pytest.mark.parametrize(
    "text",
    [
        "import tensorflow as tf\ntf.contrib.layers.flatten(x)",
        "from tensorflow.contrib import layers\nlayers.flatten(x)",
        "import tensorflow.contrib.layers as layers\nlayers.flatten(x)",
        "from npu_bridge.npu_init import *\ntf.contrib.layers.flatten(x)",
    ],
)
def test_what_tensorflow_1_alone_has_is_said(found, text):
    assert statuses(found(text))["tensorflow.contrib.layers.flatten"] == table.NEEDS_TF1


def test_each_use_has_its_line():
    text = b"from npu_bridge.npu_init import *\n\nclose_session(a)\nclose_session(\n  b)\n"
    lines = [(each.line, each.name) for each in script.scan(text, table.shipped())]
    assert lines == [
        (1, "npu_bridge.npu_init.*"),
        (3, "npu_bridge.npu_init.close_session"),
        (4, "npu_bridge.npu_init.close_session"),
    ]


@pytest.mark.parametrize(
    ("text", "line", "name", "note"),
    [
        ('import os\nprint "loss", loss\n', 2, "Python 2", "run 2to3 -w on it first"),
        ("try:\n  f()\nexcept E, e:\n  pass\n", 3, "Python 2", "run 2to3 -w on it first"),
        ("import npu_bridge\nf(\n", 2, "syntax error", None),
        ("import npu_bridge\n\0", 1, "syntax error", None),
    ],
)
def test_a_script_that_is_not_of_this_python_is_reported(text, line, name, note):
    (only,) = script.scan(text.encode(), table.shipped())
    assert (only.line, only.name, only.status) == (line, name, table.UNREADABLE)
    assert note is None or only.note == note


def test_results_of_calls_have_names_of_their_own():
    data = json.loads(table.FILE.read_text())
    data["modules"].update(
        {
            "npu_device": {"global_options": table.RUNS},
            "npu_device.global_options()": {
                "precision_mode": table.RUNS,
                "dump_config": {"module": "npu_device.global_options().dump_config"},
            },
            "npu_device.global_options().dump_config": {"enable_dump": table.NO_EFFECT},
        }
    )
    text = (
        "import npu_device as npu\n"
        "npu.global_options().precision_mode = 'x'\n"
        "options = npu.global_options()\n"
        "options.dump_config.enable_dump = True\n"
        "options.precison_mode = 'x'\n"
    )
    scanned = {each.name: each for each in script.scan(text.encode(), table.Table(data))}
    assert {name: each.status for name, each in scanned.items()} == {
        "npu_device": table.RUNS,
        "npu_device.global_options": table.RUNS,
        "npu_device.global_options().precision_mode": table.RUNS,
        "npu_device.global_options().dump_config.enable_dump": table.NO_EFFECT,
        "npu_device.global_options().precison_mode": table.MISSING,
    }
    note = scanned["npu_device.global_options().precison_mode"].note
    assert note == "did you mean 'precision_mode'?"


def test_a_module_may_have_the_names_of_another():
    data = json.loads(table.FILE.read_text())
    data["modules"].update(
        {
            "npu_device": {},
            "npu_device.compat": {},
            "npu_device.compat.v1": {"npu_init": {"module": "npu_bridge.npu_init"}},
        }
    )
    text = b"from npu_device.compat.v1.npu_init import *\nclose_session(session)\nnpu_no_such()\n"
    assert [(each.name, each.status) for each in script.scan(text, table.Table(data))] == [
        ("npu_device.compat.v1.npu_init.*", table.RUNS),
        ("npu_device.compat.v1.npu_init.close_session", table.RUNS),
        ("npu_device.compat.v1.npu_init.npu_no_such", table.MISSING),
    ]


# Projects.


def test_a_script_that_names_nothing_is_not_parsed(monkeypatch):
    def refuse(*_):
        pytest.fail("parsed")

    monkeypatch.setattr(script.ast, "parse", refuse)
    assert script.scan(b"import tensorflow as tf\nprint('loss')\n" * 100, table.shipped()) == []


def test_what_is_hidden_in_a_folder_is_left_out(tmp_path):
    for name in ("train.py", "net/model.py", ".venv/lib.py", "net/__pycache__/x.py", "notes.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x = 1\n")
    read = project.examine([str(tmp_path)], table.shipped()).scripts
    relative = [os.path.relpath(path, str(tmp_path)) for path in read]
    assert relative == ["train.py", os.path.join("net", "model.py")]


def test_the_command_says_per_script_what_happens(command, tmp_path):
    (tmp_path / "good.py").write_text("from npu_bridge.npu_init import npu_config_proto\n")
    (tmp_path / "plain.py").write_text("x = 1\n")
    (tmp_path / "bad.py").write_text(
        "from npu_bridge.estimator import npu_ops\nnpu_ops.dropot(x)\nnpu_ops.dropot(y)\n"
    )
    printed = command("compat", tmp_path, status=1).replace(f"{tmp_path}{os.sep}", "")
    assert printed.splitlines() == [
        "bad.py: 1 name is missing, 1 runs",
        "  bad.py:2: missing: npu_bridge.estimator.npu_ops.dropot; did you mean 'dropout'? "
        "(also 3)",
        "  bad.py:1: runs: npu_bridge.estimator.npu_ops",
        "good.py: 1 runs",
        "  good.py:1: runs: npu_bridge.npu_init.npu_config_proto",
        "3 scripts, 2 of which use names of Ascend; 1 will not run as they are",
    ]
    assert command("compat", tmp_path / "good.py").count("\n") == 2
    assert command("compat", tmp_path / "plain.py").endswith(
        "plain.py: uses no name of npu_bridge, npu_device or hccl\n"
    )


def test_the_same_as_json(command, tmp_path):
    (tmp_path / "bad.py").write_text("from npu_bridge.estimator.npu_ops import dropot\n")
    printed = json.loads(command("compat", tmp_path / "bad.py", "--json", status=1))
    assert printed == {
        "schema": "npu_precision.compat/1",
        "runs": False,
        "scripts": [
            {
                "path": str(tmp_path / "bad.py"),
                "found": [
                    {
                        "line": 1,
                        "name": "npu_bridge.estimator.npu_ops.dropot",
                        "status": "missing",
                        "note": "did you mean 'dropout'?",
                    }
                ],
            }
        ],
        "lists": [],
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Missing argument 'FILE_OR_FOLDER...'"),
        (["no.py"], "no file or folder 'no.py'; expected a Python script, a folder"),
        (["EMPTY"], "has no Python script in it"),
        (["LIST"], "names.txt:2: got 'tensorflow.nn.relu 3', expected a name of npu_bridge"),
    ],
)
def test_wrong_usage_is_one_line_and_status_2(command, tmp_path, arguments, message):
    (tmp_path / "names.txt").write_text("hccl.manage.api.get_rank_id 1\ntensorflow.nn.relu 3\n")
    (tmp_path / "empty").mkdir()
    places = {"EMPTY": tmp_path / "empty", "LIST": tmp_path / "names.txt"}
    printed = command("compat", *(places.get(each, each) for each in arguments), status=2)
    assert message in printed
    assert printed.count("\n") == 1


def test_it_needs_no_tensorflow(tmp_path):
    (tmp_path / "tensorflow.py").write_text("raise ImportError('imported')\n")
    (tmp_path / "train.py").write_text("from npu_bridge.npu_init import *\n")
    process = subprocess.run(
        [sys.executable, "-m", "npu_precision_command", "compat", "train.py"],
        cwd=str(tmp_path),
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (process.returncode, process.stderr) == (0, "")
    assert "train.py:1: runs: npu_bridge.npu_init.*" in process.stdout


# Lists of names.

LIST = """\
name,count
npu_bridge.npu_init.NPUEstimator,116
npu_bridge.estimator.npu_ops.dropout,138
parameter_map.use_off_line,301

npu_bridge.estimator.npu_ops.no_such_op,5
"""


@pytest.mark.parametrize("separator", [",", " ", "\t", "; "])
def test_a_list_of_names_is_read_whatever_separates_it(separator):
    read = coverage.read(LIST.replace(",", separator), "names.csv", table.shipped())
    assert [(each.name, each.count, each.status) for each in read] == [
        ("parameter_map.use_off_line", 301, table.NO_EFFECT),
        ("npu_bridge.estimator.npu_ops.dropout", 138, table.RUNS),
        ("npu_bridge.npu_init.NPUEstimator", 116, table.RUNS),
        ("npu_bridge.estimator.npu_ops.no_such_op", 5, table.MISSING),
    ]


def test_a_count_may_come_first_or_be_left_out_and_names_add_up():
    text = "3 hccl.manage.api.get_rank_id # of uniq -c\nhccl.manage.api.get_rank_id\n"
    (only,) = coverage.read(text, "names.txt", table.shipped())
    assert (only.name, only.count) == ("hccl.manage.api.get_rank_id", 4)


def test_the_coverage_of_a_list(command, tmp_path):
    (tmp_path / "names.csv").write_text(LIST)
    printed = command("compat", tmp_path / "names.csv", status=1)
    assert "names.csv: 3 of 4 names (75.0%) are here, and 555 of 560 uses (99.1%)\n" in printed
    (only,) = json.loads(command("compat", tmp_path / "names.csv", "--json", status=1))["lists"]
    assert only["coverage"]["share_of_uses"] == pytest.approx(555 / 560)
    assert [each["count"] for each in only["names"]] == [301, 138, 116, 5]
