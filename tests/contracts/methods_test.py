"""Every registered method keeps its promises, on one tiny task.

A method is a row here by its registration alone.
"""

from tests.contracts import alike
from tests.contracts.golden import test_all_methods_have_recorded_values
from tests.contracts.golden import test_rounds_give_the_recorded_values
from tff_pers.config import methods
from tff_pers.testing import tiny  # pylint: disable=unused-import
from tff_pers.testing.contracts import case
from tff_pers.testing.contracts import pytest_generate_tests
from tff_pers.testing.method_contract import *

METHODS = alike.slow_if_alike(methods.names())
