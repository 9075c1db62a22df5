"""Measures the effect of a precision: runs a model in two precisions and compares them."""
