"""What a session.run fetches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf


def one_by_one(fetches: Any) -> Iterator[Any]:
    """All that a structure of fetches holds.

    tf.nest sorts keys, and those of tf.train's hooks have no order.
    """
    if isinstance(fetches, Mapping):
        fetches = list(fetches.values())
    if isinstance(fetches, (list, tuple)):
        for each in fetches:
            yield from one_by_one(each)
    else:
        yield fetches


def names(fetches: Any) -> tuple[str, ...]:
    """The names of the ops that are fetched; of all that is fetched, if there are no ops.

    Those of ops tell training steps apart: hooks fetch tensors beside the op that trains, and not
    the same in every step.
    """
    all_of_them = list(one_by_one(fetches))
    ops = [each for each in all_of_them if isinstance(each, tf.Operation)]
    return tuple(sorted({getattr(each, "name", str(each)) for each in ops or all_of_them}))
