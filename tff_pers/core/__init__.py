"""The one interface, its inputs and randomness, the seam for extras, files."""
