"""npu_bridge's npu_scope: scopes about dtypes, and those that place ops on an NPU."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

from npu_precision.scope import keep_dtype_scope

__all__ = ["keep_dtype_scope", "npu_weight_prefetch_scope", "without_npu_compile_scope"]
_LOGGER = logging.getLogger("npu_precision")
_named: set[str] = set()


@contextlib.contextmanager
def without_npu_compile_scope() -> Iterator[None]:
    """Scope of ops that run on the host beside an NPU; here all do, and it has no effect.

    Source: npu_bridge's npu_scope.without_npu_compile_scope().
    """
    _name_once("without_npu_compile_scope")
    yield


@contextlib.contextmanager
def npu_weight_prefetch_scope(
    buffer_pool_id: int = 0, buffer_pool_size: int = 536870912
) -> Iterator[None]:
    """Scope of weights that an NPU fetches ahead; it has no effect here.

    Source: npu_bridge's npu_scope.npu_weight_prefetch_scope(buffer_pool_id, buffer_pool_size).
    """
    del buffer_pool_id, buffer_pool_size
    _name_once("npu_weight_prefetch_scope")
    yield


def _name_once(name: str) -> None:
    if name not in _named:
        _named.add(name)
        _LOGGER.warning("%s has no effect on stock TensorFlow", name)
