"""FLoRAL: a shared base, low-rank adaptors, and a router per client."""

from tff_pers.algorithms.floral.floral import build_floral
from tff_pers.algorithms.floral.floral import build_floral_client_work
from tff_pers.algorithms.floral.floral_hyperparameters import (
    FloralHyperparameters,
)
