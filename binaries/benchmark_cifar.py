"""Colour images: `binaries.benchmark cifar`."""

from tff_pers.experiments import startup

main = startup.program(__name__, 'tff_pers.experiments.benchmark_runs')
