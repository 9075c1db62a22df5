"""zip(..., strict=True), which Python 3.7 does not have."""


def strict_zip(*iterables):
    """Like zip, for iterables that must have the same length."""
    columns = [list(iterable) for iterable in iterables]
    lengths = {len(column) for column in columns}
    assert len(lengths) <= 1, f"zipped iterables have lengths {sorted(lengths)}"
    return zip(*columns)
