"""Compares the runtimes to each other and to hand-written TensorFlow."""

from tff_pers.experiments import startup

main = startup.program(__name__, 'binaries.speed.runtime')
