"""npu_device's top-level functions: options, the device, and settings of a run."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from collections.abc import Iterator
from types import TracebackType
from typing import Any

from npu_precision import _errors, _no_effect, _tf_compat
from npu_precision.hccl import eager_cluster
from npu_precision.npu_device.device_options import DeviceOptions
from npu_precision.options import PrecisionOptions
from npu_precision.session import functions

_LOGGER = logging.getLogger("npu_precision")
_OVERFLOWS = {0: "saturate", 1: "inf"}

_options = DeviceOptions()
# The last mode of set_device_sat_mode(), as a value of the option `overflow`.
_overflow: str | None = None
# The default device.
_default: NpuDevice | None = None


def global_options() -> DeviceOptions:
    """Returns the options that open() reads; each call returns the same object.

    Its attributes are npu_device's options, some of them in groups such as dump_config, and the
    fields of npu_precision.PrecisionOptions. Another name is an AttributeError.

    Source: npu_device's global_options().
    """
    return _options


def open(device_id: int | None = None) -> NpuDevice:
    """Reads global_options(), and connects this process to the other ranks, if there are any.

    Args:
        device_id: the number of an NPU; accepted, and without effect.

    Returns:
        The device; its as_default() puts the options in force.

    Raises:
        ValueError: a wrong option.
        RuntimeError: the other ranks cannot be reached.

    Source: npu_device's open(device_id=None).
    """
    del device_id
    device = NpuDevice(_options.read())
    if _tf_compat.functions_run_eagerly():
        eager_cluster.connect()
    return device


class NpuDevice:
    """The devices of TensorFlow, with the options that open() read.

    Attributes:
        options: the precision options.
    """

    def __init__(self, options: PrecisionOptions) -> None:
        self.options = options
        self._before: PrecisionOptions | None = None

    def as_default(self) -> NpuDevice:
        """Puts the options in force for every tf.function called from now on, as enable() does.

        Call it alone or in a `with` statement, which restores the previous options at its end.

        Raises:
            RuntimeError: eager execution is disabled: sessions take options by npu_config_proto().
        """
        global _default
        self._before = functions.enabled_options()
        functions.enable(_with_overflow(self.options))
        _default = self
        return self

    def __enter__(self) -> NpuDevice:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        global _default
        _default = None
        if self._before is None:
            functions.disable()
        else:
            functions.enable(self._before)


def set_device_sat_mode(mode: int) -> None:
    """Sets the result of float16 values that overflow, if an NPU is emulated.

    global_options().emulate emulates one. Without it the result is an infinity, and the log says
    so.

    Args:
        mode: 0 for 65504 of its sign, as on an Ascend 910; 1 for an infinity.

    Raises:
        ValueError: another mode; or 0, and the precision mode does not lower to float16.

    Source: npu_device's set_device_sat_mode(mode).
    """
    global _overflow
    if mode not in _OVERFLOWS:
        raise ValueError(f"mode: got {_errors.got(mode)}, expected 0 (saturation) or 1 (INF/NaN)")
    _overflow = _OVERFLOWS[mode]
    if _default is not None and functions.enabled_options() is not None:
        functions.enable(_with_overflow(_default.options))


def _with_overflow(options: PrecisionOptions) -> PrecisionOptions:
    if _overflow is None:
        return options
    if options.emulate:
        return dataclasses.replace(options, overflow=_overflow)
    if _overflow == "saturate":
        _LOGGER.warning(
            "npu_device.set_device_sat_mode(0): float16 that overflows becomes an infinity here; "
            "set npu_device.global_options().emulate = True before npu_device.open() to have it "
            "saturate"
        )
    return options


def set_npu_loop_size(loop_size: int) -> None:
    """Has no effect here, as the log says: a loop makes as many steps as the script says.

    On an NPU it is the number of iterations of a loop in a tf.function, or of the steps in a batch
    of Keras' steps_per_execution, that the NPU makes without asking the host.

    Raises:
        ValueError: loop_size is no integer, or less than 1.

    Source: npu_device's set_npu_loop_size(loop_size).
    """
    if isinstance(loop_size, bool) or not isinstance(loop_size, int) or loop_size < 1:
        raise ValueError(f"loop_size: got {_errors.got(loop_size)}, expected an integer from 1 on")
    if loop_size > 1:
        _no_effect.name_once("npu_device", ["set_npu_loop_size()"])


@contextlib.contextmanager
def npu_run_context(options: Any = None) -> Iterator[None]:
    """Scope in which tf.functions run with these options; has no effect here, as the log says.

    Args:
        options: those of npu_device.configs.run_context_options().

    Source: npu_device's npu_run_context(options).
    """
    del options
    _no_effect.name_once("npu_device", ["npu_run_context()"])
    yield
