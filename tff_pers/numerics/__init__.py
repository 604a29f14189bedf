"""Tensors in, tensors out: what methods compute, without federated types."""
