"""Finds what does not fit in a DTypePolicyMap for a model: Keras itself says nothing of it."""

from __future__ import annotations

import contextlib
import difflib
import json
import pathlib
import re

from npu_precision.explain import keras_policies
from npu_precision.explain.lint import Finding


def is_map(data: bytes) -> bool:
    """Whether the content of a file is a DTypePolicyMap."""
    try:
        content = json.loads(data)
    except ValueError:
        return b'"DTypePolicyMap"' in data  # a damaged one
    return isinstance(content, dict) and content.get("class_name") == "DTypePolicyMap"


def lint(file: str, model_path: str) -> list[Finding]:
    """The findings about a DTypePolicyMap for a model.

    Args:
        file: the file of the map.
        model_path: a model in a file that Keras can load.

    Raises:
        OSError: a file cannot be read.
        ValueError: Keras cannot read the map or the model, or this is Keras 2.
    """
    keras = keras_policies.keras_3()
    try:
        content = json.loads(pathlib.Path(file).read_text(encoding="utf-8"))
        policies = keras.saving.deserialize_keras_object(content)
    except Exception as error:  # Keras has many.
        missing = "it has no " if isinstance(error, KeyError) else ""
        raise ValueError(f"{file!r}: Keras cannot read it: {missing}{error}") from error
    model = keras_policies.load(model_path)
    layers = [keras_policies.key(layer) for layer in model._flatten_layers()]
    found = []
    for name in policies:
        if any(_matches(name, layer) for layer in layers):
            continue
        near = difflib.get_close_matches(name, layers, 1)
        meant = f"; did you mean {near[0]!r}?" if near else ""
        text = f"{name!r} matches no layer of {model_path!r}{meant}"
        found.append(Finding("error", "unknown-layer", file, text))
    others = [layer for layer in layers if not any(_matches(name, layer) for name in policies)]
    if others:
        default = policies.default_policy.name
        text = f"{len(others)} layers, such as {others[0]!r}, have no policy in it: {default}"
        found.append(Finding("note", "default-policy", file, text))
    return found


def _matches(name: str, layer: str) -> bool:
    """Whether an entry is of a layer: by its key, or by a regular expression of it."""
    with contextlib.suppress(re.error):
        return name == layer or re.fullmatch(name, layer) is not None
    return False
