"""Devices of different capacity: `binaries.benchmark fedhm`."""

from tff_pers.experiments import startup

main = startup.program(__name__, 'tff_pers.experiments.benchmark_runs')
