"""Checks the defaults of PERM and FLoRAL on data they were not tuned on."""

from tff_pers.experiments import startup

main = startup.program(__name__, 'tff_pers.experiments.default_claims')
