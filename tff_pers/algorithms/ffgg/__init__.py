"""FFGG: fine-tune the private part, then one gradient for the global part."""

from tff_pers.algorithms.ffgg.ffgg import build_ffgg
from tff_pers.algorithms.ffgg.ffgg_hyperparameters import (
    AsyncFFGGHyperparameters,
)
from tff_pers.algorithms.ffgg.ffgg_hyperparameters import FFGGHyperparameters
from tff_pers.algorithms.ffgg.ffgg_hyperparameters import (
    LocalFFGGHyperparameters,
)
from tff_pers.algorithms.ffgg.local_ffgg import build_local_ffgg
