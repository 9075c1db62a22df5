"""Notes the loss and the gradients of a Keras model while its train_step is traced."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from npu_precision import _tf_compat


@contextlib.contextmanager
def losses(model: Any, noted: list[Any]) -> Iterator[None]:
    """Notes the results of the model's compute_loss in the context, if it has the method."""
    original = getattr(model, "compute_loss", None)
    if original is None:
        yield
        return

    def compute_loss(*args: Any, **kwargs: Any) -> Any:
        noted.append(_tf_compat.converted(original)(*args, **kwargs))
        return noted[-1]

    model.compute_loss = compute_loss
    try:
        yield
    finally:
        del model.compute_loss


@contextlib.contextmanager
def gradients(optimizer: Any, noted: list[tuple[Any, Any]]) -> Iterator[None]:
    """Notes the pairs of gradients and variables that the optimizer applies in the context."""
    original = optimizer.apply_gradients

    def apply_gradients(grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        pairs = list(grads_and_vars)
        noted.extend(pair for pair in pairs if pair[0] is not None)
        return _tf_compat.converted(original)(pairs, *args, **kwargs)

    optimizer.apply_gradients = apply_gradients
    try:
        yield
    finally:
        del optimizer.apply_gradients
