"""Checks orderings of methods in a finished comparison."""

from tff_pers.experiments import startup

main = startup.program(__name__, 'tff_pers.experiments.orderings')
