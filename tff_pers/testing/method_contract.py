"""Contract of every registered method, on one tiny task.

Tests with the argument `case`, for pytest; see `contracts`.
"""

import dataclasses
import io

import numpy as np
import pytest
import tensorflow as tf

from tff_pers.analysis import cost
from tff_pers.composition import deployment
from tff_pers.config import methods
from tff_pers.core import process as process_lib
from tff_pers.data import client_data
from tff_pers.testing import rounds
from tff_pers.testing import tiny
from tff_pers import tff

METRICS = ('train_loss', 'num_examples', 'bytes_down', 'bytes_up', 'non_finite')


def test_type_signatures(case: rounds.Case) -> None:
  """State, data, metrics and evaluation have the types of a process."""
  process = case.process
  assert isinstance(process, process_lib.PersonalizedProcess)
  state_names = tff.structure.name_list(process.server_state_type)
  assert state_names[:3] == ['seed', 'round', 'aggregator']
  model = case.task.model
  assert process.data_type == client_data.client_data_type(
      model.x_spec, model.y_spec
  )
  metrics = process.next.type_signature.result['metrics']
  assert metrics.placement is tff.SERVER
  assert set(METRICS) <= set(tff.structure.name_list(metrics.member))
  per_client = process.evaluate.type_signature.result
  assert per_client.placement is tff.CLIENTS
  names = tff.structure.name_list(per_client.member)
  assert {'loss', 'accuracy', 'num_examples'} <= set(names)


def _members(structure_type, names):
  """Returns the tensor types of these fields, in order."""
  return [
      leaf for name in names for leaf in tff.structure.flatten(
          structure_type[name]
      )
  ]


def test_only_what_the_method_declares_travels(case: rounds.Case) -> None:
  """Baselines B6: messages and updates hold no more than declared."""
  travels, parts = methods.get(case.name).travels, case.process.parts
  if travels is None:
    assert parts is None  # Methods with their own `next` have their own tests.
    return
  assert parts is not None
  message = parts.dispatch.type_signature.result.member
  assert sorted(tff.structure.name_list(message)) == sorted(
      ['seed', 'round', *travels.down]
  )
  state_type = case.process.server_state_type
  assert _members(message, travels.down) == _members(state_type, travels.down)
  update = parts.work.type_signature.result.member['update']
  expected = _members(state_type, travels.up)
  sent = tff.structure.flatten(update)
  assert len(sent) == len(expected)
  # A dimension is unknown if clients send parts of different sizes.
  assert all(own.is_assignable_from(x) for own, x in zip(sent, expected))


def test_weights_of_clients_act_as_declared(case: rounds.Case) -> None:
  """Weights `examples` of unequal clients differ, or were not read."""
  weighs = methods.get(case.name).weighs_clients
  assert case.task.weighed == weighs
  if case.process.parts is None:
    return
  state, number = case.snapshots[1].state, case.task.num_clients
  clients = [case.snapshots[1].clients[i] for i in range(number)]
  outputs = case.process.parts.work(
      case.process.parts.dispatch(state, list(range(number))), clients,
      case.task.train,
  )
  weights = [np.ravel(output['weight'])[0] for output in outputs]
  assert (len(set(weights)) > 1) == weighs


def test_traffic_is_known_without_training(case: rounds.Case) -> None:
  """`cost` finds what the first round reports, means over clients."""
  before, data = case.snapshots[0], case.task.train
  _, metrics = rounds.play(case.process, before, range(len(data)), data)
  sent = np.mean(cost.traffic(case.process, case.task), axis=0)
  np.testing.assert_allclose(
      sent, [metrics['bytes_down'], metrics['bytes_up']], rtol=1e-6
  )


def test_a_round_by_hand_is_next(case: rounds.Case) -> None:
  """Dispatch, work, aggregate, apply give bit-identical results."""
  process, task, before = case.process, case.task, case.snapshots[1]
  if process.parts is None:
    return
  dispatch, work, aggregate, apply = process.parts
  clients = [before.clients[i] for i in range(task.num_clients)]
  outputs = work(
      dispatch(before.state, list(range(task.num_clients))), clients, task.train
  )
  applied = apply(before.state, aggregate(before.state, outputs))
  expected = process.next(before.state, clients, task.train)
  np.testing.assert_equal(
      tf.nest.flatten((applied['state'], applied['metrics'])),
      tf.nest.flatten((expected['state'], expected['metrics'])),
  )
  np.testing.assert_equal(
      [output['client_state'] for output in outputs], expected['client_states']
  )


def test_client_model_is_of_the_deployed_type(case: rounds.Case) -> None:
  """Its loss on test data is finite too."""
  process, after = case.process, case.snapshots[-1]
  result_type = process.client_model.type_signature.result
  assert process.deployed.weights_type.is_equivalent_to(result_type)
  for i, test in enumerate(case.task.test):
    weights = process.client_model(after.state, after.clients[i], i)
    metrics = deployment.deployed_metrics(
        process.deployed, tf.nest.map_structure(tf.constant, weights),
        tf.nest.map_structure(tf.constant, test),
    )
    assert np.isfinite(metrics['loss'])


