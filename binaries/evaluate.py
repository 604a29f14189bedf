"""Evaluates a run on other data, or on clients that it has never seen."""

from tff_pers.experiments import startup

main = startup.program(__name__, 'tff_pers.experiments.reload_run')
