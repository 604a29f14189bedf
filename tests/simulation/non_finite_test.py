"""Clients whose loss or update is not finite: the run stops, or drops them."""

import dataclasses
import io

import numpy as np
import pytest
import tensorflow as tf

import baselines
from tests import problems
from tff_pers.config import methods
from tff_pers.simulation import cohort
from tff_pers.simulation import non_finite
from tff_pers.simulation import position
from tff_pers.simulation import program
from tff_pers.simulation import progress
from tff_pers.simulation import release
from tff_pers.simulation import store

del baselines  # Registers.

BROKEN = 2


@pytest.fixture(scope='module', name='problem')
def _problem():
  """Returns (process, data) of Ditto; client 2 has NaN, client 5 no example."""
  q6 = problems.q6()
  centers = q6.centers.copy()
  centers[BROKEN] = np.nan
  broken = dataclasses.replace(q6, centers=centers)
  train = broken.clients()
  train[5]['num_examples'] = np.int32(0)
  train[5]['examples'] = {k: v[:0] for k, v in train[5]['examples'].items()}
  method = methods.get('ditto')
  process = method.build(
      problems.quadratic_task(q6, train=train),
      method.hyperparameters(local_steps=1, batch_size=64),
  )
  return process, program.Data(train, q6.clients())


def _trainer(problem, path=None, **options):
  process, data = problem
  return program.TrainingProgram(
      process, data, store.ClientStateStore(path),
      **{'on_non_finite': 'drop', **options},
  )


def _same(a, b):
  for x, y in zip(tf.nest.flatten(a), tf.nest.flatten(b)):
    np.testing.assert_array_equal(x, y)


def test_a_dropped_client_is_counted_and_changes_nothing(problem):
  process, data = problem
  dropping, without = _trainer(problem), _trainer(problem)
  dropping.train_round(np.array([0, 1, BROKEN]))
  without.train_round(np.array([0, 1]))
  assert dropping.position.dropped == [(BROKEN, 1)]
  assert without.position.num_dropped == 0
  _same(dropping.state, without.state)
  fresh = process.initialize_client(process.initialize_seeded(0), BROKEN)
  _same(dropping._client_states([BROKEN])[0], fresh)  # pylint: disable=protected-access


def test_rounds_are_counted_by_client():
  at = position.Position(round=4)
  at = at.with_dropped([7]).with_dropped([2, 7]).with_dropped([])
  assert at.dropped == [(2, 1), (7, 2)] and at.num_dropped == 3
  assert at.round == 4


def _run(problem, folder, rounds):
  folder.mkdir(exist_ok=True)
  trainer = _trainer(problem, folder / 'checkpoint.sqlite')
  start = trainer.position.round
  with release.Releases(
      str(folder), trainer.columns, start
  ) as releases, progress.Progress(rounds, start, io.StringIO()) as shown:
    trainer.run(
        cohort.fixed([[0, BROKEN], [1, 3], [BROKEN, 4], [BROKEN, 1]]),
        rounds=rounds, eval_every=1, releases=releases, progress=shown,
    )
  rows = (folder / 'metrics.csv').read_text().splitlines()
  column = rows[0].split(',').index('dropped')
  return trainer, [row.split(',')[column] for row in rows[1:]]


def test_counts_survive_an_interruption(problem, tmp_path):
  expected, column = _run(problem, tmp_path / 'whole', 6)
  assert expected.position.dropped == [(BROKEN, 4)]
  assert column == ['1', '1', '2', '3', '4', '4']
  _run(problem, tmp_path / 'parts', 3)
  resumed, column = _run(problem, tmp_path / 'parts', 6)
  assert column == ['1', '1', '2', '3', '4', '4']
  assert [tuple(pair) for pair in resumed.position.dropped] == [(BROKEN, 4)]
  _same(resumed.state, expected.state)


def test_there_is_no_column_when_the_run_would_stop(problem):
  assert 'dropped' not in _trainer(problem, on_non_finite='stop').columns


@pytest.mark.parametrize(
    'clients, byzantine',
    [
        ([BROKEN], []),
        ([BROKEN, 5], []),  # Client 5 has nothing to train on.
        ([1, BROKEN], [1]),  # A Byzantine client is not enough for a round.
        ([BROKEN], [BROKEN]),
    ],
)
def test_a_round_that_keeps_no_honest_client_stops(problem, clients, byzantine):
  mask = np.isin(np.arange(6), byzantine)
  trainer = _trainer(problem, byzantine=mask)
  trainer.train_round(np.array([0, 1]))
  before = trainer.state
  with pytest.raises(
      non_finite.NobodyLeftError,
      match='keep at least one honest .* in round 2 at client 2. Tip',
  ):
    trainer.train_round(np.array(clients))
  assert trainer.state is before and trainer.position.round == 1
  assert trainer.position.num_dropped == 0


def test_a_byzantine_client_may_be_dropped(problem):
  trainer = _trainer(problem, byzantine=np.arange(6) == BROKEN)
  trainer.train_round(np.array([0, BROKEN]))
  assert trainer.position.dropped == [(BROKEN, 1)]
