"""How TensorFlow is made to run the optimizer: in sessions, and in tf.function and Keras."""
