"""Reports what methods cost on a model, or what runs cost to an accuracy."""

from tff_pers.experiments import startup

main = startup.program(__name__, 'tff_pers.experiments.method_costs')
