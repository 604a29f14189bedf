"""Plots runs from their folders."""

from tff_pers.experiments import startup

main = startup.program(__name__, 'tff_pers.experiments.run_plots')
