"""Personalization on real clients: `binaries.benchmark personalization`."""

from tff_pers.experiments import startup

main = startup.program(__name__, 'tff_pers.experiments.benchmark_runs')
