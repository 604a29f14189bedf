"""Variable-free functional models."""

from tff_pers.models.functional import FunctionalModel
from tff_pers.models.keras import from_keras
from tff_pers.models.tff_models import from_tff_functional_model
from tff_pers.models.tff_models import to_tff_functional_model
