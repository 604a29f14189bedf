"""FLoRAL and its ablations: `binaries.benchmark floral`."""

from tff_pers.experiments import startup

main = startup.program(__name__, 'tff_pers.experiments.benchmark_runs')
