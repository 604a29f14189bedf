"""Compares methods and their variants over seeds on one task."""

from tff_pers.experiments import startup

main = startup.program(__name__, 'tff_pers.experiments.sweep')