def test_state_starts_with_seed_and_counts_rounds(case: rounds.Case) -> None:
  """`round` is 0, 1, 2, 3, and `seed` does not change."""
  assert [s.state['round'] for s in case.snapshots] == [0, 1, 2, 3]
  assert [s.state['seed'] for s in case.snapshots] == [3, 3, 3, 3]
  assert case.process.initialize()['seed'] == 0


def test_training_changes_what_clients_deploy(case: rounds.Case) -> None:
  """After three rounds client 0 does not deploy its initial model."""
  process = case.process
  def deployed(snapshot, i):
    return tf.nest.flatten(
        process.client_model(snapshot.state, snapshot.clients[i], i)
    )
  initial = rounds.Snapshot(
      case.snapshots[0].state,
      {0: process.initialize_client(case.snapshots[0].state, 0)},
  )
  before, after = deployed(initial, 0), deployed(case.snapshots[-1], 0)
  assert any(np.any(a != b) for a, b in zip(after, before))


def test_order_of_the_cohort_is_irrelevant(case: rounds.Case) -> None:
  """Baselines B7."""
  shuffled, _ = rounds.play(
      case.process, case.snapshots[2], [2, 0, 3, 1], case.task.train
  )
  rounds.assert_close(shuffled, case.snapshots[3], rtol=0)


def test_same_seed_same_bits_other_seed_other_result(case: rounds.Case) -> None:
  """All draws come from the seed."""
  process, data = case.process, case.task.train
  again = rounds.train(process, data, seed=3)
  for a, b in zip(again, case.snapshots):
    rounds.assert_equal(a, b)
  other = rounds.train(process, data, seed=4, num_rounds=2)
  pairs = zip(rounds.leaves(other[2]), rounds.leaves(case.snapshots[2]))
  assert any(np.any(a != b) for a, b in pairs)


def test_resumed_equals_uninterrupted(case: rounds.Case) -> None:
  """The states, as plain arrays, hold everything that is needed."""
  saved = case.snapshots[1]
  structure = (saved.state, saved.clients)
  file = io.BytesIO()
  np.savez(file, *tf.nest.flatten(structure))
  file.seek(0)
  with np.load(file) as arrays:
    restored = tf.nest.pack_sequence_as(structure, list(arrays.values()))
  snapshot = rounds.Snapshot(*restored)
  for _ in range(2):
    snapshot, _ = rounds.play(case.process, snapshot, range(4), case.task.train)
  rounds.assert_equal(snapshot, case.snapshots[3])


def test_padding_never_touches_a_result(case: rounds.Case) -> None:
  """Features beyond `num_examples` may be anything, labels any class."""
  def fill(client):
    size = int(client['num_examples'])
    padded = client_data.pad(client, 15)
    padded['examples']['x'][size:] = np.nan
    padded['examples']['y'][size:] = 1
    return padded
  padded = [fill(client) for client in case.task.train]
  snapshots = rounds.train(case.process, padded, seed=3)
  for a, b in zip(snapshots, case.snapshots):
    rounds.assert_close(a, b)
  filled = rounds.Case(
      case.process,
      dataclasses.replace(
          case.task, train=padded, test=[fill(c) for c in case.task.test]
      ),
      snapshots,
  )
  for one, other in zip(
      rounds.evaluate(filled, snapshots[-1]),
      rounds.evaluate(case, case.snapshots[-1]),
  ):
    np.testing.assert_allclose(
        [one['loss'], one['accuracy']], [other['loss'], other['accuracy']],
        rtol=1e-5,
    )
    assert one['num_examples'] == other['num_examples']


def test_nan_at_one_client_is_reported_and_dropped(case: rounds.Case) -> None:
  """Its index is in `non_finite`; all others train with finite results."""
  before, data = case.snapshots[2], list(case.task.train)
  data[2] = client_data.dense(
      2, np.full([7, 3], np.nan, np.float32), np.zeros([7], np.int32)
  )
  after, reported, losses = before, set(), []
  for _ in range(4):  # Shuffling leaves no client out for a whole epoch.
    after, metrics = rounds.play(case.process, after, range(4), data)
    reported |= set(metrics['non_finite'].tolist())
    losses.append(metrics['train_loss'])  # NaN if no visit had a weight.
    assert all(np.all(np.isfinite(leaf)) for leaf in rounds.leaves(after))
  assert reported == {2}
  assert np.any(np.isfinite(losses))
  np.testing.assert_equal(
      tf.nest.flatten(after.clients[2]), tf.nest.flatten(before.clients[2])
  )


