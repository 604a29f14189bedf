"""Predicts with the exported model of a client."""

from tff_pers.experiments import startup

main = startup.program(__name__, 'tff_pers.experiments.predictions')
