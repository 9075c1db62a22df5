"""Training on many machines: agreement between workers of tf.distribute, and checks of servers."""
