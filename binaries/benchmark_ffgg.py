"""Reproduces Figure 1 of the partial personalization paper."""

from tff_pers.experiments import startup

main = startup.program(__name__, 'binaries.ffgg_benchmark.running')
