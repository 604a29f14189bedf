"""FFGG and Local FFGG on real examples: what a client and the server do.

The checks of papers/partial_personalization.md 8 on quadratics are in
ffgg_least_squares_test.py.
"""

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests import problems
from tests.baselines import rounds
from tff_pers.algorithms.ffgg import ffgg
from tff_pers.algorithms.ffgg import ffgg_hyperparameters as ffgg_hp
from tff_pers.algorithms.ffgg import ffgg_private
from tff_pers.algorithms.ffgg import ffgg_stages
from tff_pers.algorithms.ffgg import local_ffgg
from tff_pers.client_works import client_work
from tff_pers.client_works import local_sgd
from tff_pers.config import hyperparameters as hp
from tff_pers.config import methods
from tff_pers.models import least_squares
from tff_pers.models import partition
from tff_pers.testing import tiny

pytestmark = pytest.mark.usefixtures('native_runtime')
_LOCAL = dict(local_steps=5, local_epochs=0, batch_size=2, learning_rate=0.1)
_FULL = dict(_LOCAL, batch_size=7)
_MORE = dict(
    momentum=0.5, weight_decay=0.1, learning_rate_rounds='2',
    learning_rate_schedule='exponential',
)
_MIXED = (False, True, False, True)  # Biases are private.
_HEAD = (False, False, True, True)


_METHODS = {
    'ffgg': (ffgg.build_ffgg, ffgg_hp.FFGGHyperparameters),
    'local_ffgg': (
        local_ffgg.build_local_ffgg, ffgg_hp.LocalFFGGHyperparameters
    ),
}


def _build(name, is_private=_MIXED, options=(), **arguments):
  build, kind = _METHODS[name]
  return build(
      partition.Partition(problems.tiny_model(), is_private),
      kind(**{**_LOCAL, **dict(options)}),
      **{'client_weighting': 'examples', **arguments},
  )


def _descended(weights, data, rate, leaves):
  _, gradient = rounds.gradient(weights, data)
  return [
      w - rate * g if i in leaves else w
      for i, (w, g) in enumerate(zip(weights, gradient))
  ]


def _run_fedavg(**options):
  """Returns a run of FedAvg on the runtime of this file.

  Those that `rounds.run` remembers are for tests on the other runtime, whose
  numbers differ in the last bits.
  """
  return rounds.run_weighted.__wrapped__('fedavg', 'examples', **options)


_W0 = lambda: list(problems.tiny_model().initial_weights(rounds.SEED))
_DATA = problems.tiny_clients()[4]


@pytest.mark.parametrize('options', [
    {}, _MORE, dict(local_steps=0, local_epochs=2),
])
def test_local_ffgg_without_private_weights_is_fedavg_bit_for_bit(options):
  """Baselines B1: the alternating loop has the batches of the main line."""
  states, _, _ = rounds.train(_build('local_ffgg', (False,) * 4, options))
  _, plain, _, _ = _run_fedavg(**options)
  for state, expected in zip(states, plain):
    rounds.assert_identical(state['weights'], expected['weights'])


def test_ffgg_without_private_weights_is_gradient_descent():
  process = _build('ffgg', (False,) * 4, dict(server_learning_rate=0.7))
  states, _, metrics = rounds.train(process)
  weights, clients = _W0(), problems.tiny_clients()
  for cohort, state, metric in zip(rounds.COHORTS, states, metrics):
    found = [rounds.gradient(weights, clients[i]) for i in cohort]
    sizes = np.array([clients[i]['num_examples'] for i in cohort], float)
    weights = [
        w - 0.7 * sum(n * g[k] for n, (_, g) in zip(sizes, found)) / sizes.sum()
        for k, w in enumerate(weights)
    ]
    rounds.assert_close(state['weights'], weights)
    np.testing.assert_allclose(  # The mean over the cohort, as all losses.
        metric['train_loss'], np.mean([loss for loss, _ in found]), rtol=1e-6
    )


