"""Contract batteries for methods and tasks, also those of other packages.

They need pytest (the extra `test`). See `contracts`.
"""

import pytest

# Else a failure says `assert False`, and not what was compared.
pytest.register_assert_rewrite(
    'tff_pers.testing.method_contract', 'tff_pers.testing.registry_contract',
    'tff_pers.testing.rounds', 'tff_pers.testing.task_contract',
)
