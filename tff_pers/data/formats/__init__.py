"""Files in which others publish federated data, as records by client."""