@pytest.mark.parametrize('rate', [0.1, 0.3])
def test_ffgg_sends_the_gradient_at_the_fine_tuned_private_weights(rate):
  process = _build(
      'ffgg', options=dict(
          _FULL, local_steps=3, learning_rate=rate, server_learning_rate=0.5
      )
  )
  states, kept, metrics = rounds.train(process, cohorts=((4,),))
  tuned = _W0()
  for _ in range(3):  # tau steps, theta at what was received.
    tuned = _descended(tuned, _DATA, rate, (1, 3))
  loss, gradient = rounds.gradient(tuned, _DATA)
  delta = gradient[0::2]  # Of theta, w constant.
  expected = [w - 0.5 * g for w, g in zip(_W0()[0::2], delta)]
  rounds.assert_close(states[0]['weights'], expected)
  assert not rounds.leaves(kept[4])
  np.testing.assert_allclose(metrics[0]['train_loss'], loss, rtol=1e-6)
  squared = sum(np.sum(np.square(d)) for d in delta)
  np.testing.assert_allclose(
      metrics[0]['mean_squared_norm'], squared, rtol=1e-6
  )
  np.testing.assert_allclose(
      metrics[0]['norm_of_mean'], np.sqrt(squared), rtol=1e-6
  )


def test_local_ffgg_alternates_and_theta_moves_at_the_new_private_weights():
  process = _build(
      'local_ffgg', options=dict(
          _FULL, local_steps=2, private_steps=3, private_epochs=0,
          private_learning_rate=0.3, server_learning_rate=0.5,
      )
  )
  states, _, metrics = rounds.train(process, cohorts=((4,),))
  weights = _W0()
  for _ in range(3):
    weights = _descended(weights, _DATA, 0.3, (1, 3))
  for _ in range(2):
    weights = _descended(weights, _DATA, 0.3, (1, 3))
    weights = _descended(weights, _DATA, 0.1, (0, 2))
  delta = [a - b for a, b in zip(_W0()[0::2], weights[0::2])]
  expected = [w - 0.5 * d for w, d in zip(_W0()[0::2], delta)]
  rounds.assert_close(states[0]['weights'], expected)
  np.testing.assert_allclose(  # Of the sum of the gradients, not of Delta.
      metrics[0]['mean_squared_norm'],
      sum(np.sum(np.square(d / 0.1)) for d in delta), rtol=1e-6,
  )


@pytest.mark.parametrize('name', ['ffgg', 'local_ffgg'])
def test_norms_are_of_gradients_and_weighted_alike_in_every_stage(name):
  """One full-batch step of the round's own rate, clients of unequal sizes."""
  options = dict(
      local_steps=1, pretrain_rounds=1, pretrain_learning_rate=0.3,
      learning_rate_schedule='exponential', learning_rate_rounds='2',
      learning_rate_decay=0.25,
  )
  process = _build(name, options=dict(_FULL, **options))
  clients = [problems.tiny_clients()[i] for i in (0, 2)]
  sizes = np.array([c['num_examples'] for c in clients], float)
  shares = sizes / sizes.sum()
  states, _, metrics = rounds.train(process, cohorts=((0, 2),) * 3)
  weights = _W0()
  for t, (state, metric) in enumerate(zip(states, metrics)):
    found = []
    for client in clients:
      own = list(weights)
      # Local FFGG: a step of fine-tuning, then the first alternating one.
      for _ in range({'ffgg': 1, 'local_ffgg': 2}[name] if t else 0):
        rate = 0.1 * 0.5 ** (t - 1)  # The schedule of stage 2.
        own = _descended(own, client, rate, (1, 3))
      _, gradient = rounds.gradient(own, client)
      found.append(np.concatenate([np.ravel(g) for g in gradient[0::2]]))
    assert abs(shares[0] - 0.5) > 0.05
    np.testing.assert_allclose(
        metric['mean_squared_norm'], shares @ np.sum(np.square(found), axis=1),
        rtol=1e-6,
    )
    np.testing.assert_allclose(
        metric['norm_of_mean'], np.linalg.norm(shares @ found), rtol=1e-6
    )
    weights[0::2] = rounds.leaves(state['weights'])
    weights[1::2] = rounds.leaves(state['private'])


