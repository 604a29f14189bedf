"""Converts Python values to tensors, and tensors to Python values."""
