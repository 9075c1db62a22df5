"""The programs that our modes are known to break, with the modes and the cause.

A test fails if a mode breaks any other program. Remove a program from the list when it is fixed.
"""

BROKEN: dict[str, tuple[str, ...]] = {
    # The sum of scores and -10000 is lowered: the low types have steps of 64 and 8, which hide
    # the differences between scores in a row of padding only.
    "attention, mask + -10000": ("bf16", "fp16"),
    # The sum 1 + z/2 is lowered, and then raised to the sixth power as terms that cancel.
    "polynomial of 6th degree of a product": ("bf16", "fp16"),
    # y * x is lowered, and larger than 65504.
    "Poisson log-likelihood of large counts": ("fp16",),
    # Only keeping the products cures it; likely 1 / (product of exp(-cost) + 1e-9) overflows.
    "Sinkhorn distance": ("fp16",),
    # The product of 300 * z by itself does not fit into a float16.
    "a product of large products, scaled later": ("fp16",),
    # Softmax is a magnifier here: 0.01 divides what the lowered Sigmoid rounded.
    "softmax with a temperature of 0.01": ("bf16", "fp16"),
    # On some CPUs the float16 kernel of the product adds 1024 terms in float16. These runs ask for
    # it with float16_compute="native".
    "Gram matrices of features, style loss": ("fp16",),
    # Found by 400 programs of images, audio, geometry, graphs, recommendation, control and science.
    # Most are sums that are taken apart again, and products of few terms less a measurement.
    "CIELAB of a photo, a and b": ("bf16", "fp16"),
    "GCC-PHAT of sounds through a mixing matrix": ("bf16",),
    "ICP's residual: points turned and shifted, minus their partners": ("bf16", "fp16"),
    "LQR by 200 steps of Riccati's equation, the gain": ("bf16", "fp16"),
    "Laplacian of a photo": ("bf16", "fp16"),
    "Poisson editing, 300 Jacobi steps with a kernel of neighbours": ("bf16",),
    "Umeyama: scale, rotation, shift, what is left over": ("bf16", "fp16"),
    "a differentiable threshold of 50 (p - t)": ("bf16",),
    "a phase from a cumsum of 1 + 0.001 z, less the steps": ("bf16", "fp16"),
    "a supply of 12 V that ripples by 10 mV, its deviation": ("bf16", "fp16"),
    "an age from a year of birth: product of one-hot decades": ("bf16",),
    "angle between rotations, acos of (trace - 1) / 2": ("bf16", "fp16"),
    "assignment by a soft minimum of costs, 10 metres": ("bf16",),
    "background with a mean and a variance per pixel, Mahalanobis": ("bf16", "fp16"),
    "batch norm of a correction and an input around 1000": ("bf16", "fp16"),
    "batched NMS: class number times 4096 added to boxes, and taken away": ("bf16", "fp16"),
    "colour difference of a photo and its blur, CIE76": ("bf16", "fp16"),
    "covariance of a scan as E[xx'] - mean mean'": ("bf16", "fp16"),
    "dead reckoning: SE(2) composed 300 times, 3 x 3": ("bf16",),
    "dueling network: values of states from a product, the best action": ("bf16", "fp16"),
    "energy of a second of sound by an einsum with itself": ("fp16",),
    "gradient of a gate that is nearly open": ("bf16", "fp16"),
    "heights above a survey's mean height, squares of heights in a constant": ("bf16", "fp16"),
    "homogeneous transform of a city, 4 x 4, to the camera": ("bf16", "fp16"),
    "homography of four moved corners by solve, warped places minus their own": ("bf16", "fp16"),
    "homography's transfer error of matches in pixels of 4000": ("bf16", "fp16"),
    "inliers of a RANSAC: transfer error below 3 pixels, counted": ("bf16", "fp16"),
    "keypoints: softmax of 50 times a map, places by tf.range, stride 8, minus 640": ("bf16",),
    "lens distortion: pixels undone by k1 r² and k2 r⁴, minus the pixels": ("bf16", "fp16"),
    "lift over the mean rate, minus one": ("bf16", "fp16"),
    "mean of a voxel's points, distance of each to it": ("bf16", "fp16"),
    "moments of a segment with constants x² and y²": ("bf16", "fp16"),
    "normalised cross-correlation with a template by convolutions": ("bf16", "fp16"),
    "number of peaks: a heat map equals its 3 x 3 max pool and is above 0.3": ("bf16",),
    "pose of a scan by Adam: a rotation vector and a shift, trained": ("fp16",),
    "pre-emphasis of a bass, x - 0.97 of the sample before, by a convolution": ("bf16", "fp16"),
    "rays and spheres: the nearer root of a quadratic": ("bf16", "fp16"),
    "reprojection error of a camera of 1920 pixels": ("bf16", "fp16"),
    "return of a week, a product of 1 + return minus one": ("bf16", "fp16"),
    "reverberation: tf.scan of gains near one": ("bf16", "fp16"),
    "signed distance to planes, points inside a hull": ("bf16", "fp16"),
    "site energies of 300 and a correction, softmax": ("bf16", "fp16"),
    "spreads of returns in ragged rows, values around 5000": ("bf16", "fp16"),
    "stereo: disparity of rows, left-right check below one pixel": ("bf16",),
    "stretch: (1 + z / 100)² - 1, strain of Green": ("bf16", "fp16"),
    "the mean growth of 1 + 0.001 z, in basis points": ("bf16", "fp16"),
    "triangulation of two views by least squares": ("bf16",),
    "uplift: two towers that differ by a little": ("bf16", "fp16"),
    "variance in pools of a volume, AvgPool3D of x² minus the square": ("bf16",),
    "variance in time of a volume: Conv3D of x² minus the square": ("bf16", "fp16"),
    "weather: a state in its own units, its change in a step": ("bf16", "fp16"),
    "what a gate of nearly one leaves out": ("bf16", "fp16"),
    "wheel radius of 5 + z / 100, largest minus smallest": ("bf16", "fp16"),
}

# Those that break only if XLA compiles them.
COMPILED: dict[str, tuple[str, ...]] = {
    # XLA's own variance, the mean of squares less the square of the mean, is as far off in float32:
    # the mean is 1000 times the deviation.
    "batch norm of h + 1000": ("bf16", "fp16"),
    # The product is lowered, and XLA's is 0.53 % off where TensorFlow's kernel is 0.4 %.
    "ratio of two small probabilities": ("fp16",),
}
