"""Per-FedAvg: fixed points of its variants, and what it reduces to."""

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from baselines import perfedavg
from tests import problems
from tests.baselines import rounds
from tests.baselines import simulator
from tff_pers.client_works import client_work
from tff_pers.client_works import tff_client_work
from tff_pers.data import client_data


def _hyperparameters(**values):
  return perfedavg.PerFedAvgHyperparameters(**values)


def _s2(num_rounds, **hyperparameters):
  problem = problems.s2(start=0.3)
  work = perfedavg.build_meta_sgd(
      problem.model, _hyperparameters(**hyperparameters), 'uniform'
  )
  return simulator.run(work, problem, num_rounds=num_rounds)[0][0]


@pytest.mark.parametrize(
    'variant, a, expected',
    [
        ('exact', 0.2, 0.6), ('hf', 0.2, 0.6), ('fo', 0.2, 0.0),
        ('fo', 0.0, -0.6),
    ],
)
def test_fixed_point_of_one_local_step(variant, a, expected):
  """Baselines B12, 3.1: S2, K = 1; a = 0 is FedAvg."""
  # Per round the distance shrinks by |1 - .3 * mean weight|, at most .88.
  w = _s2(150, variant=variant, a=a, local_steps=1, learning_rate=0.3)
  np.testing.assert_allclose(w, [expected], rtol=0, atol=1e-7)


@pytest.mark.parametrize(
    'variant, expected', [('exact', 0.584422), ('hf', 0.584422), ('fo', 0.0)]
)
def test_fixed_point_of_five_local_steps(variant, expected):
  """Baselines B12, 3.1: S2, K = 5, beta = .05, a = .2."""
  w = _s2(300, variant=variant, a=0.2, local_steps=5, learning_rate=0.05)
  np.testing.assert_allclose(w, [expected], rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    'w, before, after', [(0.6, 2.6, 0.128), (-0.6, 0.8, 0.416)]
)
def test_losses_before_and_after_adaptation(w, before, after):
  """Baselines B12, 3.1: the meta-model is worse before, better after a step."""
  problem = problems.s2()
  adapt = perfedavg.build_adaptation(problem.model, _hyperparameters(a=0.2))
  weights = (tf.constant([w], tf.float64),)
  adapted = [
      adapt(rounds.message(weights), (), rounds.tensors(data))[0]
      for data in problem.clients()
  ]
  loss = lambda models: np.mean([problem.loss(i, models[i]) for i in range(2)])
  np.testing.assert_allclose(loss([weights[0]] * 2), before, atol=1e-12)
  np.testing.assert_allclose(loss(adapted), after, atol=1e-12)


@pytest.mark.parametrize('variant', ['exact', 'fo'])
def test_exact_step_is_the_gradient_of_the_meta_objective(variant):
  """Baselines B4: b'' = b (full batch) and K = 1 is MAML's gradient, J = 1."""
  model, data = problems.tiny_model(), problems.tiny_clients()[3]
  weights = model.init(tf.constant([1, 2], tf.int64))
  work = perfedavg.build_meta_sgd(
      model,
      _hyperparameters(
          variant=variant, a=0.5, learning_rate=1.0, local_steps=1, batch_size=6
      ),
      'uniform',
  )
  update = work.update(rounds.message(weights), (), rounds.tensors(data)).update
  whole = rounds.whole_batch(data)
  with tf.GradientTape() as tape:
    tape.watch(weights)
    _, gradient = model.loss_and_gradient(weights, whole)
    adapted = tuple(w - 0.5 * g for w, g in zip(weights, gradient))
    loss = model.batch_loss(adapted, whole)
  expected = rounds.leaves(tape.gradient(loss, weights))
  error = max(
      np.max(np.abs(u - e)) for u, e in zip(rounds.leaves(update), expected)
  )
  # The first-order step lacks the Hessian term, which is not small here.
  assert error < 1e-12 if variant == 'exact' else error > 1e-2


def test_the_three_batches_of_a_step_are_independent():
  """Perm 3: b, b', b'' come from uses 0, 1, 2."""
  # Scalar examples z_j: f(w; b) = (w - z_b)^2 / 2 for one example per batch.
  centers = np.array([0.0, 1.0, 10.0, 100.0])
  x = np.stack([np.ones(4), centers], axis=1)[:, :, None]
  data = client_data.dense(3, x, np.zeros([4], np.int32))
  model = problems.s2().model
  message = rounds.message((tf.zeros([1], tf.float64),), seed=5, round_num=2)
  drawn = [
      centers[
          client_data.batch_rows(
              4, 4, seed=client_work.key(message, data, use), batch_size=1,
              num_steps=3,
          )[0].numpy()[:, 0]
      ]
      for use in range(2)
  ]
  work = perfedavg.build_meta_sgd(
      model,
      _hyperparameters(
          a=0.5, learning_rate=0.25, local_steps=3, batch_size=1
      ),
      'uniform',
  )
  u = 0.0
  for b, b1 in zip(*drawn):
    adapted = u - 0.5 * (u - b)
    u -= 0.25 * (adapted - b1)
  update = work.update(message, (), rounds.tensors(data)).update[0]
  np.testing.assert_allclose(update, [-u], rtol=1e-12)
  assert not np.array_equal(drawn[0], drawn[1])


def test_process_deploys_the_adapted_model():
  process, states, _, _ = rounds.run('perfedavg')
  train, test = problems.tiny_clients()[3], problems.tiny_clients()[4]
  found = rounds.evaluated(process, states[-1], (), train, test)['loss']
  adapt = perfedavg.build_adaptation(
      process.deployed, _hyperparameters(batch_size=2)
  )
  w = rounds.tensors(states[-1]['weights'])
  adapted = adapt(
      rounds.message(w, rounds.SEED, 3), (), rounds.tensors(train)
  )
  np.testing.assert_allclose(found, rounds.loss(adapted, test), rtol=1e-12)
  assert abs(rounds.loss(w, test) - found) > 1e-4


def test_works_as_a_client_work_of_tff():
  """The meta-step over `tf.data` batches, in TFF's own learning process."""
  model = problems.tiny_model()
  work = perfedavg.build_meta_sgd(
      model, _hyperparameters(local_steps=2, a=0.3), 'uniform'
  )
  client_process = tff_client_work.as_client_work_process(work, model)
  data = problems.tiny_clients()[3]
  dataset = tf.data.Dataset.from_tensor_slices(
      collections.OrderedDict(data['examples'])
  ).batch(6)
  weights = model.init(tf.constant([1, 2], tf.int64))
  output = client_process.next(
      client_process.initialize(),
      [tff.learning.models.ModelWeights(weights, ())], [[*dataset]],
  )
  # One batch in the dataset: all three uses see all examples.
  dense = work.update(
      rounds.message(weights), (), rounds.tensors(data)
  )
  rounds.assert_close(output.result[0].update, dense.update)
