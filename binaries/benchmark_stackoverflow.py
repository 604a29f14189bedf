"""Questions and answers by user: `binaries.benchmark stackoverflow`."""

from tff_pers.experiments import startup

main = startup.program(__name__, 'tff_pers.experiments.benchmark_runs')
