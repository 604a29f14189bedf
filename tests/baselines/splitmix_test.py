"""Split-Mix: its cycle, its reductions, its bases, and what clients deploy."""

import collections

import numpy as np
import pytest
import tensorflow as tf

from baselines import fedavg
from baselines import splitmix
from tests import problems
from tests.baselines import rounds
from tests.baselines import submodel_rounds as sr
from tff_pers.models import mixtures
from tff_pers.models import submodels
from tff_pers.models import zoo

# Client i is in tier i mod 3; M = 4.
BUDGETS = (4, 2, 1)
BASE = problems.tiny_model(3)


def _build(budgets=BUDGETS, client_weighting='uniform', base=BASE, **values):
  return splitmix.build_splitmix(
      base, budgets, range(1, len(budgets) + 1),
      lambda seed, round_num, index: index % len(budgets), 5,
      splitmix.SplitMixHyperparameters(**{**sr.STEP, **values}),
      client_weighting=client_weighting,
  )


@pytest.fixture(scope='module', name='process')
def _process():
  return _build()


@pytest.fixture(scope='module', name='other')
def _other():
  """FedAvg of one base, by examples."""
  return fedavg.build_fedavg(BASE, fedavg.FedAvgHyperparameters(**sr.STEP))


def _play(process, state, cohort, clients=None):
  return sr.play(process, state, cohort, clients)[0]


def _row(state, base):
  return tf.nest.map_structure(lambda table: table[base], state['models'])


def _moved(before, after):
  """Returns the bases that differ."""
  num_bases = len(before['models'][0])
  return [
      m for m in range(num_bases) if any(
          np.any(a != b) for a, b in zip(_row(before, m), _row(after, m))
      )
  ]


def _trained(process, state, cohort, clients=None):
  """Returns the bases that each client of a cohort trains in a round."""
  clients = problems.tiny_clients() if clients is None else clients
  messages = process.parts.dispatch(state, [np.int32(i) for i in cohort])
  outputs = process.parts.work(
      messages, [()] * len(cohort), [clients[i] for i in cohort]
  )
  return [
      np.flatnonzero(output['update']['models']['kept'][1][:, 0]).tolist()
      for output in outputs
  ]


# --- The cycle. ---


def test_draws_cover_all_bases_alike():
  """Baselines 7.5: 400 draws over 4 bases, each pass in an order of its own."""
  draws = np.array([int(splitmix.cyclic(3, k, 4)) for k in range(400)])
  np.testing.assert_array_equal(np.bincount(draws), [100] * 4)
  passes = draws.reshape(100, 4)
  np.testing.assert_array_equal(np.sort(passes), np.tile(range(4), [100, 1]))
  # 24 orders, equally likely: in 100 passes most are there.
  assert len(set(map(tuple, passes))) > 15
  other = [int(splitmix.cyclic(4, k, 4)) for k in range(40)]
  assert other != draws[:40].tolist()


def test_rounds_of_some_clients_cover_all_bases_alike():
  """Cohorts of 1 to 3 clients of budget 1: the position is server state."""
  process = _build((1, 1, 1, 4))
  rng, times, draws = np.random.default_rng(0), np.zeros(4, int), 0
  state = process.initialize_seeded(sr.SEED)
  while draws < 24:
    size = min(int(rng.integers(1, 4)), 24 - draws)
    cohort = rng.permutation(3)[:size].tolist()
    assert state['position'] == draws
    expected = [
        int(splitmix.cyclic(sr.SEED, draws + place, 4))
        for place in np.argsort(np.argsort(cohort))
    ]
    bases = _trained(process, state, cohort)
    assert bases == [[base] for base in expected]
    for base, in bases:
      times[base] += 1
    after = _play(process, state, cohort)
    assert _moved(state, after) == sorted(set(expected))
    state, draws = after, draws + size
  np.testing.assert_array_equal(times, [6] * 4)


