"""The method families; importing this package registers them."""

from tff_pers.algorithms.floral import build_floral
from tff_pers.algorithms.floral import build_floral_client_work
from tff_pers.algorithms.perm import build_perm
from tff_pers.algorithms.shuffling import build_shuffling
