"""PERM against other methods: `binaries.benchmark perm`."""

from tff_pers.experiments import startup

main = startup.program(__name__, 'tff_pers.experiments.benchmark_runs')
