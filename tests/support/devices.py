"""For which devices graphs are converted: those of this machine, or others."""

from __future__ import annotations

import contextlib

from npu_precision._tf_compat import graphs


@contextlib.contextmanager
def decided_for(names):
    """Context in which graphs are converted for these devices."""
    before = graphs._device_names
    graphs._device_names = lambda: names
    try:
        yield
    finally:
        graphs._device_names = before