def test_a_label_that_the_model_has_not_is_refused(case: rounds.Case) -> None:
  """Before a round and an evaluation; padding rows do not count."""
  before, data = case.snapshots[2], list(case.task.train)
  x, y = (data[1]['examples'][name] for name in ('x', 'y'))
  spoiled = np.where(np.arange(len(y)) == 4, 2, y).astype(np.int32)
  data[1] = client_data.dense(1, x, spoiled)
  sentence = '`y` of client 1 must be labels in 0..1, .* found 2 in row 4'
  with pytest.raises(ValueError, match=sentence):
    rounds.play(case.process, before, range(4), data)
  for name in ('adapt', 'test'):
    both = dict(adapt=case.task.train[1], test=case.task.test[1])
    both[name] = data[1]
    with pytest.raises(ValueError, match=sentence):
      case.process.evaluate(before.state, [before.clients[1]], [both])


def test_client_without_examples_harms_nothing(case: rounds.Case) -> None:
  """States stay finite, and the examples of the others are counted."""
  data = list(case.task.train)
  data[1] = client_data.dense(
      1, np.zeros([0, 3], np.float32), np.zeros([0], np.int32)
  )
  after, metrics = rounds.play(case.process, case.snapshots[2], range(4), data)
  assert metrics['non_finite'].size == 0
  assert metrics['num_examples'] == 5 + 7 + 9
  assert all(np.all(np.isfinite(leaf)) for leaf in rounds.leaves(after))


def test_a_round_without_examples_changes_nothing(case: rounds.Case) -> None:
  """Except its number, and shuffling's record of hosts and participants."""
  before = case.snapshots[-1]
  empty = [dict(data, num_examples=np.int32(0)) for data in case.task.train]
  after, metrics = rounds.play(case.process, before, range(4), empty)
  for name in set(before.state) - {'round', 'pending', 'table'}:
    np.testing.assert_equal(
        tf.nest.flatten(after.state[name]), tf.nest.flatten(before.state[name])
    )
  np.testing.assert_equal(after.clients, before.clients)
  assert not metrics['non_finite'].size


def test_training_lowers_every_clients_loss(case: rounds.Case) -> None:
  """On training data, after three rounds."""
  task, process = case.task, case.process
  if process.deployed.holds:
    pytest.skip('Deployed models store these examples.')
  first = case.snapshots[0].state
  start = rounds.Snapshot(
      first, {i: process.initialize_client(first, i) for i in range(4)}
  )
  trained_on = dataclasses.replace(
      case, task=dataclasses.replace(task, test=task.train)
  )
  before, after = (
      [metrics['loss'] for metrics in rounds.evaluate(trained_on, snapshot)]
      for snapshot in (start, case.snapshots[-1])
  )
  assert np.all(np.less(after, before))


def test_evaluation_is_finite_and_repeats(case: rounds.Case) -> None:
  """An accuracy is a number of hits, and equal in both evaluations."""
  first, again = (rounds.evaluate(case, case.snapshots[-1]) for _ in range(2))
  assert [r['num_examples'] for r in first] == [4, 3, 6, 5]
  for a, b in zip(first, again):
    assert np.isfinite(a['loss'])
    # With few examples the number of hits is an integer.
    hits = a['accuracy'] * a['num_examples']
    np.testing.assert_allclose(hits, np.round(hits), atol=1e-5)
    assert 0 <= a['accuracy'] <= 1
    np.testing.assert_equal(list(a.values()), list(b.values()))


def test_accuracies_do_not_depend_on_the_last_bits(case: rounds.Case) -> None:
  """They are compared after two and three rounds, here and between runtimes."""
  for snapshot in case.snapshots[2:]:
    assert [r['is_close'] for r in rounds.evaluate(case, snapshot)] == [0.0] * 4


def test_partial_cohorts(case: rounds.Case) -> None:
  """Cohorts of three, one and two; client 1 never takes part."""
  if 'full_participation' in methods.get(case.name).needs:
    pytest.skip('This method needs all clients in every round.')
  task, process = case.task, case.process
  if task.asked:  # Otherwise the process is the same for every cohort size.
    task = tiny.task(clients_per_round=3)
    process = tiny.build(case.name, task, **case.values)
  snapshot = rounds.Snapshot(process.initialize_seeded(3), {})
  for number, cohort in enumerate([[0, 2, 3], [3], [2, 0]]):
    before = snapshot
    snapshot, metrics = rounds.play(process, before, cohort, task.train)
    assert snapshot.state['round'] == number + 1
    assert metrics['num_examples'] == sum(tiny.SIZES[i] for i in cohort)
    assert metrics['non_finite'].size == 0
  backwards, _ = rounds.play(process, before, [0, 2], task.train)
  rounds.assert_close(backwards, snapshot, rtol=0)
  never = process.initialize_client(snapshot.state, 1)
  result = process.evaluate(
      snapshot.state, [never], [dict(adapt=task.train[1], test=task.test[1])]
  )
  assert np.isfinite(result[0]['loss'])
