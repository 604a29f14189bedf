"""Trains one method on one task with one seed."""

from tff_pers.experiments import startup

main = startup.program(__name__, 'tff_pers.experiments.runner')
