"""Measures the memory of PERM's model table: N models of d weights."""

from tff_pers.experiments import startup

main = startup.program(__name__, 'binaries.speed.memory')