def test_clients_without_weight_do_not_move_the_cycle():
  process = _build(client_weighting='examples')
  state = process.initialize_seeded(sr.SEED)
  clients = [sr.without_examples(0), *problems.tiny_clients()[1:]]
  assert _play(process, state, (0,), clients)['position'] == 0
  assert _play(process, state, (0, 1, 2), clients)['position'] == 2


# --- The bases of a client. ---


def _message(position=0, round_num=0):
  return collections.OrderedDict(
      seed=tf.constant(sr.SEED, tf.int64), round=tf.constant(round_num),
      position=tf.constant(position),
  )


def test_bases_are_distinct_and_the_others_uniform():
  """The first of the cycle, then one of three, within 4 standard errors."""
  times = np.zeros(4, int)
  for index in range(300):
    data = dict(index=tf.constant(index))
    first = int(splitmix.cyclic(sr.SEED, index % 9, 4))
    own = splitmix.chosen(_message(index % 9), data, 3, 4).numpy().tolist()
    assert own[0] == first and len(set(own)) == 3
    # By how far it is from the first base, so that all are alike.
    times[(own[1] - first) % 4] += 1
  assert times[0] == 0
  assert np.abs(times[1:] - 100).max() < 4 * np.sqrt(300 * 2 / 9)


def test_others_are_drawn_for_each_client_and_round():
  found = {
      tuple(splitmix.chosen(
          _message(0, round_num), dict(index=tf.constant(index)), 2, 8
      ).numpy())
      for round_num in range(4) for index in range(4)
  }
  assert len(found) > 4


# --- Reductions. ---


def test_what_nobody_trained_stays(process):
  """FedHM 3.3: bit for bit."""
  state = process.initialize_seeded(sr.SEED)
  for cohort in ((2,), (4, 2)):
    bases = _trained(process, state, cohort)
    after = _play(process, state, cohort)
    assert _moved(state, after) == sorted({b for own in bases for b in own})
    assert len(_moved(state, after)) < 4
    state = after


@pytest.mark.parametrize('masked_loss', [False, True])
def test_full_budgets_are_independent_runs_of_fedavg(masked_loss):
  """Baselines 7.5: of different initial models, on the same batches."""
  options = dict(sr.STEP, masked_loss=masked_loss)
  other = fedavg.build_fedavg(BASE, fedavg.FedAvgHyperparameters(**options))
  process = _build((3, 3), client_weighting='examples', **options)
  # With a masked loss it matters that only client 1 has class 0.
  clients = [
      data if i == 1 else sr.of_class(i, 1)
      for i, data in enumerate(problems.tiny_clients())
  ]
  state = process.initialize_seeded(sr.SEED)
  assert len({float(_row(state, m)[0][0, 0]) for m in range(3)}) == 3
  singles = []
  for m in range(3):
    single = other.initialize_seeded(sr.SEED)
    single['weights'] = _row(state, m)
    singles.append(single)
  for cohort in ((0, 2), (3, 1, 4)):
    state = _play(process, state, cohort, clients)
    singles = [_play(other, single, cohort, clients) for single in singles]
    for m, single in enumerate(singles):
      rounds.assert_close(_row(state, m), single['weights'])


def test_a_base_is_the_mean_over_those_who_trained_it(other):
  """Clients 1 and 4 of two bases each, whose own rounds are FedAvg's."""
  process = _build(client_weighting='examples')
  state = process.initialize_seeded(sr.SEED)
  cohort = (0, 1, 4)
  bases = _trained(process, state, cohort)
  after = _play(process, state, cohort)
  sizes = [problems.tiny_clients()[i]['num_examples'] for i in cohort]
  for m in range(4):
    own, shares = [], []
    for i, trained, size in zip(cohort, bases, sizes):
      if m in trained:
        start = other.initialize_seeded(sr.SEED)
        start['weights'] = _row(state, m)
        own.append(_play(other, start, (i,))['weights'])
        shares.append(size)
    expected = [
        np.average(leaves, axis=0, weights=shares) for leaves in zip(*own)
    ]
    rounds.assert_close(list(_row(after, m)), expected)


# --- What is deployed, and budgets. ---


