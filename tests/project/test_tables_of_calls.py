"""The tables of docs/from-torch-amp.md and from-apex.md: each row of the right column runs."""

from __future__ import annotations

import pathlib
import re

import pytest
import tensorflow as tf
from support.tf_versions import needs_functions_by_default

import npu_precision
from npu_precision import amp
from npu_precision.amp import registered

ROOT = next(path for path in pathlib.Path(__file__).parents if (path / "setup.py").exists())
pytestmark = needs_functions_by_default


def rows(page):
    """The calls of each row: (theirs, ours), as code."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    cells = re.findall(r"^\| (`.*`) \| (`.*`) \|$", text, re.M)
    return [tuple("\n".join(re.findall(r"`(.+?)`", cell)) for cell in row) for row in cells]


def runnable(code):
    """The code of a row; a scope or a decorator gets a body."""
    last = code.splitlines()[-1]
    if last.endswith(":"):
        return f"{code}\n    ran = True"
    if last.startswith("@"):
        return f"{code}\ndef decorated(x):\n    return x\ndecorated(tf.constant(1.0))"
    return code


def net():
    return tf.keras.Sequential([tf.keras.Input([2]), tf.keras.layers.Dense(1)])


def new_models():
    """Models and optimizers for initialize(), which takes each optimizer only once."""
    optimizers = {name: tf.keras.optimizers.SGD(0.1) for name in ("optimizer", "opt_d", "opt_g")}
    return {"model": net(), "net_d": net(), "net_g": net(), **optimizers}


def names():
    """The objects that the rows use, by name."""
    weight = tf.Variable([1.0, 2.0])
    return {
        "tf": tf,
        "amp": amp,
        "npu_precision": npu_precision,
        **new_models(),
        "variables": [weight],
        "compute_loss": lambda: tf.reduce_sum(weight * weight),
    }


@pytest.mark.parametrize(("page", "least"), [("from-torch-amp.md", 18), ("from-apex.md", 25)])
def test_every_row_runs_in_order(page, least):
    table, namespace = rows(page), names()
    assert len(table) >= least
    try:
        for theirs, ours in table:
            if "initialize(" in ours:
                namespace.update(new_models())
            try:
                exec(runnable(ours), namespace)
            except Exception as error:
                pytest.fail(f"{page}: {theirs!r}: {ours!r}: {type(error).__name__}: {error}")
    finally:
        registered.forget_all()
        npu_precision.disable()


def test_steps_of_the_tables_train():
    namespace = names()
    weight = namespace["variables"][0]
    for _, ours in rows("from-torch-amp.md"):
        exec(runnable(ours), namespace)
    npu_precision.disable()
    assert bool(namespace["made"])
    assert weight.numpy()[0] < 1.0
