"""Reads the inputs for running a model: arrays from a file, or from the user's function."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Dict

import numpy as np

from npu_precision import _errors
from npu_precision.accuracy.frozen import Inputs

Feed = Dict[str, np.ndarray]


def from_npz(path: str, model: Inputs, batch_size: int | None = None) -> list[Feed]:
    """Feeds for a model, by tensor, from the arrays of an .npz file.

    Args:
        path: the file; its arrays have the names of the model's inputs.
        model: the model.
        batch_size: how many rows (along the first dimension) are one batch; None for all.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is no .npz file, or an array has a wrong name, shape, dtype or value.
    """
    with open(path, "rb") as file:
        try:
            if not zipfile.is_zipfile(file):
                raise ValueError("it is no zip archive")
            file.seek(0)
            with np.load(file, allow_pickle=False) as stored:
                arrays = {name: stored[name] for name in stored.files}
        except (zipfile.BadZipFile, ValueError, EOFError) as error:
            raise ValueError(
                f"{path!r} is no .npz file of arrays, as numpy.savez(path, name=array) writes: "
                f"{error}"
            ) from error
    feed = checked(arrays, model, path)
    if batch_size is None:
        return [feed]
    lengths = {name: len(value) if value.ndim else 0 for name, value in feed.items()}
    if len(set(lengths.values())) != 1 or not all(lengths.values()):
        counts = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise ValueError(f"{path!r} cannot be split into batches, expected as many rows: {counts}")
    rows = next(iter(lengths.values()), 0)
    return [
        {name: value[start : start + batch_size] for name, value in feed.items()}
        for start in range(0, rows, batch_size)
    ]


def from_function(name: str, model: Inputs, most: int | None = None) -> Iterator[Feed]:
    """Feeds for a model, from a function that yields mappings of arrays by input.

    Args:
        name: "module:function"; modules of the working directory can be imported.
        model: the model.
        most: how many batches to take; None for all.

    Raises:
        ValueError: there is no such function, it fails, or it yields something else.
    """
    function = load_function(name)
    batches = called(name, function)
    if isinstance(batches, Mapping) or not isinstance(batches, Iterable):
        raise ValueError(
            f"{name} returned {type(batches).__name__}, expected an iterable of mappings from the "
            f"names of inputs ({', '.join(model.inputs)}) to arrays"
        )
    return _checked_batches(name, batches, model, most)


def _checked_batches(
    name: str, batches: Iterable[Any], model: Inputs, most: int | None
) -> Iterator[Feed]:
    iterator, end = iter(batches), object()
    count = 0
    while most is None or count < most:
        batch = called(name, next, iterator, end)
        if batch is end:
            break
        if not isinstance(batch, Mapping):
            raise ValueError(
                f"{name} yielded {type(batch).__name__}, expected a mapping from the names of "
                f"inputs ({', '.join(model.inputs)}) to arrays"
            )
        yield checked(
            {
                key: called(f"{name}: input {key!r}", np.asarray, value)
                for key, value in batch.items()
            },
            model,
            name,
        )
        count += 1
    if count == 0:
        raise ValueError(f"{name} yielded nothing, expected at least one batch")


def load_function(name: str) -> Callable[..., Any]:
    """The function that "module:function" names.

    Raises:
        ValueError: there is none.
    """
    module_name, colon, function_name = name.partition(":")
    if not (module_name and colon and function_name):
        raise ValueError(f"got {name!r}, expected module:function")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise ValueError(
            f"module {module_name!r} of {name!r} cannot be imported: "
            f"{type(error).__name__}: {error}"
        ) from error
    function = getattr(module, function_name, None)
    if function is not None and not callable(function):
        raise ValueError(f"{name} is {type(function).__name__}, expected a function")
    if function is None:
        raise ValueError(
            f"module {module_name!r} has no function {function_name!r}"
            f"{_errors.did_you_mean(function_name, dir(module))}"
        )
    return function


def called(name: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls a function of the user's and returns its result; its output goes to stderr.

    Raises:
        ValueError: the function raises an exception.
    """
    try:
        with contextlib.redirect_stdout(sys.stderr):
            return function(*arguments)
    except Exception as error:
        raise ValueError(f"{name} raised {type(error).__name__}: {error}") from error


def checked(arrays: Mapping[str, np.ndarray], model: Inputs, source: str) -> Feed:
    """The arrays by tensor, converted to the dtypes of the model.

    Raises:
        ValueError: one is missing or unknown, or has a wrong shape, dtype or value.
    """
    by_name = dict(model.inputs)
    by_name.update({given.tensor: given for given in model.inputs.values()})
    feed = {}
    for name, array in arrays.items():
        if name not in by_name:
            raise ValueError(
                f"{source}: got an array {name!r}, but {_named(model)}"
                f"{_errors.did_you_mean(name, by_name)}"
            )
        given = by_name[name]
        if given.tensor in feed:
            raise ValueError(f"{source}: got {given.tensor!r} twice, by both of its names")
        feed[given.tensor] = _checked(name, array, given, source)
    for name, given in model.inputs.items():
        if given.required and given.tensor not in feed:
            raise ValueError(
                f"{source}: input {name!r} is missing, got {sorted(arrays)}; what is asked for "
                "needs it: --fetch asks for less"
            )
    return feed


def _named(model: Inputs) -> str:
    """The names of the model's inputs, as the end of a sentence."""
    names = ", ".join(map(repr, model.inputs))
    if not names:
        return "the model has no inputs"
    return f"the model's {'input is' if len(model.inputs) == 1 else 'inputs are'} {names}"


def _checked(name: str, array: np.ndarray, given: Any, source: str) -> np.ndarray:
    wanted = given.dtype.as_numpy_dtype
    if not given.shape.is_compatible_with(array.shape):
        raise ValueError(
            f"{source}: input {name!r}: got shape {array.shape}, expected {given.shape}"
        )
    if array.dtype != wanted and not np.can_cast(array.dtype, wanted, "same_kind"):
        raise ValueError(
            f"{source}: input {name!r}: got {array.dtype}, expected {given.dtype.name}"
        )
    given_array, array = array, array.astype(wanted)
    if array.dtype.kind in "iu" and not (array == given_array).all():
        raise ValueError(
            f"{source}: input {name!r}: got values of {given_array.dtype} that {given.dtype.name} "
            "cannot hold"
        )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        count = int(array.size - np.isfinite(array).sum())
        raise ValueError(
            f"{source}: input {name!r} has {count} values that are NaN or infinite, of "
            f"{array.size}; nothing can be compared with those"
        )
    return array
