"""Tests of `texts`: Shakespeare and Stack Overflow as they are published."""

import json

import numpy as np
import pytest

from tests import built
from tests.data.formats import files
from tff_pers.data import errors
from tff_pers.data import on_demand
from tff_pers.data.formats import download
from tff_pers.data.formats import published
from tff_pers.data.formats import texts


def _snippets(*found: str):
  return dict(snippets=[text.encode() for text in found])


PLAYS = {
    'train': {
        'HAMLET': _snippets('To be, or not to be', 'Ay'), 'GHOST': _snippets('O'),
    },
    'test': {'HAMLET': _snippets('That is the question')},
}


def _hdf5(folder, name, parts):
  for part, own in parts.items():
    files.hdf5(folder / f'{name}_{part}.h5', own)


@pytest.mark.parametrize('inner', ['', 'shakespeare'])
@pytest.mark.parametrize('kind', ['sqlite', 'hdf5'])
def test_plays_of_tff_keep_their_split(tmp_path, kind, inner):
  if kind == 'sqlite':
    files.sqlite(tmp_path / inner / 'shakespeare.sqlite', PLAYS)
  else:
    _hdf5(tmp_path / inner, 'shakespeare', PLAYS)
  corpus = texts.plays(str(tmp_path))
  assert [text.words for text in corpus.clients['HAMLET']] == [
      'To be, or not to be', 'Ay', 'That is the question'
  ]
  assert corpus.is_test['HAMLET'].tolist() == [False, False, True]
  assert corpus.is_test['GHOST'].tolist() == [False]


def _windows(text: str, size: int = 5):
  """Returns what LEAF makes of a text."""
  places = range(len(text) - size)
  return dict(
      x=[text[p:p + size] for p in places], y=[text[p + size] for p in places]
  )


@pytest.mark.parametrize('inner', ['', 'data'])
def test_plays_of_leaf_are_put_together(tmp_path, inner):
  """From windows; where they do not fit, another text begins."""
  gap = {
      key: _windows('to be or not')[key] + _windows('to be a ghost')[key]
      for key in ('x', 'y')
  }
  files.leaf(tmp_path / inner / 'train', {'H': gap, 'G': _windows('adieu!')})
  files.leaf(tmp_path / inner / 'test', {'H': _windows('aye, aye')})
  corpus = texts.plays(str(tmp_path))
  assert [text.words for text in corpus.clients['H']] == [
      'to be or not', 'to be a ghost', 'aye, aye'
  ]
  assert corpus.is_test['H'].tolist() == [False, False, True]
  assert [text.words for text in corpus.clients['G']] == ['adieu!']


def test_a_folder_without_plays_is_left_to_others(tmp_path):
  assert texts.plays(str(tmp_path)) is None
  assert texts.posts(str(tmp_path), 'nwp', (1, 1), 0, 0) is None


def _posts(number: int, first: int = 0):
  rows = range(first, first + number)
  return dict(
      tokens=[f'how to sort {row} ?'.encode() for row in rows],
      title=[f'title {row}'.encode() for row in rows],
      tags=[f'python|t{row % 3}'.encode() for row in rows],
      # Further fields are not looked at.
      score=np.arange(number), type=[b'question'] * number,
  )


def _users(folder, sizes):
  """Writes posts of users: {name: (training, test)}."""
  parts = {
      part: {user: _posts(pair[k], 1000 * k) for user, pair in sizes.items()}
      for k, part in enumerate(('train', 'test'))
  }
  files.sqlite(folder / 'stackoverflow.sqlite', parts)


def test_posts_are_those_of_users_with_enough_of_them(tmp_path):
  _users(tmp_path, {'1': (5, 2), '22': (4, 2), '3': (5, 1), '4': (6, 3)})
  corpus = texts.posts(str(tmp_path), 'nwp', (5, 2), 0, 0)
  assert sorted(corpus.clients) == ['1', '4']
  assert corpus.chosen and corpus.spaced
  assert corpus.is_test['1'].tolist() == [False] * 5 + [True] * 2
  post = corpus.clients['1'][5]
  assert post.words == 'how to sort 1000 ?' and post.title == 'title 1000'
  assert post.tags == ('python', 't1')
  assert corpus.vocabulary is None and corpus.tags is None


