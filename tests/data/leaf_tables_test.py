"""JSON in the form of LEAF becomes a table, or a sentence."""

import json

import numpy as np
import pytest

from tff_pers.data import errors
from tff_pers.data import leaf_tables
from tff_pers.data import tasks


def _write(folder, users, name='all.json'):
  folder.mkdir(parents=True, exist_ok=True)
  (folder / name).write_text(json.dumps(dict(
      users=list(users), num_samples=[len(y) for _, y in users.values()],
      user_data={user: dict(x=x, y=y) for user, (x, y) in users.items()},
  )))


def _two(folder):
  for part, value in (('train', 1.5), ('test', 2.5)):
    _write(folder / part, {
        'f_02': ([[value, 0]] * 3, [0, 1, 0]), 'f_01': ([[value, 9]], [1]),
    })
  return str(folder)


@pytest.mark.parametrize('inner', ['', 'data'])
def test_folders_of_a_split_are_read(tmp_path, inner):
  _two(tmp_path / inner)
  table = leaf_tables.read(str(tmp_path))
  assert table.names.tolist() == ['f_01', 'f_02']
  assert table.client.tolist() == [1, 1, 1, 0] * 2
  assert table.is_test.tolist() == [False] * 4 + [True] * 4
  np.testing.assert_array_equal(table.x[[3, 4]], [[1.5, 9], [2.5, 0]])
  assert table.y.tolist() == [0, 1, 0, 1] * 2


def test_a_folder_of_files_is_a_task_with_classes_by_name(tmp_path):
  _write(tmp_path, {'ann': ([[1], [2]], ['no', 'yes'])}, 'a.json')
  _write(tmp_path, {'bob': ([[3], [4]], ['yes', 'no'])}, 'b.json')
  family = tasks.get('leaf')
  task = family.build(
      tasks.TaskRequest(data_dir=str(tmp_path)), family.options()
  )
  assert task.class_names == ['no', 'yes']
  assert list(task.client_names) == ['ann', 'bob']


@pytest.mark.parametrize('x, message', [
    (['to be', 'or not'], "numbers in x, found 'to be'. Tip: --task=shakespeare"),
    ([[1], [2, 3]], 'x of one shape in all examples'),
])
def test_raises_on_other_examples(tmp_path, x, message):
  _write(tmp_path, {'ann': (x, [0, 1])})
  with pytest.raises(errors.DataError, match=message):
    leaf_tables.read(str(tmp_path))


def test_raises_without_files(tmp_path):
  with pytest.raises(errors.DataError, match='must name a folder of JSON'):
    leaf_tables.read(str(tmp_path / 'nowhere'))
  with pytest.raises(errors.DataError, match='must hold .json files, found no'):
    leaf_tables.read(str(tmp_path))


def test_numbers_are_scaled_where_that_is_asked_for(tmp_path):
  family = tasks.get('leaf')
  task = family.build(
      tasks.TaskRequest(data_dir=_two(tmp_path), standardize=True),
      family.options(min_examples=2),
  )
  x = np.concatenate([data['examples']['x'] for data in task.train])
  np.testing.assert_allclose(x.mean(axis=0), 0, atol=1e-6)
  assert task.features.standardize