@pytest.mark.parametrize('name', ['ffgg', 'local_ffgg'])
@pytest.mark.parametrize('is_stateful', [False, True])
def test_only_global_weights_travel(name, is_stateful):
  process = _build(name, options=dict(stateful=is_stateful))
  parts = partition.Partition(problems.tiny_model(), _MIXED)
  message = process.parts.dispatch.type_signature.result.member
  update = process.parts.work.type_signature.result.member['update']
  assert tff.structure.name_list(message) == ['seed', 'round', 'weights']
  theta_type = parts.global_model(()).weights_type
  assert message['weights'] == update['weights'] == theta_type
  assert tff.structure.name_list(update) == ['weights']
  own_type = parts.private_model(()).weights_type
  kept = own_type if is_stateful else tff.to_type(())
  assert process.client_state_type == kept


@pytest.mark.parametrize('name', ['ffgg', 'local_ffgg'])
def test_clients_start_anew_unless_they_are_stateful(name):
  first = ((4,), (4,))
  fresh, _, _ = rounds.train(_build(name, options=_FULL), cohorts=first)
  kept, own, _ = rounds.train(
      _build(name, options=dict(_FULL, stateful=True)), cohorts=first
  )
  rounds.assert_identical(fresh[0]['weights'], kept[0]['weights'])
  process = _build(name, options=_FULL)
  # A client that was never seen sends the same in round 1.
  again = process.next(fresh[0], [()], [problems.tiny_clients()[4]])
  rounds.assert_identical(
      again['state']['weights'], fresh[1]['weights']
  )
  different = zip(rounds.leaves(fresh[1]), rounds.leaves(kept[1]))
  assert any(np.any(a != b) for a, b in different)
  # What a stateful client keeps is where its next fine-tuning starts.
  if name == 'ffgg':
    weights = _W0()
    for theta in (_W0()[0::2], rounds.leaves(kept[0]['weights'])):
      weights[0], weights[2] = theta
      for _ in range(5):
        weights = _descended(weights, _DATA, 0.1, (1, 3))
    rounds.assert_close(own[4], weights[1::2])


def _starts(private_init, client=4, round_num=0):
  """Returns the private weights that a client starts from."""
  private = ffgg_private.PrivateWeights(
      partition.Partition(problems.tiny_model(), _HEAD),
      ffgg_hp.FFGGHyperparameters(private_init=private_init),
  )
  message = rounds.message((), rounds.SEED, round_num)
  data = rounds.tensors(problems.tiny_clients()[client])
  return rounds.leaves(private.start(message, (), data))


def test_where_private_weights_start():
  rounds.assert_identical(_starts('initial'), _W0()[2:])
  rounds.assert_identical(_starts('initial', 2, 5), _W0()[2:])
  assert not any(np.any(leaf) for leaf in _starts('zeros'))
  rounds.assert_identical(_starts('random'), _starts('random'))
  for other in (_starts('random', 2), _starts('random', 4, 1), _W0()[2:]):
    assert not np.any(np.isclose(_starts('random')[0], other[0]))


def _learned(theta, own, data, *, epochs, rate):
  """Returns the weights after passes of fine-tuning, as at evaluation."""
  parts = partition.Partition(problems.tiny_model(), _MIXED)
  message = rounds.message(theta, rounds.SEED, 3)
  tuned, _ = local_sgd.train(
      parts.private_model(theta), own, rounds.tensors(data),
      num_epochs=epochs, batch_size=2, learning_rate=rate,
      seed=client_work.key(
          message, rounds.tensors(data), ffgg_private.FINE_TUNING
      ),
  )
  return parts.merge(theta, tuned)


@pytest.mark.parametrize('name, options, rate, client', [
    ('ffgg', _MORE, 0.1, 5),
    ('local_ffgg', dict(private_learning_rate=0.2), 0.2, 2),
    ('local_ffgg', dict(stateful=True), 0.1, 2),
    ('local_ffgg', dict(stateful=True), 0.1, 5),
])
def test_clients_fine_tune_before_they_are_evaluated(
    name, options, rate, client
):
  """Stage 3: of clients that trained, and of a new one; no schedule."""
  if 'momentum' in options:
    options = dict(options, momentum=0.0, weight_decay=0.0)
  process = _build(name, options=dict(options, adapt_epochs=3))
  states, kept, _ = rounds.train(process)
  data = collections.OrderedDict(
      problems.tiny_clients()[2], index=np.int32(client)
  )
  state = states[-1]
  own = kept.get(client, process.initialize_client(state, client))
  actual = process.evaluate(state, [own], [dict(adapt=data, test=data)])[0]
  theta = [tf.constant(leaf) for leaf in rounds.leaves(state['weights'])]
  start = tuple(_W0()[1::2])
  if 'stateful' in options:
    start = tuple(map(tf.constant, rounds.leaves(own)))
  learned = _learned(theta, start, data, epochs=3, rate=rate)
  loss, _ = rounds.gradient(learned, data)
  np.testing.assert_allclose(actual['loss'], loss, rtol=1e-9)
  # Without looking at data it deploys what it would start from.
  rounds.assert_identical(
      process.client_model(state, own, client)[1::2], start
  )


