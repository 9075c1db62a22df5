"""Examines an installation: its facts, the cost of each mode, and findings with their fixes."""
