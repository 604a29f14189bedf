"""TensorFlow graphs of TFF computations."""
