"""npu_bridge's npu_plugin: functions that initialize and shut down an NPU; all inert here."""

from __future__ import annotations

from typing import Any

from npu_precision import _errors, _no_effect


def npu_resource_init(*args: Any, **kwargs: Any) -> None:
    """Does nothing: on one host there is nothing to initialise.

    Source: npu_bridge's npu_plugin.npu_resource_init.
    """
    del args, kwargs
    _no_effect.name_once("npu_plugin.npu_resource_init")


def npu_resource_shutdown() -> None:
    """Does nothing; see npu_resource_init.

    Source: npu_bridge's npu_plugin.npu_resource_shutdown.
    """


def npu_close() -> None:
    """Does nothing; see npu_resource_init.

    Source: npu_bridge's npu_plugin.npu_close.
    """


def rdma_remote_register(*args: Any, **kwargs: Any) -> None:
    """Does nothing: there is no memory of an NPU to share.

    Source: npu_bridge's npu_plugin.rdma_remote_register.
    """
    del args, kwargs
    _no_effect.name_once("npu_plugin.rdma_remote_register")


def set_device_sat_mode(mode: int) -> None:
    """Has no effect, as the log says: the option `overflow` sets it for each session.

    Args:
        mode: 0, overflow gives the largest number; 1, an infinity or NaN.

    Raises:
        ValueError: another mode.

    Source: npu_bridge's npu_plugin.set_device_sat_mode(mode).
    """
    if mode not in (0, 1):
        raise ValueError(f"mode: got {_errors.got(mode)}, expected 0 or 1")
    _no_effect.name_once("npu_plugin.set_device_sat_mode")
