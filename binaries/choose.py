"""Recommends a method for your clients and shows whom it would hurt."""

from tff_pers.experiments import startup

main = startup.program(__name__, 'tff_pers.experiments.choice')
