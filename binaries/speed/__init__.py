"""Benchmarks of speed."""

import os

# TensorFlow reads this when it is imported, which modules of this package do.
os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
