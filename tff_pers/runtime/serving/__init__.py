"""What a worker's program and its driver agree on: TLS, leases, the relay."""