def test_adam_fine_tunes_for_its_epochs_before_an_evaluation():
  """Three steps on all examples, however many a round has; TFF's Adam.

  The step size is the constant one, though that of the rounds has decayed.
  """
  private = ffgg_private.PrivateWeights(
      partition.Partition(problems.tiny_model(), _MIXED),
      ffgg_hp.FFGGHyperparameters(
          tuner='adam', learning_rate=0.05, batch_size=7, local_steps=1,
          local_epochs=0, adapt_epochs=3, learning_rate_schedule='steps',
          learning_rate_rounds='1',
      ),
  )
  tuned = private.tune_finally(
      rounds.message(_W0()[0::2], rounds.SEED, round_num=1), (),
      rounds.tensors(problems.tiny_clients()[4]),
  )
  weights, m, v = _W0(), [0.0, 0.0], [0.0, 0.0]
  for t in (1, 2, 3):
    _, gradient = rounds.gradient(weights, _DATA)
    rate = 0.05 * np.sqrt(1 - 0.999 ** t) / (1 - 0.9 ** t)
    for k, g in enumerate(gradient[1::2]):
      m[k] = 0.9 * m[k] + 0.1 * g
      v[k] = 0.999 * v[k] + 0.001 * g * g
      weights[2 * k + 1] -= rate * m[k] / (np.sqrt(v[k]) + 1e-7)
  rounds.assert_close(tuned, weights[1::2], atol=1e-8)


_PRETRAINED = dict(
    pretrain_rounds=2, pretrain_learning_rate=0.2,
    pretrain_server_learning_rate=0.5,
)


def test_pretraining_has_a_step_of_the_server_of_its_own():
  """One step on all examples of one client: w <- w - .2 * .5 * gradient."""
  process = _build('local_ffgg', options=dict(
      _PRETRAINED, server_learning_rate=0.25, local_steps=1, batch_size=7,
  ))
  data = problems.tiny_clients()[4]
  state = process.initialize_seeded(rounds.SEED)
  state = process.next(state, [()], [data])['state']
  expected = _descended(_W0(), data, 0.2 * 0.5, range(4))
  found = partition.Partition(problems.tiny_model(), _MIXED).merge(
      state['weights'], state['private']
  )
  rounds.assert_close(found, expected, atol=1e-12)


@pytest.mark.parametrize('name, server', [
    ('ffgg', 'sgd'), ('local_ffgg', 'adam'), ('ffgg', 'adam'),
    ('local_ffgg', 'sgd'),
])
def test_pretraining_is_fedavg_then_private_weights_start_from_it(
    name, server
):
  options = dict(server_optimizer=server)
  process = _build(name, options=dict(_PRETRAINED, **options))
  states, kept, metrics = rounds.train(process)
  parts = partition.Partition(problems.tiny_model(), _MIXED)
  if server == 'sgd':
    _, plain, _, _ = _run_fedavg(learning_rate=0.2, server_learning_rate=0.5)
    for state, expected in zip(states[:2], plain):
      theta, own = parts.split(expected['weights'])
      rounds.assert_identical(state['weights'], theta)
      rounds.assert_identical(state['private'], own)
  # In round 2 the work is that of a method without stage 1, from these weights.
  rounds.assert_identical(states[2]['private'], states[1]['private'])
  assert not rounds.leaves(list(kept.values()))
  later = _build(name, options=dict(options, stateful=True))
  state = later.initialize_seeded(rounds.SEED)
  state['weights'], state['round'] = states[1]['weights'], 2
  cohort = rounds.COHORTS[2]
  expected = later.next(
      state, [states[1]['private']] * 2,
      [problems.tiny_clients()[i] for i in cohort],
  )
  rounds.assert_close(states[2]['weights'], expected['state']['weights'])
  # All weights are sent in stage 1, theta alone in stage 2.
  sent = [float(metric['bytes_up']) for metric in metrics]
  counts = parts.num_parameters()
  assert sent == [8.0 * sum(counts)] * 2 + [8.0 * counts[0]]
  data = problems.tiny_clients()[0]
  rounds.assert_identical(
      process.client_model(states[2], (), 0)[1::2], states[1]['private']
  )
  loss = process.evaluate(states[2], [()], [dict(adapt=data, test=data)])
  assert np.isfinite(loss[0]['loss'])


