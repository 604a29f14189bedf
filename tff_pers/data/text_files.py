"""Reads texts by client: plays by role, questions and posts by user.

Files are gzipped JSON in UTF-8; they are in `data_dir` or in a folder of their
task within it:

    roles.json.gz      {role: {"speeches": [text, ...], ...}, ...}
    questions.json.gz  columns of one length: user_id, title, tags; tags of a
                       question have | between them
    posts.json.gz      the same, and the columns site and text; a user belongs
                       to one site

Texts keep the order of the file. Other modules read other sources as `Corpus`.
"""

import gzip
import json
import os
from typing import Any, Mapping, NamedTuple, Optional, Sequence
import zlib

import numpy as np

from tff_pers.data import errors


class Text(NamedTuple):
  """A text that a client wrote.

  Attributes:
    words: The text.
    tags: Its tags.
    title: Title of its question, unless `words` is the title.
  """

  words: str
  tags: tuple[str, ...] = ()
  title: str = ''


class Corpus(NamedTuple):
  """The texts of all clients.

  Attributes:
    where: The file or folder, for messages.
    clients: The texts of each client by name.
    is_test: bool[n] for each client by name, which of its texts are held out;
      None: the split is still to be drawn.
    vocabulary: Words, the most frequent first; None: still to be counted.
    tags: Tags, likewise.
    fewest: Fewest training and test sequences of a client that the task keeps
      by default.
    chosen: Whether these are already the clients of the task: with enough texts
      in the split of `is_test`, and as many as requested.
    spaced: Whether everything between spaces is a word.
  """

  where: str
  clients: Mapping[str, Sequence[Text]]
  is_test: Optional[Mapping[str, np.ndarray]] = None
  vocabulary: Optional[Sequence[str]] = None
  tags: Optional[Sequence[str]] = None
  fewest: tuple[int, int] = (1, 1)
  chosen: bool = False
  spaced: bool = False


ROLES = 'roles.json.gz'
# The first one that exists is read.
POSTS = ('questions.json.gz', 'posts.json.gz')
# Required questions of an asker; in a sample, no client has hundreds of titles.
_FEWEST_POSTS = (8, 2)


def read_roles(data_dir: str) -> Corpus:
  """Returns the speeches of every role.

  Raises:
    errors.DataError: If the file is missing, damaged or in another form; names
      the role.
  """
  path = _locate(data_dir, 'shakespeare', (ROLES,), ('', 'shakespeare'))
  roles = _load(path)
  clients = {}
  for name, role in roles.items():
    speeches = role.get('speeches') if isinstance(role, dict) else None
    if not isinstance(speeches, list) or not _are_texts(speeches):
      raise errors.DataError(
          f'{path}: client {name} must have speeches, a list of texts, found'
          f' {_shown(role if speeches is None else speeches)}.'
      )
    clients[name] = [Text(speech) for speech in speeches]
  return Corpus(path, clients)


def read_posts(data_dir: str, task: str) -> Corpus:
  """Returns the questions of every asker, or the posts of every user.

  Raises:
    errors.DataError: If there is no file, or it is damaged or in another form;
      names the row and the client.
  """
  path = _locate(
      data_dir, task, POSTS, ('', 'stackoverflow', 'stackexchange')
  )
  columns = _load(path)
  names = ['user_id', 'title', 'tags']
  if path.endswith(POSTS[1]):
    names += ['site', 'text']
  _check_columns(path, columns, names)
  clients: dict[str, list[Text]] = {}
  for row, (user, *cells) in enumerate(zip(*map(columns.get, names))):
    client = f'{cells[2]}:{user}' if len(cells) > 2 else str(user)
    if not _are_texts(cells):
      raise errors.DataError(
          f'{path}: row {row} of client {client} must have texts for'
          f' {", ".join(names[1:])}, found {_shown(cells)}.'
      )
    title, tags, *rest = cells
    tags = tuple(tag for tag in tags.split('|') if tag)
    clients.setdefault(client, []).append(
        Text(rest[1], tags, title) if rest else Text(title, tags)
    )
  return Corpus(path, clients, fewest=_FEWEST_POSTS)


def _locate(
    data_dir: str, task: str, names: Sequence[str], folders: Sequence[str]
) -> str:
  """Returns the path of the first existing file."""
  wanted = ' or '.join(names)
  if not data_dir:
    raise errors.DataError(
        f'`data_dir` must name the folder of {wanted} for task {task}, found'
        ' nothing.'
    )
  for name in names:
    for folder in folders:
      path = os.path.join(data_dir, folder, name)
      if os.path.isfile(path):
        return path
  raise errors.DataError(
      f'`data_dir` must be a folder with {wanted}, or with the files of TFF for'
      f' task {task}, found none in {data_dir!r}.'
  )


def _load(path: str) -> dict[str, Any]:
  """Returns the object of a gzipped JSON file."""
  try:
    with gzip.open(path, 'rb') as file:
      content = json.loads(file.read().decode('utf-8'))
  except (OSError, EOFError, zlib.error) as error:
    raise errors.DataError(
        f'{path} must be a complete gzip file, found {errors.first_line(error)}'
        '. Tip: fetch it again.'
    ) from error
  except UnicodeDecodeError as error:
    raise errors.DataError(
        f'{path} must hold UTF-8 text, found byte'
        f' 0x{error.object[error.start]:02x} at position {error.start}.'
    ) from error
  except ValueError as error:
    raise errors.DataError(
        f'{path} must hold JSON, found {errors.first_line(error)}.'
    ) from error
  if not isinstance(content, dict) or not content:
    raise errors.DataError(
        f'{path} must hold a JSON object with entries, found {_shown(content)}.'
    )
  return content


def _check_columns(path: str, columns, names: Sequence[str]) -> None:
  """Raises unless all columns exist and are lists of one length."""
  for name in names:
    if not isinstance(columns.get(name), list):
      raise errors.DataError(
          f'{path} must hold a list {name}, found'
          f' {", ".join(columns) if name not in columns else "another value"}.'
      )
  sizes = {name: len(columns[name]) for name in names}
  if len(set(sizes.values())) > 1:
    raise errors.DataError(
        f'{path} must hold columns of one length, found {sizes}.'
    )


def _are_texts(values) -> bool:
  return all(isinstance(value, str) for value in values)


def _shown(value) -> str:
  text = repr(value)
  return text if len(text) <= 60 else text[:57] + '...'
