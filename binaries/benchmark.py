"""Runs a benchmark: the comparisons that a file of benchmarks/ describes."""

from tff_pers.experiments import startup

main = startup.program(__name__, 'tff_pers.experiments.benchmark_runs')