def test_each_stage_has_a_schedule_of_its_own():
  """That of stage 1 lasts for its rounds; steps are at the given rounds."""
  kind = ffgg_hp.LocalFFGGHyperparameters
  linear = kind(
      pretrain_rounds=4, pretrain_learning_rate=0.5, learning_rate=0.1,
      learning_rate_schedule='linear', learning_rate_rounds='2',
  )
  def rates(hyperparameters):
    first = [
        ffgg_stages._pretrain_rate(hyperparameters, dict(round=r))
        for r in range(4)
    ]
    later = [hyperparameters.scheduled(dict(round=r), 0.1) for r in (4, 5)]
    return np.array([*first, *later])
  np.testing.assert_allclose(
      rates(linear),
      [0.5, 0.5 * 3 / 3.6, 0.5 * 2 / 3.6, 0.5 * 1 / 3.6, 0.1, 0.1 / 1.8],
  )
  steps = hp.replace(
      linear, learning_rate_schedule='steps', learning_rate_rounds='1:3',
      learning_rate_decay=0.5,
  )
  np.testing.assert_allclose(
      rates(steps), [0.5, 0.25, 0.25, 0.125, 0.1, 0.05]
  )
  # A run is rated when the second one has ended.
  assert steps.cadence(4, 2).first == 4 + 3


def test_gradient_of_a_few_examples():
  """One of seven: another one in other rounds. Seven: all of them."""
  def steps(number, num_rounds):
    process = _build('ffgg', options=dict(
        _FULL, local_steps=1, server_learning_rate=1.0,
        gradient_examples=number,
    ))
    first = process.initialize_seeded(rounds.SEED)
    for r in range(num_rounds):
      output = process.next(
          dict(first, round=np.int32(r)), [()], [problems.tiny_clients()[4]]
      )
      found = zip(first['weights'], output['state']['weights'])
      yield np.concatenate([np.ravel(a - b) for a, b in found])
  tuned = _descended(_W0(), _DATA, 0.1, (1, 3))
  def gradient(rows):
    _, found = rounds.gradient(tuned, dict(examples={
        name: leaf[rows] for name, leaf in _DATA['examples'].items()
    }))
    return np.concatenate([np.ravel(g) for g in found[0::2]])
  single = np.array([gradient([row]) for row in range(7)])
  rows = []
  for step in steps(1, 4):
    apart = np.abs(single - step).max(axis=1)
    rows.append(int(np.argmin(apart)))
    assert apart.min() <= 1e-6 < np.partition(apart, 1)[1]
  assert len(set(rows)) > 1
  step, = steps(7, 1)
  np.testing.assert_allclose(step, gradient(range(7)), atol=1e-6)


@pytest.mark.parametrize('name, stages, batch, clip', [
    # (rounds, client rate, server rate) of stage 1, then of stages 2 and 3.
    ('stackoverflow', [(1000, 1.0, 5e-4), (500, 0.1, 5e-5)], 64, 0.1),
    ('gldv2', [(2500, 1e-2, 2e-4), (600, 1e-3, 2e-5)], 64, 0.0),
    ('emnist', [(2000, 0.5, 1.0), (500, 1e-2, 1.0)], 32, 0.0),
])
def test_recipes_are_table_2(name, stages, batch, clip):
  options = methods.get('local_ffgg').recipe(name)
  assert options.pop('client_weighting') == 'uniform'
  recipe = ffgg_hp.LocalFFGGHyperparameters(**options)
  (rounds_, rate, server), (later, later_rate, later_server) = stages
  assert recipe.pretrain_rounds == rounds_
  assert (recipe.pretrain_rate, recipe.learning_rate) == (rate, later_rate)
  assert recipe.private_rate == later_rate
  assert recipe.pretrain_server_learning_rate == server
  assert recipe.server_learning_rate == later_server
  assert (recipe.batch_size, recipe.clip_norm) == (batch, clip)
  assert (recipe.local_epochs, recipe.adapt_epochs) == (1, 5)
  # Falling to 0 at the end of stage 2, or halved every 500 rounds.
  end = recipe.scheduled(dict(round=rounds_ + later - 1), 1.0)
  assert end == (1.0 if name == 'emnist' else 1 / (0.9 * later))
  if name == 'emnist':
    assert ffgg_stages._pretrain_rate(recipe, dict(round=1999)) == 0.5 / 8


