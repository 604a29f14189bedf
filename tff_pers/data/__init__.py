"""Clients' data: dense examples, files, partitions, splits, tasks."""
