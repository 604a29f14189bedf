"""What methods are when their own part is off: baselines B1 and B2.

On minibatches of the tiny task, with cohorts of two of its five clients. With
`_STEP`, a line that takes part in a reduction with the wrong order of a step, or
without a part of it, fails as well.
"""

import pytest
import tensorflow as tf

from tests.baselines import rounds

_STEP = dict(
    momentum=0.9, weight_decay=0.2, clip_norm=0.4, learning_rate_decay=0.5,
    learning_rate_schedule='steps', learning_rate_rounds='1:2',
)
# By name, what turns the method's own part off.
_FEDAVG = {
    'fedala': dict(layers=0),
    'fedavg_finetuned': dict(select='validation', max_epochs=3),
    'fedrolex': dict(tiers='1'),
    'fjord': dict(tiers='1'),
    'heterofl': dict(tiers='1', scaler='on'),
    'knn_per': {},
    'splitmix': dict(tiers='1'),
}
# The same but for the order of sums; also options of both.
_NEARLY_FEDAVG = {
    'apfl': ({}, _STEP),
    'ditto': (dict(lambda_=1.0), _STEP),
    'ensemble': (dict(num_models=1), _STEP),
    'fedavgm': (dict(beta=0.0), {}),
    'fedavg_finetuned': ({}, _STEP),
    'fedem': (dict(num_models=1), _STEP),
    'fedprox': (dict(mu=0.0), _STEP),
    'ifca': (dict(num_models=1), _STEP),
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
def test_it_is_local_training(name, own, kept):
  process, states, clients, _ = rounds.run(name, **own, **_STEP)
  _, _, expected, _ = rounds.run('local_only', **_STEP)
  assert set(clients) == set(expected) == {0, 1, 2, 3}
  for i, state in clients.items():
    # How sums are fused may differ in the last bit.
    rounds.assert_close(kept(state), expected[i])
    rounds.assert_close(
        process.client_model(states[-1], state, i), expected[i]
    )
