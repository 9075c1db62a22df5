"""Finds a mixlist: the fewest nodes to keep in float32 so that a model stays accurate."""
