"""Precision modes for programs that nobody edits: from the command line or the environment."""
