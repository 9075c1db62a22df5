"""Finds mistakes in the lists that TensorFlow's auto_mixed_precision reads from the environment."""

from __future__ import annotations

import dataclasses
import pathlib
import tempfile

from npu_precision import tensorflow_lists
from npu_precision.explain import lint
from npu_precision.explain.lint import Finding
from npu_precision.offline.model_file import Model
from npu_precision.options import PrecisionOptions


def lint_environment(options: PrecisionOptions, model: Model | None = None) -> list[Finding]:
    """The findings about the lists, as about the mixlist that stands for them.

    Args:
        options: the mode and target.
        model: the model that they are for, or None.

    Raises:
        ValueError: the environment has no such lists, or they contradict one another; or the
            optimizer refuses options or model.
    """
    fields = tensorflow_lists.options_from()
    if not fields:
        raise ValueError(
            f"the environment has no lists: expected {tensorflow_lists.PREFIX}ALLOWLIST_ADD, or a "
            "similar variable"
        )
    text = fields.pop("mixlist_edits", "{}")
    given = dataclasses.replace(options, **fields)
    with tempfile.TemporaryDirectory(prefix="npu_precision_") as folder:
        file = pathlib.Path(folder, "lists.json")
        file.write_text(text, encoding="utf-8")
        found = lint.lint(str(file), text.encode(), given)
        if model is not None and all(each.severity != lint.ERROR for each in found):
            found += lint.lint_for_model(str(file), given, model)
    # Lines and columns are those of a file that nobody has seen.
    variables = tensorflow_lists.variables_by_op()

    def place(finding: Finding) -> str:
        named = (variables[op] for op in variables if f"'{op}'" in finding.text)
        return next(named, f"{tensorflow_lists.PREFIX}*")

    return [
        dataclasses.replace(each, edit=None, place=place(each))
        if each.place.startswith(str(file))
        else each
        for each in found
    ]
