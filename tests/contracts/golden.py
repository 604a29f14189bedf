"""Three rounds of every method give the values that the repository holds.

    .venv/bin/python -m tests.contracts.golden   # Writes them again.

They are rounded, for other machines add in another order; `tools/golden.py`
compares two commits bit by bit. A change of a value is noted in CHANGELOG.
"""

import json
import pathlib

import numpy as np
import tree

from tff_pers.config import methods
from tff_pers.testing import rounds

FILE = pathlib.Path(__file__).with_name('golden.json')
RECORDED = json.loads(FILE.read_text(encoding='utf-8')) if FILE.exists() else {}
# More numbers than these are held as their root mean square and a wave of them.
_MOST = 8


def values(case: rounds.Case) -> dict:
  """Returns numbers of the last state, clients and evaluation, by their names."""
  last = case.snapshots[-1]
  found = dict(
      server=last.state, clients=last.clients,
      evaluation=rounds.evaluate(case, last),
  )
  return {
      '/'.join(map(str, path)): _summary(np.asarray(leaf, np.float64).ravel())
      for path, leaf in tree.flatten_with_path(found)
  }


def _summary(array):
  if array.size > _MOST:
    # Neither order nor sign goes lost.
    wave = np.cos(1.0 + np.arange(array.size) ** 1.5)
    array = [np.sqrt(np.mean(np.square(array))), np.mean(array * wave)]
  return [float(f'{x:.7g}') for x in array]


def test_all_methods_have_recorded_values():
  assert sorted(RECORDED) == methods.names()


def test_rounds_give_the_recorded_values(case):
  found, recorded = values(case), RECORDED[case.name]
  assert sorted(found) == sorted(recorded)
  for key, expected in recorded.items():
    # A wave may be a small difference of large numbers.
    size = np.max(np.abs(expected), initial=1e-3)
    atol = 1e-5 * size
    if 'accuracy' in key or 'is_close' in key:
      atol = 1.01 / 3  # An example of the client that has the fewest.
    np.testing.assert_allclose(found[key], expected, rtol=1e-5, atol=atol)


if __name__ == '__main__':
  from tff_pers.runtime import fused  # pylint: disable=g-import-not-at-top
  fused.use(strategy='loop')
  lines = [
      json.dumps(name) + ': {\n' + ',\n'.join(
          f'  {json.dumps(key)}: {json.dumps(numbers)}'
          for key, numbers in values(rounds.case(name, {})).items()
      ) + '\n}' for name in methods.names()
  ]
  FILE.write_text('{\n' + ',\n'.join(lines) + '\n}\n', encoding='utf-8')
