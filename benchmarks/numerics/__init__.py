"""What the modes do to the numbers of small programs: `make numerics`."""
