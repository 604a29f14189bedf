"""Compares a local step of each FedHM tier to one of the full model."""

from tff_pers.experiments import startup

main = startup.program(__name__, 'binaries.speed.tiers')
