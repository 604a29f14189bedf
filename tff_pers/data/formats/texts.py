"""Shakespeare and Stack Overflow as published by TFF and LEAF."""

import json
import os
from typing import (
    Any, Callable, Iterable, Mapping, Optional, Sequence, TextIO
)

import numpy as np

from tff_pers.data import errors
from tff_pers.data import text_files
from tff_pers.data.formats import clients as clients_lib
from tff_pers.data.formats import download
from tff_pers.data.formats import leaf
from tff_pers.data.formats import published
from tff_pers.data.formats import records

_TEXT = records.Field(bytes)
SHAKESPEARE = published.DataSet(
    'shakespeare', {'snippets': _TEXT}, 'shakespeare.sqlite',
    'shakespeare_{}.h5',
)


def stackoverflow(task: str) -> published.DataSet:
  """Returns how the posts of a task are published."""
  return published.DataSet(
      task, {name: _TEXT for name in ('tokens', 'title', 'tags')},
      'stackoverflow.sqlite', 'stackoverflow_{}.h5',
  )


# Minimum number of training and test posts of a user, and number of users
# (papers/partial_personalization.md 5.2).
FEWEST_POSTS = (100, 10)
MOST_USERS = 1000
# Files that TFF publishes next to the posts.
_WORDS, _TAGS = 'stackoverflow.word_count', 'stackoverflow.tag_count'


def plays(data_dir: str) -> Optional[text_files.Corpus]:
  """Returns the snippets of all roles, or None if the folder has no file.

  Without a folder TFF's file is cached or downloaded.

  Raises:
    errors.DataError: If a file cannot be used.
  """
  if not data_dir:
    return _snippets(published.fetch(SHAKESPEARE))
  for folder in (data_dir, os.path.join(data_dir, 'shakespeare')):
    parts = published.find(SHAKESPEARE, folder)
    if parts is not None:
      return _snippets(parts)
    for top in (folder, os.path.join(folder, 'data')):
      if published.is_leaf(top):
        return _windows(top)
  return None


def posts(
    data_dir: str, task: str, minima: tuple[int, int], num_clients: int,
    seed: int,
) -> Optional[text_files.Corpus]:
  """Returns the posts of some users, or None if the folder has no file.

  Without a folder, TFF's file is cached or downloaded. Of the 342,477 users,
  only those that take part are read: `num_clients`, or if it is 0 at most
  `MOST_USERS`, with the minimum numbers of training and test posts. Words are
  those of TFF: everything between spaces.

  Raises:
    errors.DataError: If a file cannot be used, or has too few such users.
  """
  data_set = stackoverflow(task)
  if data_dir:
    folder, parts = published.find_first(
        data_set, (data_dir, os.path.join(data_dir, 'stackoverflow'))
    )
    if parts is None:
      return None
  else:
    # TFF's counts are looked for next to its posts, too.
    folder, parts = download.cache_folder(), published.fetch(data_set)
  names = clients_lib.with_enough(
      parts, dict(zip(published.PARTS, minima)),
      f'lower --{task}_min_train and --{task}_min_test.',
  )
  size = num_clients or min(MOST_USERS, len(names))
  clients, is_test = _read(
      parts, clients_lib.sample(names, size, seed), _posts_of
  )
  return text_files.Corpus(
      parts[published.TRAIN].where, clients, is_test,
      _most_frequent(folder, _WORDS, lambda file: map(str.split, file)),
      _most_frequent(folder, _TAGS, lambda file: json.load(file).items()),
      chosen=True, spaced=True,
  )


def _snippets(parts: published.Parts) -> text_files.Corpus:
  """Returns the texts of all clients of TFF's Shakespeare."""
  return text_files.Corpus(parts[published.TRAIN].where, *_read(
      parts, _names(parts), lambda own, where: [
          text_files.Text(text) for text in records.text(own['snippets'], where)
      ],
  ))


def _names(parts: published.Parts) -> list[str]:
  return sorted({name for part in parts.values() for name in part.clients})


def _posts_of(own: Mapping[str, np.ndarray], where: str):
  """Returns the posts of one user."""
  columns = (records.text(own[n], where) for n in ('tokens', 'tags', 'title'))
  return [
      text_files.Text(tokens, tuple(filter(None, tags.split('|'))), title)
      for tokens, tags, title in zip(*columns)
  ]


def _read(parts: published.Parts, names: Sequence[str], texts_of):
  """Returns texts by client, training first, and which are test texts."""
  clients: dict[str, list] = {name: [] for name in names}
  is_test: dict[str, list[bool]] = {name: [] for name in names}
  for part in published.PARTS:
    found = parts[part]
    places = found.places
    for name in names:
      if name in places:
        own = texts_of(
            found.read(places[name]), f'{found.where}, client {name}'
        )
        clients[name] += own
        is_test[name] += [part == published.TEST] * len(own)
  return clients, {name: np.array(own, bool) for name, own in is_test.items()}


def _windows(folder: str) -> text_files.Corpus:
  """Returns the texts of LEAF's Shakespeare.

  Its examples are windows of 80 characters and the character after each; a text
  continues as long as each window is the previous one shifted by one character.
  """
  fields = {'x': _TEXT, 'y': _TEXT}
  parts = {
      part: leaf.read(os.path.join(folder, part), fields)
      for part in published.PARTS
  }

  def texts_of(own, where):
    found: list[str] = []
    expected = None
    for window, following in zip(*(
        records.text(own[name], where) for name in ('x', 'y')
    )):
      if window == expected:
        found[-1] += following
      else:
        found.append(window + following)
      expected = window[1:] + following
    return [text_files.Text(text) for text in found]

  return text_files.Corpus(folder, *_read(parts, _names(parts), texts_of))


def _most_frequent(
    folder: str, name: str, pairs_of: Callable[[TextIO], Iterable[Any]]
) -> Optional[list[str]]:
  """Returns words or tags by TFF's counts, largest first, or None.

  `pairs_of` gives pairs of a word or tag and its count from the open file.
  """
  path = os.path.join(folder, name)
  if not os.path.isfile(path):
    return None
  try:
    with open(path, encoding='utf-8') as file:
      counts = {entry: int(count) for entry, count in pairs_of(file)}
  except (OSError, ValueError, AttributeError, TypeError) as error:
    raise errors.DataError(
        f'{path} must hold counts as TFF publishes them, and could not be read'
        f' ({errors.first_line(error)}).'
    ) from error
  # Equal counts keep the order of the file, as in TFF.
  return sorted(counts, key=lambda entry: -counts[entry])