def test_only_users_who_take_part_are_read(tmp_path):
  """A user who does not may have text that nobody can read."""
  _users(tmp_path, {str(user): (2, 1) for user in range(8)})
  first, again, other = (
      texts.posts(str(tmp_path), 'nwp', (1, 1), 3, seed) for seed in (0, 0, 1)
  )
  assert len(first.clients) == 3
  assert list(first.clients) == list(again.clients) != list(other.clients)
  with pytest.raises(errors.DataError, match='8 clients in the data, found 9'):
    texts.posts(str(tmp_path), 'nwp', (1, 1), 9, 0)


def test_text_of_a_user_that_is_not_utf8_is_named(tmp_path):
  part = {'7': dict(_posts(1), title=[b'caf\xe9'])}
  files.sqlite(
      tmp_path / 'stackoverflow.sqlite', {'train': part, 'test': part}
  )
  with pytest.raises(errors.DataError, match='client 7: text must be UTF-8'):
    texts.posts(str(tmp_path), 'nwp', (1, 1), 0, 0)


def test_counts_of_tff_are_taken_where_they_are(tmp_path):
  _users(tmp_path, {'1': (2, 1)})
  (tmp_path / 'stackoverflow.word_count').write_text('to 5\nhow 9\nsort 5\n')
  (tmp_path / 'stackoverflow.tag_count').write_text(
      json.dumps(dict(java=3, python=7))
  )
  corpus = texts.posts(str(tmp_path), 'nwp', (1, 1), 0, 0)
  assert corpus.vocabulary == ['how', 'to', 'sort']
  assert corpus.tags == ['python', 'java']
  for name in ('word_count', 'tag_count'):
    path = tmp_path / f'stackoverflow.{name}'
    whole = path.read_text()
    path.write_text('how many words')
    with pytest.raises(errors.DataError, match=f'{name} must hold counts'):
      texts.posts(str(tmp_path), 'nwp', (1, 1), 0, 0)
    path.write_text(whole)


_build = built.task


def test_tasks_are_made_of_published_posts(tmp_path):
  _users(tmp_path / 'stackoverflow', {'1': (5, 2), '2': (4, 3), '3': (1, 1)})
  few = dict(min_train=2, min_test=2, vocabulary=5)
  words = _build(
      'stackoverflow_nwp', tmp_path, dict(few, length=4), model='lstm_small'
  )
  tags = _build('stackoverflow_tags', tmp_path, dict(few, tags=3))
  for task in (words, tags):
    assert task.client_names == ['1', '2']
    assert on_demand.sizes(task.train).tolist() == [5, 4]
    assert on_demand.sizes(task.test).tolist() == [2, 3]
  # python is the most frequent tag, and t0 of the first post is the next.
  assert tags.train[0]['examples']['y'][0].tolist() == [1.0, 1.0, 0.0]
  with pytest.raises(errors.DataError, match='at least 100 train .* 10 test.*Tip: low'):
    _build('stackoverflow_nwp', tmp_path, {}, model='lstm_small')


def test_a_task_is_made_of_published_plays(tmp_path):
  files.sqlite(tmp_path / 'shakespeare.sqlite', PLAYS)
  task = _build(
      'shakespeare', tmp_path, dict(length=6), model='char_lstm_small'
  )
  assert task.client_names == ['HAMLET']  # Nobody tests the ghost.
  # 19 + 2 tokens in rows of 7, and 2 + 2.
  assert len(task.train[0]['examples']['x']) == 4


@pytest.mark.parametrize(
    'name', ['shakespeare', 'stackoverflow_nwp', 'stackoverflow_tags']
)
def test_without_a_folder_the_cache_is_looked_into(tmp_path, name, monkeypatch):
  monkeypatch.setattr(download, 'cache_folder', lambda: str(tmp_path))
  monkeypatch.setattr(published, '_ORIGIN', 'http://127.0.0.1:9')
  with pytest.raises(errors.DataError, match=f'Task {name} needs --data_dir'):
    _build(name, '', {})
