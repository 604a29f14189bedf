"""Computes the trade-off between speed and accuracy of local updates."""

from tff_pers.experiments import startup

main = startup.program(__name__, 'tff_pers.experiments.pareto')
