"""Compares variants of methods, each tuned over a grid on validation data."""

from tff_pers.experiments import startup

main = startup.program(__name__, 'tff_pers.experiments.tuned_sweep')
