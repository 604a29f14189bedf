"""FedSGD, mini-batch SGD and Lookahead: presets of local update methods."""

import numpy as np

from tests import problems
from tests.baselines import rounds


def _expected(weights, factors, eta):
  """Returns w - eta * mean over examples of factor * gradient."""
  sent = [
      [factor * leaf for leaf in rounds.gradient(weights, data)[1]]
      for factor, data in zip(factors, problems.tiny_clients())
  ]
  return [
      np.asarray(w) - eta * np.average(leaves, axis=0, weights=[3, 4, 5, 6, 7])
      for w, *leaves in zip(weights, *sent)
  ]


def _one_round(name, **options):
  """Returns the weights before and after a round with all clients."""
  process, states, _, _ = rounds.run(name, **options)
  after = process.next(states[-1], [()] * 5, problems.tiny_clients())['state']
  return states[-1]['weights'], after['weights']


def test_fedsgd_sums_as_many_gradients_as_there_are_batches():
  """Check 6: batches of one, an epoch: n_i times the gradient of f_i."""
  before, after = _one_round(
      'fedsgd', local_steps=0, local_epochs=1, batch_size=1, learning_rate=0.3
  )
  rounds.assert_close(after, _expected(before, [3, 4, 5, 6, 7], 0.3))


def test_minibatch_sgd_takes_one_gradient_of_every_client():
  """Clients have the weights of FedAvg: their numbers of examples."""
  before, after = _one_round('minibatch_sgd', batch_size=7, learning_rate=0.3)
  rounds.assert_close(after, _expected(before, [1] * 5, 0.3))


def test_lookahead_goes_a_part_of_the_way():
  """Check 6: eta = a gamma, also where gamma falls."""
  falling = dict(
      learning_rate_schedule='steps', learning_rate_rounds='1:2',
      learning_rate_decay=0.5, momentum=0.5,
  )
  process, states, _, _ = rounds.run('lookahead', slow_step=0.3, **falling)
  start = process.initialize_seeded(rounds.SEED)['weights']
  _, fedavg, _, _ = rounds.run('fedavg', **falling)
  expected = [
      w + 0.3 * (u - w) for w, u in
      zip(rounds.leaves(start), rounds.leaves(fedavg[0]['weights']))
  ]
  rounds.assert_close(states[0]['weights'], expected)
