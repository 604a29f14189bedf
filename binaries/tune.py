"""Tunes the hyperparameters of methods with equal effort for each."""

from tff_pers.experiments import startup

main = startup.program(__name__, 'tff_pers.experiments.search')
