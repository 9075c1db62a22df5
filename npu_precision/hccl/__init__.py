"""Ascend's collective communication, by the names of its scripts, over TensorFlow's collectives."""

# First of all, since it says what to do where there is no TensorFlow.
from npu_precision import _library as _library
