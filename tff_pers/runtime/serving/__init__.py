"""The protocol between workers and drivers: TLS, leases, the relay."""
