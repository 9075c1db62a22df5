"""Compares the results of small programs in each mode with float32's: `make numerics`."""
