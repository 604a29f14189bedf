"""Measures memory and time with a large population read on demand."""

from tff_pers.experiments import startup

main = startup.program(__name__, 'binaries.speed.population')
