"""Hyperparameters, methods, settings for tasks, and search spaces."""
