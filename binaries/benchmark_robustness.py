"""Compares robust rules under attacks, on generated systems and on MNIST."""

from tff_pers.experiments import startup

main = startup.program(__name__, 'tff_pers.experiments.robustness_page')
