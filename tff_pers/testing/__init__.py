"""Contract batteries for methods and tasks, also those of other packages.

They need pytest (the extra `test`). See `contracts`.
"""

import pytest

# Otherwise a failure shows `assert False`, not the compared values.
pytest.register_assert_rewrite(
    'tff_pers.testing.method_contract', 'tff_pers.testing.registry_contract',
    'tff_pers.testing.rounds', 'tff_pers.testing.task_contract',
)
