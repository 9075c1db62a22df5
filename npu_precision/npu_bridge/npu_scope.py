"""npu_bridge's npu_scope: scopes for dtypes, and scopes that place ops on an NPU."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from npu_precision import _no_effect
from npu_precision.scope import keep_dtype_scope

__all__ = [
    "keep_dtype_scope",
    "npu_scope",
    "npu_variable_scope",
    "npu_weight_prefetch_scope",
    "subgraph_multi_dims_scope",
    "without_npu_compile_scope",
]


@contextlib.contextmanager
def without_npu_compile_scope() -> Iterator[None]:
    """Scope of ops that run on the host beside an NPU; here all do, and it has no effect.

    Source: npu_bridge's npu_scope.without_npu_compile_scope().
    """
    _no_effect.name_once("without_npu_compile_scope")
    yield


@contextlib.contextmanager
def npu_weight_prefetch_scope(
    buffer_pool_id: int = 0, buffer_pool_size: int = 536870912
) -> Iterator[None]:
    """Scope of weights that an NPU fetches ahead; it has no effect here.

    Source: npu_bridge's npu_scope.npu_weight_prefetch_scope(buffer_pool_id, buffer_pool_size).
    """
    del buffer_pool_id, buffer_pool_size
    _no_effect.name_once("npu_weight_prefetch_scope")
    yield


@contextlib.contextmanager
def npu_scope(*args: Any, **kwargs: Any) -> Iterator[None]:
    """Scope of ops for one NPU of several; it has no effect here, whatever it is given.

    Source: npu_bridge's npu_scope.npu_scope.
    """
    del args, kwargs
    _no_effect.name_once("npu_scope")
    yield


@contextlib.contextmanager
def npu_variable_scope(placement: str = "host") -> Iterator[None]:
    """Scope that places variables on the host or on an NPU; it has no effect here.

    Source: npu_bridge's npu_scope.npu_variable_scope.
    """
    del placement
    _no_effect.name_once("npu_variable_scope")
    yield


@contextlib.contextmanager
def subgraph_multi_dims_scope(index: int) -> Iterator[None]:
    """Scope of ops that an NPU compiles for several shapes; it has no effect here.

    Source: npu_bridge's npu_scope.subgraph_multi_dims_scope(index).
    """
    del index
    _no_effect.name_once("subgraph_multi_dims_scope")
    yield
