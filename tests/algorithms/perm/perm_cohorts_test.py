"""PERM with cohorts: kept gradients, sparse rows, the warm-up."""

import dataclasses
import types

import numpy as np
import pytest
import tensorflow as tf

from tests.algorithms.perm import perm_runs
from tff_pers import attacks
from tff_pers.algorithms.perm import fingerprints
from tff_pers.algorithms.perm import perm
from tff_pers.algorithms.perm import perm_mixing
from tff_pers.algorithms.perm import setting
from tff_pers.evaluation import clusters
from tff_pers.numerics import mixing

_N, _SIZES = perm_runs.N, perm_runs.SIZES
_OF_COHORTS = dict(
    num_rounds=5, full_participation=False, warmup_rounds=1,
    cohorts=((0, 1), (0, 1), (2, 3), (1, 0), (3, 0)),
)


def test_gradients_of_cohorts_are_kept():
  """At the w that rests from the first visit on: all pairs become known."""
  states, metrics = perm_runs.run(**_OF_COHORTS)
  w = states[0]['weights'][0]
  gradients = perm_runs.gradients_at(w)
  known = [(), (0, 1), (0, 1, 2, 3), (0, 1, 2, 3), (0, 1, 2, 3)]
  expected = np.eye(_N)
  for t, state in enumerate(states):
    np.testing.assert_array_equal(state['weights'][0], w)
    table = state['table']
    np.testing.assert_array_equal(
        np.flatnonzero(table['dates'] >= 1), known[t]
    )
    np.testing.assert_allclose(
        table['fingerprints'][list(known[t])], gradients[list(known[t])],
        rtol=1e-12,
    )
    if t >= 1:
      distances = np.full((_N, _N), np.inf)
      pairs = np.ix_(known[t], known[t])
      distances[pairs] = perm_runs.distances_at(w)[pairs]
      rows = list(_OF_COHORTS['cohorts'][t])  # Others keep theirs.
      expected[rows] = mixing.water_filling(
          distances[rows], tf.constant(_SIZES), 40.0
      )
    np.testing.assert_allclose(state['mixing'], expected, atol=1e-6)
  # Everybody sends a gradient once, and w is not sent again after that.
  model, gradient = 8 * 3, 8 * 3
  assert metrics[2]['bytes_up'] == gradient + model
  assert metrics[3]['bytes_up'] == metrics[4]['bytes_up'] == model
  assert metrics[3]['bytes_down'] == model + 8  # A model and a factor.


def test_sparse_rows_of_cohorts_are_the_largest_of_dense_ones():
  """perm section 6: top k, renormalized, with partial participation too."""
  cohorts = ((0, 1, 2, 3),) + ((0, 1, 2),) * 2
  run = lambda **values: perm_runs.run(
      3, full_participation=False, cohorts=cohorts, warmup_rounds=1,
      lambda_=200.0, **values
  )[0]
  dense, sparse = run()[2]['mixing'], run(row_nonzeros=2)[2]['mixing']
  drawn = clusters.dense_mixing(sparse, _N)
  for row, full in zip(drawn[:3], dense[:3]):
    kept = np.argsort(-full)[:2]
    np.testing.assert_allclose(
        row[kept], full[kept] / full[kept].sum(), rtol=1e-5
    )
    assert np.sum(row > 0) == 2


def test_a_client_that_has_not_come_yet_learns_from_itself():
  """Its sparse row has one column several times, and is drawn as one-hot."""
  for hyperparameters in (
      perm.PermHyperparameters(row_nonzeros=3),
      perm.PermHyperparameters(solver='projected_gradient'),
  ):
    rows = perm_mixing.initial(
        setting.PermSetting(None, hyperparameters, _N, full_participation=False)
    )
    rows = tf.nest.map_structure(np.asarray, rows)
    np.testing.assert_array_equal(clusters.dense_mixing(rows, _N), np.eye(_N))


def test_gradients_at_another_w_are_no_gradients():
  """Who is left out of a comparison has no size and no date."""
  table = fingerprints.empty_table(3, 2, tf.float32)
  for t, keys in ((4, [0, 2]), (6, [2])):
    numbers = tf.fill([len(keys)], 7.0)
    table = fingerprints.written(
        table,
        dict(
            fingerprints=tf.ones([len(keys), 2]), keys=tf.constant(keys),
            rows=numbers, sizes=numbers, variances=numbers,
        ), t,
    )
  np.testing.assert_array_equal(table['dates'], [4, -1, 6])
  found = fingerprints.since(table, 5)
  np.testing.assert_array_equal(found['dates'], [-1, -1, 6])
  np.testing.assert_array_equal(found['sizes'], [0, 0, 7])
  np.testing.assert_array_equal(found['fingerprints'][:, 0], [0, 0, 1])


