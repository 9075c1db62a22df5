"""Trains a model in float32 and in a precision mode, and compares the curves."""
