"""What it costs a server to collect messages instead of summing them."""

from tff_pers.experiments import startup

main = startup.program(__name__, 'binaries.speed.collecting')
