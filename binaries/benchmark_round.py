"""Measures seconds per round and the share spent outside TensorFlow."""

from tff_pers.experiments import startup

main = startup.program(__name__, 'binaries.speed.round')
