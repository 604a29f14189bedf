"""Sweeps the split of a partially private model."""

from tff_pers.experiments import startup

main = startup.program(__name__, 'tff_pers.experiments.splits')
