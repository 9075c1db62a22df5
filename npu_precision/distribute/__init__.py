"""Training on many machines: what the workers of tf.distribute must know of one another."""
