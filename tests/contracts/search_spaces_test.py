"""Every registered method can be tuned: its search space is sound."""

from tff_pers.config import methods
from tff_pers.testing import tiny  # pylint: disable=unused-import
from tff_pers.testing.contracts import pytest_generate_tests
from tff_pers.testing.registry_contract import test_a_space_is_small_and_has_a_rate
from tff_pers.testing.registry_contract import test_every_sample_is_valid_and_acts

METHODS = methods.names()
