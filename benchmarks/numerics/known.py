"""The programs that our modes are known to break, and which modes do. A test fails on any other."""

BROKEN: dict[str, tuple[str, ...]] = {}
