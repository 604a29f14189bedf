"""Schedule, momentum, weight decay and clipping in steps of methods' own.

Of all lines that are those of FedAvg or of local training in some case,
`reductions_test` sees the step there.
"""

import numpy as np
import pytest
import tensorflow as tf

from baselines import ditto
from baselines import ifca
from baselines import local_only
from baselines import pfedme
from tests import problems
from tests.baselines import rounds
from tests.baselines import simulator
from tff_pers.client_works import local_sgd
from tff_pers.config import hyperparameters as hp
from tff_pers.config import methods


def test_momentum_is_made_anew_whenever_a_client_takes_part():
  """Two rounds of 5 steps from 0 are not one of 10, but each starts at m = 0."""
  problem = problems.q6()
  hyperparameters = local_only.LocalOnlyHyperparameters(
      momentum=0.9, local_steps=5, learning_rate=0.1
  )
  work = local_only.build_local_work(problem.model, hyperparameters)
  data = rounds.tensors(problem.clients()[0])
  v = problem.model.initial_weights(0)
  expected = np.zeros(5)
  for t in range(2):
    v = work.update(rounds.message((), round_num=t), v, data).client_state
    m = np.zeros(5)
    for _ in range(5):
      m = 0.9 * m + problem.curvatures[0] @ (expected - problem.centers[0])
      expected = expected - 0.1 * m
    np.testing.assert_allclose(v[0], expected, rtol=1e-10)


def test_pfedme_descends_the_penalized_envelope():
  """S2, K = 1, exact prox: sum_i h_i (w - c_i) + 2 decay w = 0."""
  lam, decay = 2.0, 0.3
  problem = problems.s2()
  hyperparameters = pfedme.PFedMeHyperparameters(
      learning_rate=0.2, local_steps=1, lam=lam, inner_lr=0.2, inner_steps=25,
      weight_decay=decay,
  )
  work = pfedme.build_moreau_sgd(problem.model, hyperparameters, 'uniform')
  (w,), _ = simulator.run(work, problem, num_rounds=200)
  a, c = np.array([1.0, 4.0]), np.array([1.0, -1.0])
  h = lam * a / (lam + a)
  np.testing.assert_allclose(w[0], (h @ c) / (h.sum() + 2 * decay), atol=1e-9)


def test_pfedme_clips_the_gradient_of_the_envelope():
  problem = problems.q6()
  hyperparameters = pfedme.PFedMeHyperparameters(
      learning_rate=0.01, local_steps=3, lam=5.0, clip_norm=0.2
  )
  work = pfedme.build_moreau_sgd(problem.model, hyperparameters, 'uniform')
  (update,) = work.update(
      rounds.message(problem.model.initial_weights(0)), (),
      rounds.tensors(problem.clients()[0]),
  ).update
  # The three directions differ little this far from the optimum.
  np.testing.assert_allclose(
      np.linalg.norm(update), 3 * 0.01 * 0.2, rtol=1e-3
  )


def test_ifca_clips_and_decays_the_one_gradient():
  problem = problems.q6()
  hyperparameters = ifca.IfcaHyperparameters(
      average='gradient', learning_rate=0.5, clip_norm=0.1, weight_decay=3.0,
      learning_rate_schedule='steps', learning_rate_rounds='4',
      learning_rate_decay=0.2,
  )
  w = np.arange(1.0, 6.0)
  work = ifca.build_ifca_work(problem.model, hyperparameters, 1, 'uniform')
  message = rounds.message((), round_num=4)
  message['models'] = (tf.constant(w[None]),)
  output = work.update(message, (), rounds.tensors(problem.clients()[2]))
  gradient = problem.curvatures[2] @ (w - problem.centers[2])
  expected = 0.1 * (
      0.1 * gradient / np.linalg.norm(gradient) + 3.0 * w
  )
  np.testing.assert_allclose(
      output.update['adaptors'][0][0], expected, rtol=1e-12
  )


def test_ditto_clips_what_v_descends_with_the_pull_in_it():
  problem = problems.q6()
  hyperparameters = ditto.DittoHyperparameters(
      learning_rate=0.1, local_steps=1, lambda_=50.0, clip_norm=0.3,
  )
  work = ditto.build_ditto_work(problem.model, hyperparameters, 'uniform')
  v = (tf.ones([5], tf.float64),)
  output = work.update(
      rounds.message(problem.model.initial_weights(0)), v,
      rounds.tensors(problem.clients()[0]),
  )
  moved = np.linalg.norm(v[0] - output.client_state[0])
  np.testing.assert_allclose(moved, 0.1 * 0.3, rtol=1e-12)


@pytest.mark.parametrize(
    'name, options',
    [
        ('ifca', dict(average='gradient')),
        ('local_only', dict(local_steps=1)),
        ('ditto', dict(local_steps=1)),
        ('fedalt', dict(local_steps=1)),
        ('fedalt', dict(local_steps=1, private_steps=1)),
        ('fedavg_finetuned', dict(local_steps=1, steps=1)),
    ],
)
def test_refuses_momentum_where_nothing_gathers_it(name, options):
  with pytest.raises(ValueError, match='`momentum` must be 0 .* found 0.5'):
    rounds.run(name, momentum=0.5, **options)


@pytest.mark.parametrize('name, longer', [
    ('ditto', dict(personal_steps=2)), ('ditto', dict(mode='posthoc')),
    ('fedavg_finetuned', dict(steps=2)), ('fedalt', dict(private_epochs=1)),
])
def test_takes_momentum_where_one_line_is_longer(name, longer):
  kind = methods.get(name).hyperparameters
  assert kind(momentum=0.5, local_steps=1, **longer).momentum


def test_a_schedule_does_not_reach_what_clients_do_when_they_deploy():
  """A rate that has fallen to nothing would leave fine-tuning without effect."""
  falling = dict(
      learning_rate_schedule='steps', learning_rate_rounds='1',
      learning_rate_decay=1e-9,
  )
  process, states, _, _ = rounds.run('fedavg_finetuned', **falling)
  client = problems.tiny_clients()[0]
  found = rounds.evaluated(process, states[-1], (), client)
  before = rounds.loss(states[-1]['weights'], client)
  assert found['loss'] < before - 1e-3


def test_local_sgd_takes_the_schedule_from_the_round_of_the_message():
  problem = problems.q6()
  work = local_sgd.build_local_sgd(problem.model, hp.LocalTraining(
      learning_rate=0.1, local_steps=1, learning_rate_schedule='cosine',
      learning_rate_rounds='10', learning_rate_decay=0.5,
  ), 'uniform')
  first, middle, end = (
      work.update(
          rounds.message(problem.model.initial_weights(0), round_num=t), (),
          rounds.tensors(problem.clients()[0]),
      ).update[0] for t in (0, 5, 12)
  )
  np.testing.assert_allclose(middle, 0.75 * first, rtol=1e-12)
  np.testing.assert_allclose(end, 0.5 * first, rtol=1e-12)
