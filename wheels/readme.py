"""Follows the README: runs its scripts and commands in their order, as a reader pastes them.

tests/project/test_examples.py runs it with the sources, and try_out.py with an installed wheel.
"""

from __future__ import annotations

import pathlib
import re
import shlex
from collections.abc import Callable

import numpy as np
import tensorflow as tf

README = pathlib.Path(__file__).resolve().parents[1] / "README.md"
HAS_KERAS_2 = hasattr(tf.compat.v1.keras.backend, "set_session")
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)
_COMMAND = re.compile(r"^    npu-precision (.*)$|`npu-precision (report .*?)`", re.M)


def follow(
    folder: pathlib.Path,
    run_code: Callable[[str], object],
    run_command: Callable[[list[str]], str],
) -> None:
    """Runs all that the README shows and this TensorFlow can run.

    Args:
        folder: an empty folder, in which the two functions run what they are given.
        run_code: runs a script.
        run_command: runs npu-precision with arguments; returns what it prints.

    Raises:
        AssertionError: something differs from what the README says.
        Exception: of the two functions, if something fails.
    """
    page = README.read_text(encoding="utf-8")
    blocks = _BLOCK.findall(page)
    keras, session = (text for kind, text in blocks if kind == "python")
    (mixlist,) = (text for kind, text in blocks if kind == "json")
    (folder / "mixlist.json").write_text(mixlist)
    run_code(_for_this_tensorflow(keras))
    run_code(session)
    commands = ["".join(each) for each in _COMMAND.findall(page)]
    assert len(commands) >= 9, commands
    for command in commands:
        run_command(shlex.split(command, comments=True))
    _check_kept_layer(page, folder, run_command)
    _check_loaded(page, folder)


def _for_this_tensorflow(script: str) -> str:
    """The script, changed as the README says for older versions."""
    (line,) = re.finditer(r"model\.export\(.*# Before TensorFlow ([\d.]+): (.*)", script)
    first, this = (tuple(map(int, version.split(".")[:2])) for version in (line[1], tf.__version__))
    return script.replace(line[0], line[2]) if this < first else script


def _check_kept_layer(
    page: str, folder: pathlib.Path, run_command: Callable[[list[str]], str]
) -> None:
    """The mixlist that the README shows in a line keeps the layer that it names."""
    (mixlist,) = re.findall(r"`modify_mixlist=(\{.*?\})` to `enable`", page)
    (folder / "keep.json").write_text(mixlist)
    flags = ["--mode", "allow_mix_precision_bf16", "--mixlist", "keep.json"]
    told = run_command(["explain", "model", *flags, "--node", "/MatMul$"])
    decisions = dict(re.findall(r"/([a-z]+)\w*/MatMul .*\(MatMul\): (\w+)", told))
    assert decisions == {"hidden": "lowered", "logits": "kept"}, told
    assert "on the black list (keep.json" in told, told


def _check_loaded(page: str, folder: pathlib.Path) -> None:
    """A converted model is loaded as the README says, and computes."""
    images = tf.constant(np.load(str(folder / "inputs.npz"))["inputs"][:4])
    expressions = re.findall(r'`(tf\.\S+\("model_bf16".*?)`', page)
    assert len(expressions) == 2, expressions
    for expression in expressions:
        if HAS_KERAS_2 and "TFSMLayer" in expression:
            continue
        loaded = eval(expression.replace('"model_bf16"', repr(str(folder / "model_bf16"))))
        # Up to TensorFlow 2.6, a signature does not keep the variables of its model.
        run = loaded.signatures["serving_default"] if hasattr(loaded, "signatures") else loaded
        (logits,) = run(images).values()
        assert logits.shape == (4, 10), logits
