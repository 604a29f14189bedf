"""Local-update methods: Theta, gamma, alpha and a server optimizer."""

from tff_pers.algorithms.local_update.local_update import build_local_update
from tff_pers.algorithms.local_update.local_update import compose
from tff_pers.algorithms.local_update.local_update import compose_averaging
from tff_pers.algorithms.local_update.local_update_hyperparameters import (
    LocalUpdateHyperparameters,
)
