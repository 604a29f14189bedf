"""FjORD: against NumPy, what a step moves, who counts, and distillation."""

import numpy as np
import pytest
import tensorflow as tf

from baselines import fjord
from tests import problems
from tests.baselines import rounds
from tests.baselines import submodel_rounds as sr
from tff_pers.core import random
from tff_pers.models import submodels
from tff_pers.models import zoo


def _build(parts=None, assign=sr.assign, **values):
  parts = parts or sr.parts()
  return fjord.build_fjord(
      parts, parts.widths, assign,
      fjord.FjORDHyperparameters(**{**sr.STEP, **values}),
      client_weighting='examples',
  )


@pytest.fixture(scope='module', name='one_step')
def _one_step():
  """One step, of large decay."""
  return _build(local_steps=1, momentum=0.0, weight_decay=0.5)


def _drawn(seed, tier):
  """Returns how many units a step trains."""
  counts = [c for c in sr.COUNTS if c <= sr.COUNTS[tier]]
  draw = tf.random.stateless_uniform(
      [], random.fold_in(seed, -1), 0, len(counts), tf.int32
  )
  return counts[int(draw)]


def test_rounds_are_those_of_numpy():
  """Each step moves a slice; the mean is over capacities, not over draws."""
  drawn = []

  def trained(weights, round_num, client):
    tier = sr.tier_of(client['index'])
    weights = sr.cut(weights, range(sr.COUNTS[tier]))
    momentum = [np.zeros_like(leaf) for leaf in weights]
    for x, y, seed in sr.batches(client, round_num):
      units = range(_drawn(seed, tier))
      drawn.append((tier, len(units)))
      own = sr.cut(weights, units)
      own, m = sr.step(own, sr.cut(momentum, units), sr.gradient(own, x, y))
      weights, momentum = sr.put(weights, own, units), sr.put(
          momentum, m, units
      )
    return range(sr.COUNTS[tier]), weights

  sr.assert_rounds(_build(), trained, 'examples')
  assert {(0, 6), (0, 3), (0, 2), (1, 3), (1, 2), (2, 2)} <= set(drawn)


def test_what_a_step_does_not_train_rests(one_step):
  """Decay does not move it (0.2.9; momentum: above); widths are uniform.

  Of 60 draws each of three within 4 standard errors of 20.
  """
  state, _ = sr.start(one_step)
  times = {count: 0 for count in sr.COUNTS}
  for round_num in range(60):
    state['round'] = np.int32(round_num)
    after, _ = sr.play(one_step, state, (0,))
    units = sr.moved(state, after)
    assert units == list(range(len(units)))
    times[len(units)] += 1
  error = np.sqrt(60 * 2 / 9)
  assert max(abs(count - 20) for count in times.values()) < 4 * error


def test_one_width_is_drawn_for_all_layers():
  """Two hidden layers of 10 units: both in full, or 5 of both."""
  model = zoo.build(
      'mlp', tf.TensorSpec([None, 3], tf.float64), 2, tf.float64, width=0.05
  )
  process = _build(
      submodels.Submodels(model, (1.0, 0.5)), local_steps=1,
      momentum=0.0, weight_decay=0.5, assign=lambda seed, round_num, index: 0 * index,
  )
  state = process.initialize_seeded(0)
  found = set()
  for round_num in range(8):
    state['round'] = np.int32(round_num)
    after, _ = sr.play(process, state, (4,))
    first, second = (
        np.any(after['weights'][k] != state['weights'][k], axis=0).sum()
        for k in (0, 2)
    )
    assert first == second
    found.add(first)
  assert found == {5, 10}


def test_example_of_the_sheet():
  """Baselines 7.4: n = (1, 3, 2), entries over clients whose p_max has them.

  Steps of size 1 go all the way, and of ten steps one at least is of the whole.
  """
  process = _build(
      sr.vector_parts(), assign=sr.first_whole_then_halves, local_steps=10,
      batch_size=0, learning_rate=1.0, momentum=0.0, weight_decay=0.0,
  )
  state = process.initialize_seeded(0)
  after, _ = sr.play(process, state, (0, 1, 2), sr.vector_clients())
  np.testing.assert_allclose(
      after['weights'][0], (11 / 6, 11 / 6, 4, 4), rtol=1e-10
  )


# --- Distillation. ---


def test_a_teacher_learns_nothing_from_itself():
  """Baselines 7.4: the second term has gradient 0, and is the entropy."""
  parts = sr.parts()
  model, batch = parts.base, rounds.whole_batch(problems.tiny_clients()[4])
  weights = model.initial_weights(0)
  taught = fjord.distilled(model, model, parts.static(0))
  loss, gradient = taught.loss_and_gradient(weights, batch)
  plain, expected = model.loss_and_gradient(weights, batch)
  rounds.assert_close(gradient, expected, 1e-14)
  shares = tf.nn.softmax(model.predict(weights, batch.x, True, None))
  entropy = -tf.reduce_mean(tf.reduce_sum(shares * tf.math.log(shares), 1))
  np.testing.assert_allclose(loss, plain + entropy, rtol=1e-10)


def test_a_student_learns_from_its_teacher_as_it_is():
  """Gradient of CE(z, y), and that of the student with a constant target."""
  parts = sr.parts()
  model, batch = parts.base, rounds.whole_batch(problems.tiny_clients()[4])
  weights = model.initial_weights(0)
  kept = parts.static(1)
  taught = fjord.distilled(model, parts.tiers[1], kept)
  _, gradient = taught.loss_and_gradient(weights, batch)
  _, of_labels = model.loss_and_gradient(weights, batch)
  target = tf.nn.softmax(model.predict(weights, batch.x, True, None)).numpy()
  own = tuple(map(tf.constant, sr.cut([w.numpy() for w in weights], range(3))))
  with tf.GradientTape() as tape:
    tape.watch(own)
    logits = parts.tiers[1].predict(own, batch.x, True, None)
    loss = tf.reduce_mean(
        tf.nn.softmax_cross_entropy_with_logits(target, logits)
    )
  of_target = submodels.expand(model, tape.gradient(loss, own), kept)
  for g, a, b in zip(gradient, of_labels, of_target):
    np.testing.assert_allclose(g, a + b, rtol=0, atol=1e-14)
    assert np.abs(b).max() > 1e-3


def test_a_step_with_distillation_trains_all_that_a_client_has():
  process = _build(distill=True, local_steps=1, momentum=0.0)
  state, _ = sr.start(process)
  for round_num in range(4):
    state['round'] = np.int32(round_num)
    after, _ = sr.play(process, state, (1,))
    assert sr.moved(state, after) == [0, 1, 2]


def test_raises_on_distillation_without_classes():
  with pytest.raises(ValueError, match='`distill` must be false for a model'):
    _build(sr.vector_parts(), distill=True)
