"""Tabulates robust rules against attacks, with a heat map."""

from tff_pers.experiments import startup

main = startup.program(__name__, 'tff_pers.experiments.robustness_table')
