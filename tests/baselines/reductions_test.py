"""What methods are when their own part is off: baselines B1 and B2.

On minibatches of the tiny task, with cohorts of two of its five clients.
"""

import pytest
import tensorflow as tf

from tests.baselines import rounds

# By name, what turns the method's own part off.
_FEDAVG = {
    'apfl': {},
    'ditto': dict(lambda_=1.0),
    'ensemble': dict(num_models=1),
    'fedala': dict(layers=0),
    'fedavg_finetuned': dict(select='validation', max_epochs=3),
    'fedem': dict(num_models=1),
    'fedrolex': dict(tiers='1'),
    'fjord': dict(tiers='1'),
    'heterofl': dict(tiers='1', scaler='on'),
    'ifca': dict(num_models=1),
    'knn_per': {},
    'splitmix': dict(tiers='1'),
}
# The same but for the order of sums; also options of both.
_NEARLY_FEDAVG = {
    'fedavgm': (dict(beta=0.0), {}),
    'fedprox': (dict(mu=5.0), dict(local_steps=1)),  # The first u is w.
    'fjord': (dict(tiers='1', distill=True), {}),
    'mime_lite': (dict(beta=0.0), {}),
    # Full batches: the gradient at w is that of the meta-step without a step.
    'perfedavg': (dict(a=0.0), dict(batch_size=7, learning_rate=0.2)),
}


def _models(states):
  """Returns the server's model after each round, the first of a table."""
  return [
      tf.nest.map_structure(lambda table: table[0], state['models'])
      if 'models' in state else state['weights'] for state in states
  ]


@pytest.mark.parametrize('name', _FEDAVG)
def test_it_is_fedavg_bit_for_bit(name):
  rounds.assert_identical(
      _models(rounds.run(name, **_FEDAVG[name])[1]),
      _models(rounds.run('fedavg')[1]),
  )


@pytest.mark.parametrize('name', _NEARLY_FEDAVG)
def test_it_is_fedavg(name):
  own, options = _NEARLY_FEDAVG[name]
  rounds.assert_close(
      _models(rounds.run(name, **own, **options)[1]),
      _models(rounds.run('fedavg', **options)[1]),
  )


@pytest.mark.parametrize('name, own, kept', [
    ('apfl', dict(alpha0=1.0, adaptive=False), lambda state: state['weights']),
    ('ditto', dict(lambda_=0.0), lambda state: state),
    ('fedamp', dict(lambda_=0.0), lambda state: state),
], ids=['apfl', 'ditto', 'fedamp'])
def test_it_is_local_training_bit_for_bit(name, own, kept):
  process, states, clients, _ = rounds.run(name, **own)
  _, _, expected, _ = rounds.run('local_only')
  assert set(clients) == set(expected) == {0, 1, 2, 3}
  for i, state in clients.items():
    rounds.assert_identical(kept(state), expected[i])
    rounds.assert_identical(
        process.client_model(states[-1], state, i), expected[i]
    )
