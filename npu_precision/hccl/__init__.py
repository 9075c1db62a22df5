"""Ascend's collective communication, by the names of its scripts, over TensorFlow's collectives."""
