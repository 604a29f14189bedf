"""The battery for tasks, on tasks of this project that need no files."""

from tff_pers.testing import tiny  # pylint: disable=unused-import
from tff_pers.testing.contracts import pytest_generate_tests
from tff_pers.testing.task_contract import *

# One of each kind: labels, numbers, cohorts. `pairs_test` has all pairs.
TASKS = ('digits', 'floral_linear', 'synthetic_groups')
METHODS = ('fedavg', 'oracle_groups')
