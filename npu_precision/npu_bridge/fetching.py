"""Reads the fetches of a session.run: a flat list, and the names of ops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf


def one_by_one(fetches: Any) -> Iterator[Any]:
    """Yields the fetches in a structure.

    tf.nest would sort keys, and those of tf.train's hooks have no order.
    """
    if isinstance(fetches, Mapping):
        fetches = list(fetches.values())
    if isinstance(fetches, (list, tuple)):
        for each in fetches:
            yield from one_by_one(each)
    else:
        yield fetches


def names(fetches: Any) -> tuple[str, ...]:
    """The names of the fetched ops, or of all fetches if there are no ops.

    The names of ops identify training steps: besides the training op, hooks fetch tensors, which
    differ from step to step.
    """
    all_of_them = list(one_by_one(fetches))
    ops = [each for each in all_of_them if isinstance(each, tf.Operation)]
    return tuple(sorted({getattr(each, "name", str(each)) for each in ops or all_of_them}))
