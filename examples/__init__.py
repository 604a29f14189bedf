"""Programs to read and to copy from."""
