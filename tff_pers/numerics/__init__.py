"""Computations of methods on tensors, without federated types."""
