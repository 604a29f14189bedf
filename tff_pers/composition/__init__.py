"""Composes methods from plain TensorFlow functions."""

from tff_pers.composition.composer import Aggregator
from tff_pers.composition.composer import Choosing
from tff_pers.composition.composer import compose
from tff_pers.composition.composer import Deployed
from tff_pers.composition.composer import Tier
