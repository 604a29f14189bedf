"""Shows result folders as one HTML page."""

from tff_pers.experiments import startup

main = startup.program(__name__, 'tff_pers.experiments.report_file')
