"""`%load_ext npu_precision` and `%npu_precision --mode MODE` in a notebook."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from support.packages import skip_without
from support.tf_versions import needs_functions_by_default

import npu_precision

pytestmark = needs_functions_by_default
X = np.linspace(-1, 1, 32 * 32, dtype=np.float32).reshape(32, 32)


class Shell:
    """What IPython's shell does for an extension."""

    def __init__(self):
        self.magics = {}

    def register_magic_function(self, function, magic_kind, magic_name):
        """Notes a magic."""
        assert magic_kind == "line"
        self.magics[magic_name] = function


@pytest.fixture
def magic():
    shell = Shell()
    npu_precision.load_ipython_extension(shell)
    run = shell.magics["npu_precision"]
    yield run
    if npu_precision.active_options() is not None:
        run("--off")


@pytest.fixture
def product():
    return tf.function(lambda x: tf.matmul(x, x))


def test_a_mode_is_in_force_until_it_is_off(magic, product, capsys):
    exact = product(X).numpy()
    magic("--mode allow_mix_precision_bf16 --rewrites none")
    assert npu_precision.active_options().rewrites == "none"
    low = product(X).numpy()
    magic("--off")
    assert 1e-3 < np.abs(low - exact).max() < 0.2
    np.testing.assert_array_equal(product(X).numpy(), exact)
    assert "npu_precision: allow_mix_precision_bf16 lowered" in capsys.readouterr().err


def test_a_session_made_meanwhile_runs_in_it(magic):
    def value():
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            x = tf.compat.v1.placeholder(tf.float32, [32, 32])
            return session.run(tf.matmul(x, x), {x: X})

    exact = value()
    magic("--mode allow_mix_precision_bf16")
    low = value()
    magic("--off")
    assert 1e-3 < np.abs(low - exact).max() < 0.2
    np.testing.assert_array_equal(value(), exact)


CELLS = """
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
for cell in (
    "import tensorflow as tf",
    "x = tf.random.stateless_normal([32, 32], [1, 2])",
    "product = tf.function(lambda x: tf.matmul(x, x))",
    "exact = product(x)",
    "%load_ext npu_precision",
    "%npu_precision --mode allow_mix_precision_bf16",
    "low = product(x)",
    "%npu_precision --off",
    "again = product(x)",
    "print(bool(tf.reduce_all(low == exact)), bool(tf.reduce_all(again == exact)))",
    "%npu_precision --mod force_fp16",
):
    shell.run_cell(cell).raise_error()
"""


def test_a_notebook_of_ipython_runs_its_cells_in_the_mode(run_python):
    skip_without(("IPython",), "backends")
    process = run_python(CELLS)
    assert process.stdout.splitlines()[-1] == "False True"
    assert "No such option" in process.stderr


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "expected --mode MODE, or --off"),
        ("--mode force_fp16 --off", "expected --mode MODE, or --off"),
        ("--mod force_fp16", "No such option"),
    ],
)
def test_a_mistake_is_told_and_changes_nothing(line, message, magic, capsys):
    magic(line)
    assert message in capsys.readouterr().err
    assert npu_precision.active_options() is None
