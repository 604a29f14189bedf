"""Python values as tensors, and tensors as Python values."""
