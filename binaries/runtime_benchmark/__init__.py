"""Programs that look into the rounds of `binaries.benchmark_runtime`."""

import binaries.speed  # Silences TensorFlow.
