"""FedHM: devices of different capacity train factors of one model."""

from tff_pers.algorithms.fedhm.fedhm import build_fedhm
from tff_pers.algorithms.fedhm.fedhm import tier_weights
from tff_pers.algorithms.fedhm.fedhm_hyperparameters import FedHMHyperparameters