@pytest.mark.parametrize('keys', [
    [0, 1, 2], [2, 0, 1], [0, 1], [1, 2], [],
], ids=str)
def test_where_nobody_is_known_the_rows_of_a_round_are_the_table(keys):
  """Without a copy if they are all, and in order."""
  rows = dict(
      fingerprints=tf.reshape(tf.range(2.0 * len(keys)), [-1, 2]) + 1,
      keys=tf.constant(keys, tf.int32),
      **{
          name: tf.constant(keys, tf.float32) + shift
          for name, shift in (('rows', 1), ('sizes', 2), ('variances', 3))
      },
  )
  # In a graph that does not know how many there are.
  found = tf.function(
      lambda *leaves: fingerprints.of_round(
          dict(zip(rows, leaves)), 3, tf.constant(7)
      ), input_signature=[
          tf.TensorSpec([None, *leaf.shape[1:]], leaf.dtype)
          for leaf in rows.values()
      ], autograph=False,
  )(*rows.values())
  expected = fingerprints.written(fingerprints.empty_table(3, 2, tf.float32), rows, 7)
  assert list(found) == list(expected)
  for name, column in expected.items():
    np.testing.assert_array_equal(found[name], column)


def test_w_rests_whatever_attackers_send():
  """From the first visit on; until then the attack moves it."""
  byzantine = np.arange(_N) == 1
  with attacks.carried_out(attacks.parse('noise[std=1]'), byzantine):
    states, _ = perm_runs.run(
        3, full_participation=False, cohorts=(tuple(range(_N)),) * 3,
        warmup_rounds=1,
    )
  w = [state['weights'][0] for state in states]
  assert np.max(np.abs(w[0] - perm_runs.global_path(1)[1])) > 1e-3
  np.testing.assert_array_equal(w[1], w[0])
  np.testing.assert_array_equal(w[2], w[0])


@pytest.mark.parametrize('full', [True, False])
def test_nobody_hosts_before_the_first_visit(full):
  """All clients are idle, send w alone, and no model is visited."""
  if full:
    states, metrics = perm_runs.run(5, schedule='matching', lambda_=8.0)
    first = 2
  else:
    states, metrics = perm_runs.run(**_OF_COHORTS)
    first = 1
  for state, measured in zip(states[:first], metrics):
    assert measured['visits_idle'] == 1
    assert measured['bytes_down'] == measured['bytes_up'] == 8 * 3
    assert not state['pending']['so_far'].any()
  assert metrics[first]['visits_idle'] < 1
  assert metrics[first]['bytes_down'] > 8 * 3
  assert states[first]['pending']['so_far'].any()


def test_many_clients_keep_sparse_rows():
  kept = lambda n, **values: setting.PermSetting(
      None, perm.PermHyperparameters(**values), n
  ).kept_per_row
  assert [kept(n) for n in (50, 1000, 1001)] == [0, 0, 100]
  assert kept(50, row_nonzeros=7) == 7
  assert kept(2000, solver='projected_gradient') == 0


def test_warm_up_is_as_long_for_every_client(caplog):
  """With 10 of 40 clients a round four times as many, or a quarter of all."""
  hyperparameters = perm.PermHyperparameters()
  assert hyperparameters.for_cohorts(_task(10, 200)).warmup_rounds == 40
  assert hyperparameters.for_cohorts(_task(10, 99)).warmup_rounds == 25
  assert hyperparameters.for_cohorts(_task(0)) is hyperparameters
  two_stage = perm.PermHyperparameters(variant='two_stage')
  assert two_stage.for_cohorts(_task(10)) is two_stage
  assert not caplog.records


@pytest.mark.parametrize('variant, cohort, rounds, field, most', [
    ('single_loop', 10, 1, 'warmup_rounds', 0),
    ('two_stage', 10, 50, 'stage1_rounds', 49),
])
def test_a_sentence_says_that_nobody_will_visit(
    variant, cohort, rounds, field, most, caplog
):
  """And its advice, or one round more, helps."""
  hyperparameters = perm.PermHyperparameters(variant=variant)
  hyperparameters.for_cohorts(_task(cohort, rounds))
  assert f'in {rounds} of the {rounds} rounds' in caplog.text
  assert f'{field} of at most {most}.' in caplog.text
  caplog.clear()
  hyperparameters.for_cohorts(_task(cohort, rounds + 1))
  advised = dataclasses.replace(hyperparameters, **{field: most})
  advised.for_cohorts(_task(cohort, rounds))
  assert not caplog.records


def test_a_warm_up_that_is_cut_is_said(caplog):
  perm.PermHyperparameters(warmup_rounds=30).for_cohorts(_task(0, 40))
  assert 'for 10 rounds, a quarter of the 40, instead of 30' in caplog.text


@pytest.mark.parametrize('cohort, models, expected', [
    (10, 0, 160 * 10 / 40), (0, 0, 160), (10, 20, 160 * 10 / 20), (10, 5, 160),
])
def test_visits_of_a_model_are_those_of_the_rounds_that_are_left(
    cohort, models, expected
):
  """160 of 200 rounds; as many visits as hosts, of which a model has a share."""
  values = perm.PermHyperparameters(warmup_rounds=40, models=models)
  assert values.num_visits(_task(cohort, 200)) == expected


def _task(cohort, rounds=100):
  return types.SimpleNamespace(
      clients_per_round=cohort, num_clients=40, full_participation=not cohort,
      rounds=rounds,
  )
