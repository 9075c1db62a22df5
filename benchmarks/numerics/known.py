"""The programs that our modes are known to break, with the modes and the cause.

A test fails if a mode breaks any other program. Remove a program from the list when it is fixed.
"""

BROKEN: dict[str, tuple[str, ...]] = {
    # The sum of scores and -10000 is lowered: the low types have steps of 64 and 8, which hide
    # the differences between scores in a row of padding only.
    "attention, mask + -10000": ("bf16", "fp16"),
    # The products of tf.linalg.expm have coefficients up to 6e16; cube_fp16in_fp32out fails too.
    "expm of a product": ("fp16",),
    # The sum 1 + z/2 is lowered, and then raised to the sixth power as terms that cancel.
    "polynomial of 6th degree of a product": ("bf16", "fp16"),
    # y * x is lowered, and larger than 65504.
    "Poisson log-likelihood of large counts": ("fp16",),
    # Chaotic: the loss collapses to its margin, and keeping any one product, be it a gradient's,
    # prevents it.
    "triplet loss, hardest by + 1e6": ("bf16",),
    # Squared distances as squares minus a product: near points come out at distance zero, or far.
    "squared distances as x²+y²-2xy, square root with 1e-12": ("fp16",),
    # Only keeping the products cures it; likely 1 / (product of exp(-cost) + 1e-9) overflows.
    "Sinkhorn distance": ("fp16",),
    # Coordinates up to 640 are lowered, where bfloat16 has steps of 4 and float16 of 0.5.
    "boxes of a detector in pixels, IoU of neighbours": ("bf16", "fp16"),
    # The product of 300 * z by itself does not fit into a float16.
    "a product of large products, scaled later": ("fp16",),
    # Softmax is a magnifier here: 0.01 divides what the lowered Sigmoid rounded.
    "softmax with a temperature of 0.01": ("bf16", "fp16"),
    # acos is steep at 1, where the product of a unit vector by itself is.
    "acos of a cosine of unit vectors, in degrees": ("fp16",),
    # On some CPUs the float16 kernel of the product adds 1024 terms in float16. These runs ask for
    # it with float16_compute="native".
    "Gram matrices of features, style loss": ("fp16",),
}
