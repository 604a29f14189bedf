"""Measures seconds per round of PERM and of what it is compared with."""

from tff_pers.experiments import startup

main = startup.program(__name__, 'binaries.speed.round')
