"""FedRecon (papers/baselines.md 6.5)."""

import numpy as np
import pytest

from baselines import fedrecon
from tests import problems
from tests.baselines import rounds
from tff_pers.models import partition

_LOCAL = dict(local_steps=5, batch_size=2, learning_rate=0.1)


def _build(is_private, client_weighting='examples', **options):
  return fedrecon.build_fedrecon(
      partition.Partition(problems.tiny_model(), is_private),
      fedrecon.FedReconHyperparameters(**{**_LOCAL, **options}),
      client_weighting=client_weighting,
  )


def test_with_all_data_in_both_sets_it_is_stateless_fedalt_bit_for_bit():
  """Baselines B3."""
  more = dict(private_epochs=2, private_steps=7, momentum=0.5)
  process, *found = rounds.run('fedrecon', halves=False, **more)
  other, *expected = rounds.run('fedalt', stateless=True, **more)
  rounds.assert_identical(found, expected)
  data = problems.tiny_clients()[3]
  rounds.assert_identical(*(
      rounds.evaluated(own, found[0][-1], (), data) for own in (process, other)
  ))


def test_without_private_weights_it_is_fedavg_bit_for_bit():
  """Baselines 6: with all data in both sets."""
  states, _, _ = rounds.train(_build((False,) * 4, halves=False))
  _, plain, _, _ = rounds.run('fedavg')
  for state, expected in zip(states, plain):
    rounds.assert_identical(state['weights'], expected['weights'])


def _step(weights, data, rows, rates):
  """Returns the weights after a step of the tiny model on these rows."""
  some = {name: leaf[rows] for name, leaf in data['examples'].items()}
  _, gradient = rounds.gradient(weights, dict(examples=some))
  return [w - rate * g for w, rate, g in zip(weights, rates, gradient)]


@pytest.mark.parametrize('joint', [False, True])
def test_each_half_of_the_data_is_for_one_part(joint):
  """The box, with clients of 7 and 4 examples, which weigh 3 and 2."""
  process = _build(
      (False, True, False, True), joint=joint, batch_size=7, local_steps=2,
      private_epochs=0, private_steps=3, private_learning_rate=0.3,
  )
  cohort = (4, 1)
  states, _, _ = rounds.train(process, cohorts=(cohort,))
  weights, finals = problems.tiny_model().initial_weights(rounds.SEED), []
  for i in cohort:
    data, w = problems.tiny_clients()[i], list(weights)
    for _ in range(3):
      w = _step(w, data, slice(0, None, 2), (0, 0.3, 0, 0.3))
    for _ in range(2):
      rate = 0.3 * joint
      w = _step(w, data, slice(1, None, 2), (0.1, rate, 0.1, rate))
    finals.append(w)
  expected = [(3 * a + 2 * b) / 5 for a, b in zip(*finals)]
  rounds.assert_close(states[0]['weights'], expected[0::2])


@pytest.mark.parametrize('weighting', ['examples', 'uniform'])
def test_a_client_of_one_example_has_no_say_in_the_shared_weights(weighting):
  process = _build((False, True, False, True), client_weighting=weighting)
  state, client = process.initialize_seeded(0), problems.tiny_clients()[4]
  one = dict(problems.tiny_clients()[0], num_examples=np.int32(1))
  alone = process.next(state, [()], [client])['state']
  both = process.next(state, [(), ()], [client, one])['state']
  rounds.assert_identical(both, alone)


@pytest.mark.parametrize('private_steps, floor', [(5, 0.116502), (50, 6.5e-5)])
def test_inexact_reconstruction_leaves_a_floor(private_steps, floor):
  """Baselines B21; stateful FedAlt has none."""
  parts, _, _ = problems.split_least_squares()
  process = fedrecon.build_fedrecon(
      parts,
      fedrecon.FedReconHyperparameters(
          local_steps=5, private_epochs=0, private_steps=private_steps,
          halves=False, batch_size=1, learning_rate=0.3,
      ),
      client_weighting='uniform',
  )
  found = rounds.distances_to_shared_optimum(process, num_rounds=150)
  np.testing.assert_allclose(found[-1], floor, rtol=0, atol=1e-6)
  np.testing.assert_allclose(found[-1], found[-2], rtol=1e-6)


def test_yogi_takes_the_mean_update_for_a_gradient():
  """From m = v = 0: w - eta_g m / (sqrt(v) + epsilon) with b1 = .9, b2 = .99."""
  _, plain, _, _ = rounds.run('fedrecon')
  process, states, _, _ = rounds.run(
      'fedrecon', server_optimizer='yogi', server_learning_rate=0.2
  )
  start = rounds.leaves(process.initialize_seeded(rounds.SEED)['weights'])
  for w, averaged, stepped in zip(
      start, rounds.leaves(plain[0]['weights']),
      rounds.leaves(states[0]['weights']),
  ):
    d = w - averaged
    expected = w - 0.2 * 0.1 * d / (np.sqrt(0.01 * d ** 2) + 1e-3)
    np.testing.assert_allclose(stepped, expected, rtol=0, atol=1e-9)
