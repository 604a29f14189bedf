"""Local update methods: `binaries.benchmark local_updates`."""

from tff_pers.experiments import startup

main = startup.program(__name__, 'tff_pers.experiments.benchmark_runs')
