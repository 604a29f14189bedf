"""Files of a run survive being written and read."""

import numpy as np
import pytest

from tff_pers.evaluation import damaged
from tff_pers.evaluation import results


def test_run_reads_what_was_written(tmp_path):
  folder = str(tmp_path / 'a' / 'run')
  results.write_config(folder, dict(variant='perm', flags={}))
  results.write_clients(folder, [
      dict(client=4, seen=1, num_train=3, num_test=2, accuracy=0.5, loss=0.25),
      dict(client=7, seen=0, num_train=3, num_test=0, accuracy=None, loss=None),
  ])
  results.write_data(
      folder, [4, 7], np.array([[1, 2, 0], [0, 0, 3]]), np.array([1, 0])
  )
  run = results.read_run(folder)
  assert run.variant == 'perm' and run.metrics == {} and run.mixing is None
  np.testing.assert_array_equal(run.clients['accuracy'], [0.5, np.nan])
  np.testing.assert_array_equal(run.clients['client'], [4, 7])
  np.testing.assert_array_equal(run.class_counts, [[1, 2, 0], [0, 0, 3]])
  np.testing.assert_array_equal(run.groups, [1, 0])
  np.testing.assert_array_equal(run.client_names, [4, 7])
  assert results.find_runs(str(tmp_path)) == [folder]


def test_groups_of_regression_tasks_are_kept(tmp_path):
  folder = str(tmp_path)
  results.write_config(folder, dict(variant='ensemble', flags={}))
  results.write_data(folder, [4, 7], None, np.array([1, 0]))
  np.save(tmp_path / results.ROUTER, np.eye(2))
  run = results.read_run(folder)
  assert run.class_counts is None
  np.testing.assert_array_equal(run.groups, [1, 0])
  np.testing.assert_array_equal(run.router, np.eye(2))


def test_a_diverged_run_has_its_sentence_until_it_goes_on(tmp_path):
  folder = str(tmp_path)
  results.write_config(folder, dict(variant='perm', flags={}))
  assert results.read_run(folder).diverged is None
  results.write_diverged(folder, None)
  results.write_diverged(folder, 'NaN in round 3.')
  assert results.read_run(folder).diverged == 'NaN in round 3.'
  results.write_diverged(folder, None)
  assert results.read_run(folder).diverged is None


def test_raises_where_there_is_no_run(tmp_path):
  with pytest.raises(FileNotFoundError):
    results.read_run(str(tmp_path))


def test_unknown_groups_are_written_as_minus_one(tmp_path):
  results.write_data(str(tmp_path), [0, 1], np.eye(2, dtype=np.int64), None)
  assert (tmp_path / 'data.csv').read_text().splitlines() == [
      'client,group,0,1', '0,-1,1,0', '1,-1,0,1'
  ]


def test_markdown_aligns_and_leaves_none_empty():
  text = results.markdown(
      ('a', 'long'), [dict(a='x', long=0.5), dict(a=None, long=float('nan'))]
  )
  assert text.splitlines() == [
      '| a | long   |', '|---|--------|', '| x | 0.5000 |', '|   | nan    |'
  ]


@pytest.mark.parametrize('text', [
    '{"features": 3}', '[', '{"features": [{}], "standardize": true}', '7',
])
def test_damaged_features_are_named(text, tmp_path):
  (tmp_path / results.FEATURES).write_text(text)
  with pytest.raises(damaged.DamagedError, match='features.json must be a file as'):
    results.read_features(str(tmp_path))
