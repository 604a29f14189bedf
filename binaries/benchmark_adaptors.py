"""Compares a local step of FLoRAL to one of the model without adaptors."""

from tff_pers.experiments import startup

main = startup.program(__name__, 'binaries.speed.adaptors')
