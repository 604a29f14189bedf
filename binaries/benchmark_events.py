"""Measures what simulating events costs, with few and with many clients."""

from tff_pers.experiments import startup

main = startup.program(__name__, 'binaries.speed.events')
