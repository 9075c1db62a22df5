"""Examines an installation: what is there, what each mode costs, and what is wrong."""
