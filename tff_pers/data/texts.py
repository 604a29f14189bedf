"""Converts texts to numbers: words, vocabularies, sequences, bags of words.

Numbers of tokens: see `models/tokens.py`. Everything is as in TFF's tasks
Shakespeare and Stack Overflow (`tff.simulation.baselines`). TFF's posts are
already words separated by spaces; `words` is for ordinary texts.
"""

import collections
import itertools
import re
from typing import Iterable, Mapping, Sequence

import numpy as np

from tff_pers.models import tokens

# The characters of TFF's task Shakespeare, in its order.
CHARACTERS = (
    'dhlptx@DHLPTX $(,048cgkoswCGKOSW[_#\'/37;?bfjnrvzBFJNRVZ"&*.26:\n'
    'aeimquyAEIMQUY]!%)-159\r'
)
_WORD = re.compile(r"[\w'+#]+|[^\w\s]")


def words(text: str) -> list[str]:
  """Returns the words of a text in lower case; other marks count as words.

  A word is a run of letters, digits and any of _ ' + #, e.g. c# and c++.
  """
  return _WORD.findall(text.lower())


def most_frequent(
    counted: Iterable[Iterable[str]], size: int
) -> list[str]:
  """Returns the `size` most frequent entries, or all; ties alphabetically."""
  counts = collections.Counter(itertools.chain.from_iterable(counted))
  return sorted(counts, key=lambda entry: (-counts[entry], entry))[:size]


def numbered(vocabulary: Sequence[str]) -> dict[str, int]:
  """Returns the token of each word: 1 to V."""
  return {word: token for token, word in enumerate(vocabulary, start=1)}


def windows(
    text: str, token_of: Mapping[str, int], length: int
) -> np.ndarray:
  """Returns a text's characters cut into rows, int32[n, length + 1].

  The text has a mark at its beginning and at its end. x is a row without its
  last column, y without its first. A row with nothing to predict is dropped.
  """
  vocabulary = len(token_of)
  unknown = tokens.out_of_vocabulary(vocabulary)
  row = [
      tokens.beginning(vocabulary),
      *(token_of.get(character, unknown) for character in text),
      tokens.end(vocabulary),
  ]
  rows = -(-len(row) // (length + 1))
  padded = np.full([rows, length + 1], tokens.PAD, np.int32)
  padded.flat[:len(row)] = row
  return padded[padded[:, 1] != tokens.PAD]


def sentence(
    text: Sequence[str], token_of: Mapping[str, int], size: int, length: int
) -> np.ndarray:
  """Returns the first words of a text, int32[length + 1].

  A mark precedes the first word, and follows the last one if none was cut. The
  size V of the vocabulary may exceed the number of its words.
  """
  unknown = tokens.out_of_vocabulary(size)
  row = [token_of.get(word, unknown) for word in text[:length]]
  if len(row) < length:
    row.append(tokens.end(size))
  padded = np.full([length + 1], tokens.PAD, np.int32)
  padded[:len(row) + 1] = [tokens.beginning(size), *row]
  return padded


def inputs_and_targets(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Returns (x, y) of rows of tokens: y is the token that follows each x."""
  return rows[:, :-1], rows[:, 1:]


class Bags:
  """Texts as bags of words and sets of tags, made dense only on demand.

  x is the share of each vocabulary word among the known words of a text, and y
  is 1 for its tags.
  """

  def __init__(
      self, texts: Sequence[tuple[Sequence[str], Sequence[str]]],
      word_at: Mapping[str, int], tag_at: Mapping[str, int],
      shape: tuple[int, int],
  ):
    """Numbers words and tags of each text by their columns; drops unknown ones.

    `shape` is the numbers of columns of x and of y.
    """
    self._shape = shape
    self._texts = [
        (_known(own, word_at), _known(tags, tag_at)) for own, tags in texts
    ]

  def __len__(self) -> int:
    return len(self._texts)

  def dense(self) -> tuple[np.ndarray, np.ndarray]:
    """Returns (float32[n, words], float32[n, tags])."""
    x, y = (
        np.zeros([len(self), size], np.float32) for size in self._shape
    )
    for row, (own, tags) in enumerate(self._texts):
      np.add.at(x[row], own, 1 / max(len(own), 1))
      y[row, tags] = 1.0
    return x, y


def _known(entries: Sequence[str], at: Mapping[str, int]) -> np.ndarray:
  return np.array([at[e] for e in entries if e in at], np.int32)
