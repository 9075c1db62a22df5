"""Helpers for the makers of all kinds of ops."""

from support.graph_builder import UnfitError


def registrar(makers):
    """A decorator that enters a maker into a table by its name."""

    def register(function):
        makers[function.__name__] = function
        return function

    return register


def fit(condition):
    """Raises UnfitError if the condition does not hold for the operands of an op."""
    if not condition:
        raise UnfitError


def around_zero(bound):
    """The interval of values whose magnitude is at most a bound."""
    return -bound, bound


def hull(*tensors):
    """The interval of all tensors' values."""
    return min(tensor.low for tensor in tensors), max(tensor.high for tensor in tensors)
