"""Every method computes the same with rates as inputs as with constants.

A method is built and run once; then its numbers that are inputs change. The run
with the shared process must be, to the last bit, a run whose graphs hold the
new numbers as constants.
"""

import pytest

from tff_pers.config import methods
from tff_pers.experiments import processes
from tff_pers.experiments import sweep

# These read the examples themselves, which are others in every run.
NOT_SHARED = ('fedbuff',)
# Python divides by its numbers.
FIXED = ('l2gd',)


def _clients(variant, folder, model):
  """Returns the table of the clients of a run, as bytes."""
  sweep.run(
      [(variant, 0)], folder, task='digits', model=model, num_clients=4,
      rounds=2, eval_every=2,
  )
  path, = folder.glob('*/seed0/clients.csv')
  return path.read_bytes()


@pytest.mark.parametrize('algo', methods.names())
def test_inputs_give_the_bits_of_constants(algo, tmp_path, monkeypatch):
  monkeypatch.setattr(processes, '_last', None)
  model = 'mlp_bn' if algo == 'fedbn' else 'mlp_20'
  before = _clients(algo, tmp_path / 'before', model)
  last = processes._last  # pylint: disable=protected-access
  inputs = {
      name.rstrip('_'): number.value for name, number in last.numbers.items()
      if number.readers and not number.fixed
  }
  assert bool(inputs) == (algo not in FIXED)
  if algo in FIXED:
    return
  moved = ','.join(f'{name}={0.7 * value}' for name, value in inputs.items())
  shared = _clients(f'{algo}[{moved}]', tmp_path / 'shared', model)
  is_shared = processes._last.built is last.built  # pylint: disable=protected-access
  assert is_shared == (algo not in NOT_SHARED)
  monkeypatch.setattr(processes, '_floats', lambda *_: {})
  own = _clients(f'{algo}[{moved}]', tmp_path / 'own', model)
  assert shared == own != before
