"""Scripts in a fork of a Python that has imported TensorFlow end as in a Python of their own."""

from __future__ import annotations

import signal

import pytest

from support import warm_python

REPORT = """
import atexit, json, os, sys, threading
atexit.register(print, "exit handler")
threading.Timer(0.2, print, ["thread"]).start()
import support_is_not_here
"""
FACTS = """
import json, os, sys
import tensorflow as tf
import npu_precision
print(json.dumps([sys.argv[1:], __name__, os.getcwd(), os.environ["GIVEN"], sys.path[0]]))
print(json.dumps(sorted(name for name in sys.modules if name.partition(".")[0] == "support")))
print(int(tf.reduce_sum(tf.ones([3]))))
"""


def test_it_has_its_own_arguments_folder_variables_and_modules(run_python, tmp_path):
    lines = run_python(FACTS, "a", 1, GIVEN="b").stdout.splitlines()
    folder = str(tmp_path)
    assert lines == [f'[["a", "1"], "__main__", "{folder}", "b", "{folder}"]', "[]", "3"]


@pytest.mark.parametrize("cold", [False, True])
def test_an_error_shows_its_traceback_after_threads_and_before_exit_handlers(run_python, cold):
    done = run_python(REPORT, check=False, cold=cold)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("ModuleNotFoundError: No module named 'support")
    assert done.stdout.splitlines() == ["thread", "exit handler"]


@pytest.mark.parametrize(
    ("end", "status", "error"),
    [
        ("sys.exit(7)", 7, ""),
        ("sys.exit('no')", 1, "no\n"),
        ("os.kill(os.getpid(), 9)", -signal.SIGKILL, ""),
        ("os.abort()", -signal.SIGABRT, None),
    ],
)
def test_it_has_the_status_of_a_python_of_its_own(run_python, end, status, error):
    for cold in (False, True):
        done = run_python(f"import os, sys\n{end}", check=False, cold=cold)
        assert done.returncode == status
        assert error is None or done.stderr == error


def test_what_takes_too_long_is_an_error_and_ends(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import time\ntime.sleep(600)")
    with pytest.raises(TimeoutError, match="took more than 1 s"):
        warm_python.run([script], tmp_path, {}, timeout=1)


@pytest.mark.parametrize(
    ("variables", "fits"),
    [
        ({"GIVEN": "1", "TF_CPP_MIN_LOG_LEVEL": "0"}, True),
        ({"TF_CPP_MIN_LOG_LEVEL": "1"}, False),
        ({"TF_USE_LEGACY_KERAS": "1"}, False),
        ({"PYTHONPATH": ""}, False),
    ],
)
def test_variables_that_are_read_by_an_import_need_a_python_of_their_own(variables, fits):
    assert warm_python.fits(variables) == fits


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        (["-c", "import sys\ndef f(): return sys.argv\nprint(f())", "a"], "['-c', 'a']\n"),
        (["-m", "here", "a"], "__main__ here.py ['a']\n"),
    ],
)
def test_code_and_modules_run_too(tmp_path, arguments, printed):
    module = "import os, sys\nprint(__name__, os.path.basename(sys.argv[0]), sys.argv[1:])"
    (tmp_path / "here.py").write_text(module)
    assert warm_python.run(arguments, tmp_path, {}, timeout=60)[:2] == (0, printed)
