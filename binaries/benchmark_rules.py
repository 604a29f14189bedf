"""Measures CPU seconds and memory of robust rules, beside NumPy's sort."""

from tff_pers.experiments import startup

main = startup.program(__name__, 'binaries.speed.rules')
