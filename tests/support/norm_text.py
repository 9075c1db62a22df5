"""The text of a batch norm's vectors, as Keras 3 computes them from its variables."""

STATISTICS = """
    gamma = Placeholder(shape=8)
    beta = Placeholder(shape=8)
    mean = Placeholder(shape=8)
    variance = Placeholder(shape=8)
    epsilon = Const(value=0.001)
    squared = Square(variance)
    guarded = AddV2(squared, epsilon)
    inverse = Rsqrt(guarded)
    scale = Mul(inverse, gamma)
    moved = Mul(mean, scale)
    shift = Sub(beta, moved)
"""
