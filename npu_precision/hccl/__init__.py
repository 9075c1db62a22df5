"""Ascend's collective communication API over TensorFlow's collectives."""

# Imported first: its error says what to install if TensorFlow is missing.
from npu_precision import _library as _library
