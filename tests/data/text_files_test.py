"""Readers of texts: their forms, and one sentence for what is wrong."""

import gzip

import pytest

from tests.data import text_sources
from tff_pers.data import errors
from tff_pers.data import text_files

POSTS = dict(
    user_id=[7, 8, 7], title=['How?', 'Why?', 'How?'], tags=['a|b', '', 'a|b']
)


def _posts(folder, **columns):
  return text_sources.write(folder, 'questions.json.gz', {**POSTS, **columns})


def test_roles(tmp_path):
  folder = text_sources.write(tmp_path, 'roles.json.gz', {
      'p:A': dict(play='P', speeches=['One.\nTwo.', 'Café']),
      'p:B': dict(speeches=[]),
  })
  corpus = text_files.read_roles(folder)
  assert corpus.where.endswith('roles.json.gz')
  assert corpus.clients['p:A'] == [
      text_files.Text('One.\nTwo.'), text_files.Text('Café')
  ]
  assert corpus.clients['p:B'] == []


def test_questions_keep_their_order(tmp_path):
  corpus = text_files.read_posts(_posts(tmp_path), 'stackoverflow_tags')
  assert corpus.clients == {
      '7': [text_files.Text('How?', ('a', 'b'))] * 2,
      '8': [text_files.Text('Why?')],
  }


def test_a_user_of_posts_is_of_one_site(tmp_path):
  folder = text_sources.write(tmp_path, 'posts.json.gz', dict(
      POSTS, user_id=['7', '7', '7'], site=['x', 'y', 'x'],
      text=['Like so.', 'So.', 'Or so.'],
  ))
  clients = text_files.read_posts(folder, 'stackoverflow_nwp').clients
  assert list(clients) == ['x:7', 'y:7']
  assert clients['x:7'][1] == text_files.Text('Or so.', ('a', 'b'), 'How?')


def test_the_folder_of_the_task_will_do(tmp_path):
  (tmp_path / 'shakespeare').mkdir()
  text_sources.roles(tmp_path / 'shakespeare')
  assert len(text_files.read_roles(str(tmp_path)).clients) == 4


@pytest.mark.parametrize('content, message', [
    (b'{"a": [1, 2', 'must hold JSON, found'),
    (b'{"\xff": 1}', 'must hold UTF-8 text, found byte 0xff at position 2'),
    (b'[1]', 'must hold a JSON object with entries, found '),
    (b'{}', 'with entries, found {}'),
    ({'p:A': {}}, 'client p:A must have speeches, a list of texts, found {}'),
    ({'p:A': 3}, 'client p:A must have speeches'),
    ({'p:A': dict(speeches=['x', 3])}, r"found \['x', 3\]"),
])
def test_raises_on_damaged_roles(tmp_path, content, message):
  folder = text_sources.write(tmp_path, 'roles.json.gz', content)
  with pytest.raises(errors.DataError, match=message) as error:
    text_files.read_roles(folder)
  assert 'roles.json.gz' in str(error.value)


@pytest.mark.parametrize('cut', [-4, 30, 3])
def test_raises_on_a_truncated_file(tmp_path, cut):
  path = tmp_path / 'roles.json.gz'
  text_sources.roles(tmp_path)
  path.write_bytes(path.read_bytes()[:cut])
  with pytest.raises(errors.DataError, match='must be a complete gzip file'):
    text_files.read_roles(str(tmp_path))


def test_raises_on_damaged_bytes(tmp_path):
  path = tmp_path / 'roles.json.gz'
  content = bytearray(gzip.compress(bytes(range(256)) * 20))
  content[12:40] = bytes(28)
  path.write_bytes(bytes(content))
  with pytest.raises(errors.DataError, match='must be a complete gzip file'):
    text_files.read_roles(str(tmp_path))


@pytest.mark.parametrize('columns, message', [
    (dict(title=['How?']), r'must hold columns of one length, found \{'),
    (dict(tags=None), 'must hold a list tags, found another value'),
    (dict(title=['a', None, 'b']), 'row 1 of client 8 must have texts for'),
])
def test_raises_on_damaged_posts(tmp_path, columns, message):
  with pytest.raises(errors.DataError, match=message):
    text_files.read_posts(_posts(tmp_path, **columns), 'stackoverflow_tags')


def test_raises_on_a_missing_column(tmp_path):
  folder = text_sources.write(
      tmp_path, 'questions.json.gz', dict(user_id=[1], title=['How?'])
  )
  with pytest.raises(errors.DataError, match='a list tags, found user_id, ti'):
    text_files.read_posts(folder, 'stackoverflow_tags')


def test_raises_without_files(tmp_path):
  with pytest.raises(errors.DataError, match='must name the folder of roles'):
    text_files.read_roles('')
  with pytest.raises(errors.DataError, match='questions.json.gz or posts.jso'):
    text_files.read_posts(str(tmp_path), 'stackoverflow_nwp')