def test_clients_deploy_the_mean_of_the_first_bases(process):
  """Clients 7 and 8 are not among the N."""
  state = _play(process, process.initialize_seeded(sr.SEED), (0, 1, 2))
  data = problems.tiny_clients()[4]
  x, y = data['examples']['x'], data['examples']['y']
  found = process.evaluate_global(state, data)
  clients = []
  for index in (0, 1, 2, 3, 4, 7, 8):
    budget = BUDGETS[index % 3]
    own = process.client_model(state, (), index)
    rounds.assert_identical(
        own, tf.nest.map_structure(lambda t: t[:budget], state['models'])  # pylint: disable=cell-var-from-loop
    )
    logits = np.mean([
        BASE.predict(_row(state, m), x, False, None) for m in range(budget)
    ], axis=0)
    loss = np.mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits))
    np.testing.assert_allclose(
        found[str(index % 3 + 1)]['loss'], loss, rtol=1e-10
    )
    clients.append((index, loss))
  metrics = process.evaluate(state, [()] * len(clients), [
      dict(adapt=dict(data, index=np.int32(i)), test=data) for i, _ in clients
  ])
  np.testing.assert_allclose(
      [m['loss'] for m in metrics], [loss for _, loss in clients], rtol=1e-10
  )
  assert list(process.tier_parameters.values()) == [4 * 20, 2 * 20, 20]


def test_bytes_are_those_of_the_bases(process):
  state = process.initialize_seeded(sr.SEED)
  _, metrics = sr.play(process, state, (0, 1, 2))
  assert metrics['bytes_down'] == metrics['bytes_up']
  np.testing.assert_allclose(metrics['bytes_up'], 8 * 20 * 7 / 3)


def test_penalty_is_that_of_the_bases():
  base = zoo.build(
      'mlp_20', tf.TensorSpec([None, 3], tf.float64), 2, tf.float64, l2=0.1
  )
  models = mixtures.initial_models(base, 3, 0)
  expected = np.mean([
      base.penalty(own) for own in mixtures.unstack(models, 3)
  ])
  for model in (splitmix.mean_of(base, 3), splitmix.mean_of_any(base, (3, 1))):
    np.testing.assert_allclose(model.penalty(models), expected, rtol=1e-10)


@pytest.mark.parametrize('sizes, bases', [
    ((0.7, 0.1), (7, 1)),  # 6.999999999999999 in floats.
    ((2.8, 0.4), (7, 1)),  # 6.999999999999999 in floats.
    ((8_769_303, 5_349_636, 3_423_974), (3, 2, 1)),  # FedHM 3.3, ResNet-34.
    ((1.0, 0.5, 0.25, 0.25), (4, 2, 1, 1)),
])
def test_numbers_of_bases_are_rounded(sizes, bases):
  """Baselines 7.5."""
  assert splitmix.rounded(sizes) == bases


def test_budgets_of_a_task_go_by_size():
  """FedHM A15: 4 bases of width .469, budgets 4, 2, 1 and 1."""
  model = zoo.build('mlp_128', tf.TensorSpec([None, 32]), 10)
  values = splitmix.SplitMixHyperparameters()
  parts = values.submodels(model, (1, 1 / 4, 1 / 8, 1 / 16))
  assert values.bases(parts) == (4, 2, 1, 1)
  given = splitmix.SplitMixHyperparameters(budgets='9:3:2:1')
  assert given.bases(parts) == (9, 3, 2, 1)
  by_width = splitmix.SplitMixHyperparameters(tiers='1:0.5')
  assert by_width.bases(submodels.Submodels(model, (1.0, 0.5))) == (2, 1)


def test_raises_on_other_budgets():
  for budgets in ('', '0:1', 'a', '1:2:'):
    with pytest.raises(ValueError, match='`budgets` must be auto, or numbers'):
      splitmix.SplitMixHyperparameters(budgets=budgets)
  values = splitmix.SplitMixHyperparameters(budgets='2:1')
  with pytest.raises(ValueError, match='`budgets` must be 3, one for each'):
    values.bases(sr.parts())
