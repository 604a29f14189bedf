"""From texts to numbers, as TFF's tasks do it."""

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
from tensorflow_federated.python.simulation.baselines.shakespeare import (
    char_prediction_preprocessing as tff_characters,
)
from tensorflow_federated.python.simulation.baselines.stackoverflow import (
    tag_prediction_preprocessing as tff_tags,
)
from tensorflow_federated.python.simulation.baselines.stackoverflow import (
    word_prediction_preprocessing as tff_words,
)

from tff_pers.data import texts

CHARACTERS = texts.numbered(texts.CHARACTERS)
VOCABULARY = ['the', 'cat', 'runs', '?']
SPEC = tff.simulation.baselines.ClientSpec(
    num_epochs=1, batch_size=1, shuffle_buffer_size=1
)


def _dataset(**fields):
  return tf.data.Dataset.from_tensors(collections.OrderedDict(fields))


def test_words():
  assert texts.words('How do I _cast_ in C#, or C++?\nI\'m 2nd!') == [
      'how', 'do', 'i', '_cast_', 'in', 'c#', ',', 'or', 'c++', '?', "i'm",
      '2nd', '!',
  ]
  assert texts.words(' \n') == []


def test_most_frequent_breaks_ties_by_alphabet():
  counted = [['b', 'c', 'a'], ['c', 'd', 'a'], ['e']]
  assert texts.most_frequent(counted, 4) == ['a', 'c', 'b', 'd']
  assert texts.most_frequent(counted, 9) == ['a', 'c', 'b', 'd', 'e']


@pytest.mark.parametrize('size', [0, 1, 6, 7, 8, 9, 30])
def test_windows_are_those_of_tff(size):
  """But for rows with nothing to guess, which it keeps."""
  text = ('Ay, ~O!\nWhat 3?' * 3)[:size]
  made = tff_characters.create_preprocess_fn(SPEC, sequence_length=8)(
      _dataset(snippets=text)
  )
  rows = [(x[0], y[0]) for x, y in made.as_numpy_iterator() if y.any()]
  x, y = texts.inputs_and_targets(texts.windows(text, CHARACTERS, 8))
  assert x.dtype == y.dtype == np.int32
  np.testing.assert_array_equal(x, [row for row, _ in rows])
  np.testing.assert_array_equal(y, [row for _, row in rows])


@pytest.mark.parametrize('text', [
    'the cat', 'a cat runs home ?', 'the cat runs ?', 'the',
])
def test_sentences_are_those_of_tff(text):
  made = tff_words.create_preprocess_fn(SPEC, VOCABULARY, sequence_length=4)(
      _dataset(tokens=text)
  )
  (x, y), = made.as_numpy_iterator()
  row = texts.sentence(
      text.split(), texts.numbered(VOCABULARY), len(VOCABULARY), 4
  )
  assert row.dtype == np.int32
  np.testing.assert_array_equal(row[:-1], x[0])
  np.testing.assert_array_equal(row[1:], y[0])


def test_a_vocabulary_with_few_words_keeps_its_size():
  row = texts.sentence(['cat', 'dog'], texts.numbered(VOCABULARY), 100, 4)
  np.testing.assert_array_equal(row, [102, 2, 101, 103, 0])


@pytest.mark.parametrize('text, tags', [
    ('the cat ? the dog', 'x|y|z'), ('nothing known', 'z'),
])
def test_bags_are_those_of_tff(text, tags):
  made = tff_tags.create_preprocess_fn(SPEC, VOCABULARY, ['x', 'y'])(
      _dataset(tokens=text, title='cat', tags=tags)
  )
  (x, y), = made.as_numpy_iterator()
  bags = texts.Bags(
      [([*text.split(), 'cat'], tags.split('|'))],
      {word: i for i, word in enumerate(VOCABULARY)}, dict(x=0, y=1), (4, 2),
  )
  assert len(bags) == 1
  found = bags.dense()
  assert found[0].dtype == found[1].dtype == np.float32
  np.testing.assert_allclose(found[0], x, rtol=1e-6)
  np.testing.assert_array_equal(found[1], y)