def test_train_says_that_private_steps_are_small():
  """Than those of stage 1, or of theta; not where a solver has no rate."""
  task = tiny.task()
  kind = ffgg_hp.LocalFFGGHyperparameters
  for options, words in (
      (dict(learning_rate=0.1, private_learning_rate=0.004), '25 times smaller'),
      (dict(learning_rate=0.01, pretrain_rounds=2, pretrain_learning_rate=0.5),
       'than 0.5'),
  ):
    assert words in kind(**options).describe(task)
  assert 'smaller' not in kind(learning_rate=0.001).describe(task)
  assert 'smaller' not in kind(
      learning_rate=0.1, private_learning_rate=0.004, tuner='exact'
  ).describe(task)


def test_fine_tuning_has_batches_of_its_own():
  """Use 1 of the key; the alternating steps have the main line, use 0."""

  def tell(model, own, data, *, seed, **options):
    del model, data, options  # Unused.
    return tf.nest.map_structure(
        lambda leaf: tf.fill(leaf.shape, tf.cast(seed[1], leaf.dtype)), own
    )

  process = _build('ffgg', options=dict(stateful=True), tuner=tell)
  _, kept, _ = rounds.train(process, cohorts=((2,),))
  data = rounds.tensors(problems.tiny_clients()[2])
  keys = [
      float(client_work.key(rounds.message((), rounds.SEED), data, use)[1])
      for use in (0, 1)
  ]
  assert rounds.leaves(kept[2])[0][0] == keys[1] != keys[0]


@pytest.mark.parametrize('name', ['ffgg', 'local_ffgg'])
def test_raises_without_global_weights(name):
  with pytest.raises(ValueError, match='must leave .* a global weight'):
    _build(name, (True,) * 4)


@pytest.mark.parametrize('name', ['ffgg', 'local_ffgg'])
def test_raises_on_a_random_start_that_nothing_draws(name):
  """Weights of least squares are zero at first."""
  build, kind = _METHODS[name]
  parts = partition.Partition(least_squares.build(3, 2, 5), (False, True))
  with pytest.raises(ValueError, match='`private_init` must be initial or zer'):
    build(parts, kind(private_init='random'))


@pytest.mark.parametrize('tuner', ['exact', 'cg'])
def test_raises_on_solving_a_network(tuner):
  options = dict(tuner=tuner, server_learning_rate=0.1)
  parts = partition.Partition(problems.tiny_model(), _HEAD)
  steps = dict(local_steps=3, local_epochs=0) if tuner == 'cg' else {}
  values = ffgg_hp.FFGGHyperparameters(**options, **steps)
  with pytest.raises(ValueError, match=f'`tuner` must be .*found {tuner}'):
    ffgg.build_ffgg(parts, values)


@pytest.mark.parametrize('kind, options, sentence', [
    (ffgg_hp.FFGGHyperparameters, dict(tuner='cg'), '`local_steps` must be > 0'),
    (
        ffgg_hp.LocalFFGGHyperparameters, dict(tuner='cg'),
        '`private_steps` must be > 0',
    ),
    (
        ffgg_hp.LocalFFGGHyperparameters, dict(private_steps=3),
        'Exactly one of `private_steps`',
    ),
    (
        ffgg_hp.FFGGHyperparameters, dict(tuner='exact', learning_rate=0.2),
        '`learning_rate` must be left at',
    ),
    (
        ffgg_hp.FFGGHyperparameters, dict(stateful=True, pretrain_rounds=3),
        '`pretrain_rounds` must be left at 0',
    ),
])
def test_raises_on_what_does_not_fit(kind, options, sentence):
  with pytest.raises(ValueError, match=sentence):
    kind(**options)
