"""PrecisionGuard: training that survives a value which does not fit its type."""
