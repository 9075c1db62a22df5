"""Chooses the dtype that autocast() and enable() lower to if no precision mode sets it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from npu_precision import _device_types, _errors, _library, _tf_compat
from npu_precision.options import PrecisionOptions, check_arguments
from npu_precision.options import resolve as resolve_options

_LOGGER = logging.getLogger("npu_precision")

# The mixed mode of each low type.
MODES = {tf.as_dtype(d): mode for d, mode in _library.describe()["mixed_mode_of"].items()}
MODE_FIELDS = ("precision_mode", "precision_mode_v2")


def dtype_or_none(value: Any) -> tf.DType | None:
    """A tf.DType, a numpy dtype or a name as a tf.DType; None if it is none of these."""
    try:
        return tf.as_dtype(value)
    except TypeError:
        return None


def parse(dtype: Any) -> tf.DType:
    """A low type, given as a tf.DType, a numpy dtype or a name.

    Raises:
        ValueError: it is no low type.
    """
    parsed = dtype_or_none(dtype)
    if parsed not in MODES:
        raise ValueError(f"dtype: got {_errors.got(dtype)}, expected 'bfloat16' or 'float16'")
    return parsed


def for_device(device_type: str | None) -> tf.DType:
    """bfloat16 on a CPU, float16 on a GPU or an NPU; None is the device that TensorFlow uses here.

    Raises:
        ValueError: an unknown device type.
    """
    if device_type is None:
        device_type = "gpu" if _tf_compat.has_gpu() else "cpu"
    _device_types.check("device_type", device_type)
    return tf.bfloat16 if device_type == "cpu" else tf.float16


def resolve(
    caller: str,
    options: PrecisionOptions | None,
    fields: Mapping[str, Any],
    low_type: tf.DType | None = None,
) -> PrecisionOptions:
    """Resolves the options of a call, and adds a mixed mode if they name no mode.

    Args:
        caller: the caller's name, for the log, which reports the choice if low_type is None.
        options: as for npu_precision.options.resolve().
        fields: as for npu_precision.options.resolve().
        low_type: the dtype to lower to; by default the one that suits the target and the device.

    Raises:
        TypeError, ValueError: as npu_precision.options.resolve().
    """
    check_arguments(options, fields)
    given = {**(options.to_dict() if options else {}), **fields}
    has_mode = any(given.get(name) is not None for name in MODE_FIELDS)
    if has_mode or given.get("autocast_only"):
        return resolve_options(options, fields)
    chosen = {}
    if low_type is None:
        # An Ascend 910 computes in float16.
        low_type = for_device(None if given.get("target") in (None, "host") else "npu")
        _LOGGER.info("%s lowers to %s, because no mode was given", caller, low_type.name)
        if low_type == tf.bfloat16 and given.get("lower_compiled") is None:
            chosen["lower_compiled"] = False  # XLA is slower in bfloat16 on a CPU.
    chosen["precision_mode"] = MODES[low_type]
    return resolve_options(options, {**fields, **chosen})


def of_mode(options: PrecisionOptions) -> tf.DType | None:
    """The dtype that the options' mode lowers to, if it is a mixed mode."""
    mode = options.precision_mode or options.precision_mode_v2
    low_type = _library.describe()["mixed_modes"].get(mode)
    return None if low_type is None else tf.as_dtype(low_type)
