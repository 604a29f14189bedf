"""Personalized federated learning on TensorFlow Federated."""
