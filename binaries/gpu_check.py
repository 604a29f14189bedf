"""Checks that a GPU gives correct, repeatable results, and how fast."""

from tff_pers.experiments import startup

main = startup.program(__name__, 'binaries.speed.gpu_check')
