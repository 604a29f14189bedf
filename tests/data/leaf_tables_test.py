"""JSON in the form of LEAF becomes a table, or a sentence."""

import json

import numpy as np
import pytest
import tensorflow as tf

from tests import built
from tff_pers.data import errors
from tff_pers.data import leaf_tables


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
  task = built.task('leaf', tmp_path)
  assert task.class_names == ['no', 'yes']
  assert list(task.client_names) == ['ann', 'bob']


@pytest.mark.parametrize('x, message', [
    (['to be', 'or not'], "a class for each text, .* 'to be'. Tip: --task=shak"),
    ([[1], [2, 3]], 'numbers of one shape, .*, found several shapes in x'),
    ([['so', 'be'], ['it', 'is']], r"in y .*, found \['so', 'be'\] in x. Tip"),
    (['1.jpg', '2.jpg'], 'the images that x names in raw/img_align.*no 1.jpg'),
])
def test_raises_on_other_examples(tmp_path, x, message):
  _write(tmp_path, {'ann': (x, ['a', 'b'])})
  with pytest.raises(errors.DataError, match=message):
    leaf_tables.read(str(tmp_path))


def test_tweets_are_the_shares_of_their_words(tmp_path):
  """The form of Sent140; equal words are equal, wherever they stand."""
  texts = ['Good day', 'day good!', 'bad night']
  tweets = [['1', 'Mon', 'NO_QUERY', 'ann', text, 'x'] for text in texts]
  _write(tmp_path / 'train', {'ann': (tweets, ['4', '4', '0'])})
  _write(tmp_path / 'test', {'ann': (tweets[:1], ['4'])})
  table = leaf_tables.read(str(tmp_path))
  assert table.classes == ('0', '4') and table.x.shape == (4, 1000)
  np.testing.assert_allclose(table.x.sum(axis=1), 1)
  np.testing.assert_array_equal(table.x[0], table.x[3])
  assert set(np.flatnonzero(table.x[0])) < set(np.flatnonzero(table.x[1]))
  assert not set(np.flatnonzero(table.x[0])) & set(np.flatnonzero(table.x[2]))


def test_images_are_read_by_their_names(tmp_path):
  """As of CelebA, in the size that LEAF's model takes."""
  images = tmp_path / 'data' / 'raw' / 'img_align_celeba'
  images.mkdir(parents=True)
  for name, value in (('1.png', 51), ('2.png', 255)):
    tf.io.write_file(str(images / name), tf.io.encode_png(
        np.full([20, 10, 3], value, np.uint8)
    ))
  for part in ('train', 'test'):
    _write(
        tmp_path / 'data' / part, {'7': (['1.png', '2.png'], [0, 1])}
    )
  table = leaf_tables.read(str(tmp_path))
  assert table.x.shape == (4, 84, 84, 3)
  np.testing.assert_allclose(table.x[:, 5, 5, 0], [0.2, 1, 0.2, 1], rtol=1e-6)


def test_raises_without_files(tmp_path):
  with pytest.raises(errors.DataError, match='must name a folder of JSON'):
    leaf_tables.read(str(tmp_path / 'nowhere'))
  with pytest.raises(errors.DataError, match='must hold .json files, found no'):
    leaf_tables.read(str(tmp_path))


def test_numbers_are_scaled_where_that_is_asked_for(tmp_path):
  options = dict(min_examples=2)
  task = built.task('leaf', _two(tmp_path), options, standardize=True)
  x = np.concatenate([data['examples']['x'] for data in task.train])
  np.testing.assert_allclose(x.mean(axis=0), 0, atol=1e-6)
  assert task.features.standardize
