"""The process interface, its inputs and randomness, interception, files."""
