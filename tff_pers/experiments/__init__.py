"""What programs share: an experiment, one run in its folder, many, a search."""
