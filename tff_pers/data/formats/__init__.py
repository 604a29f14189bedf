"""Reads published files of federated data as records by client."""
