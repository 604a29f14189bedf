"""Example programs to read and copy."""
