"""PERM: mixing weights from distances, models that visit clients.

`perm.py` is the algorithm; the other files are its components and variants.
"""

from tff_pers.algorithms.perm.fixed_mixing import build_shuffling
from tff_pers.algorithms.perm.perm import build_perm
from tff_pers.algorithms.perm.perm_hyperparameters import PermHyperparameters
from tff_pers.algorithms.perm.visit_schedule import ShufflingHyperparameters
