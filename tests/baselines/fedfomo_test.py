"""FedFomo (papers/neighbours.md 3)."""

import functools

import numpy as np
import tensorflow as tf

from baselines import fedfomo
from tests import problems
from tests.baselines import known_models
from tests.baselines import rounds
from tff_pers.data import client_data

_tensor = known_models.tensor


@functools.lru_cache(maxsize=None)
def _process():
  """Returns the process on Q6 with M = N - 1, though more are asked for."""
  return fedfomo.build_fedfomo(
      problems.q6().model, 6, fedfomo.FedFomoHyperparameters(
          learning_rate=0.1, local_steps=3, batch_size=50, num_models=9
      )
  )


def test_preferences_follow_the_formula():
  """Check 3, on client 1 of S2: f(x) = 2 (x + 1)^2."""
  data = rounds.tensors(problems.s2().clients()[1])
  found = fedfomo.preference(
      problems.s2().model, (_tensor([0.5]),),
      (_tensor([[0.0], [0.5], [-1.5], [2.0]]),), data,
  )
  loss = lambda x: 2 * (x + 1) ** 2
  expected = [
      (loss(0.5) - loss(0.0)) / 0.5, 0.0, (loss(0.5) - loss(-1.5)) / 2.0,
      (loss(0.5) - loss(2.0)) / 1.5,
  ]
  np.testing.assert_allclose(found, expected, rtol=1e-12)
  nothing = fedfomo.preference(
      problems.s2().model, (_tensor([0.5]),), (_tensor([[0.0]]),),
      dict(data, num_examples=tf.constant(0)),
  )
  assert nothing == 0
  huge = fedfomo.preference(
      problems.s2().model, (_tensor([0.5]),), (_tensor([[1e300]]),), data
  )
  assert huge == 0  # Its loss is not finite.


def test_a_round_is_that_of_numpy():
  """Raw w are added to P, positive ones mix; all others are received."""
  before = np.arange(36.0).reshape(6, 6)
  state, theta, metrics = known_models.play(
      _process(), preferences=before, round_num=6
  )
  expected = before.copy()
  for i, own in zip(known_models.COHORT, theta):
    w = known_models.MODELS[i]
    others = [n for n in range(6) if n != i]
    loss = lambda x, i=i: problems.q6().loss(i, x)
    raw = np.array([
        (loss(w) - loss(other)) / np.linalg.norm(other - w)
        for other in known_models.MODELS[others]
    ])
    expected[i, others] += raw
    v = np.maximum(raw, 0) / np.maximum(raw, 0).sum()
    w = w + v @ (known_models.MODELS[others] - w)
    for _ in range(3):
      w = w - 0.1 * known_models.gradient(i, w)
    np.testing.assert_allclose(own, w, rtol=0, atol=1e-10)
  np.testing.assert_allclose(state['preferences'], expected, atol=1e-10)
  known_models.assert_kept(state, theta)
  # M models; the own one, and the w_n.
  assert (metrics['bytes_down'], metrics['bytes_up']) == (5 * 40, 40 + 5 * 8)


def test_identical_models_do_not_move():
  """Check 1: the first round is local training."""
  models = np.tile(known_models.MODELS[0], (6, 1))
  state, theta, _ = known_models.play(
      _process(), models=models, preferences=np.zeros((6, 6))
  )
  for i, own in zip(known_models.COHORT, theta):
    w = models[0]
    for _ in range(3):
      w = w - 0.1 * known_models.gradient(i, w)
    np.testing.assert_allclose(own, w, rtol=0, atol=1e-12)
  assert np.all(state['preferences'] == 0)


def test_the_one_model_that_is_better_replaces_the_own():
  """Check 2, before local training."""
  models = 100.0 * known_models.MODELS
  models[0] = known_models.MODELS[0]
  models[1] = problems.q6().centers[0]
  _, theta, _ = known_models.play(
      _process(), cohort=(0,), models=models, preferences=np.zeros((6, 6))
  )
  # It is at the minimum, where training stays.
  np.testing.assert_allclose(theta[0], models[1], rtol=0, atol=1e-12)


def _chosen(preferences, t, num_models, i=3, seed=0):
  """Returns whose models client i receives in round t."""
  state = dict(
      preferences=tf.tile(_tensor(preferences)[None], [5, 1]),
      round=tf.constant(t), seed=seed,
  )
  return fedfomo.choose(state, tf.constant(i), num_models)


def test_choice_takes_the_preferred_ones_and_explores():
  """Check 4, and epsilon_t = max(0, .3 - .05 t)."""
  preferences = [-2.0, 5.0, -1.0, 9.0, 3.0]
  for seed in range(3):
    found = _chosen(preferences, 6, 4, seed=seed)
    np.testing.assert_array_equal(found, [1, 4, 2, 0])
  np.testing.assert_array_equal(_chosen(preferences, 6, 2, i=1), [3, 4])

  for t, epsilon in ((0, 0.3), (4, 0.1), (6, 0.0), (9, 0.0)):
    found = tf.function(lambda t=t: tf.map_fn(
        lambda seed: _chosen(preferences, t, 1, seed=seed)[0], tf.range(2000)
    ))().numpy()
    assert 3 not in found  # Its own model.
    # Exploring finds the preferred one in a fourth of the draws.
    share = np.mean(found != 1)
    assert abs(share - 0.75 * epsilon) <= 4 * np.sqrt(0.25 * epsilon / 2000)


def test_equal_preferences_are_drawn():
  """Else every client would begin with the first ones."""
  found = {int(_chosen(np.zeros(5), 9, 1, seed=s)[0]) for s in range(40)}
  assert found == {0, 1, 2, 4}


def test_what_is_held_out_is_never_trained_on():
  """A fifth of ten examples, the same in all rounds."""
  rng = np.random.default_rng(0)
  x, y = rng.standard_normal([10, 3]), np.arange(10, dtype=np.int32) % 2
  process = fedfomo.build_fedfomo(
      problems.tiny_model(), 1,
      fedfomo.FedFomoHyperparameters(
          local_steps=0, local_epochs=1, batch_size=4, learning_rate=0.1
      ),
  )

  def trained(x):
    _, client_states, _ = rounds.train(
        process, [[0], [0]], [client_data.dense(0, x, y)]
    )
    return rounds.leaves(client_states[0])

  expected, has_no_effect = trained(x), []
  for row in range(10):
    changed = x.copy()
    changed[row] += 1.0
    has_no_effect.append(all(
        np.array_equal(a, b) for a, b in zip(trained(changed), expected)
    ))
  assert sum(has_no_effect) == 2
