"""Drawn values in the forms that callers have: frozen arrays, data sets, files.
"""

import collections
import os
import tempfile

from hypothesis import strategies as st
import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

# Its files are rewritten by later values, as callers do between rounds.
_FOLDER = tempfile.TemporaryDirectory()
_NUM_FILES = 10
_KINDS = ('list', 'slices', 'filter', 'shuffle', 'file')


def data_set(data, part, elements):
  """Returns a new data set of elements; None if they stay a list.

  Args:
    data: Hypothesis's `data()`.
    part: TFF type of an element.
    elements: List; only the last one may differ in shape from the others.
  """
  kind = data.draw(st.sampled_from(_KINDS))
  if kind == 'list' or not elements:
    return None
  if kind == 'file':
    number = data.draw(st.integers(0, _NUM_FILES - 1))
    kind = part.compact_representation().encode().hex()
    return _in_a_file(part, elements, f'{number}_{kind}')
  dataset = _slices(part, elements[:-1])
  dataset = dataset.concatenate(_slices(part, elements[-1:]))
  if kind == 'filter':
    return dataset.filter(lambda *_: True)
  if kind == 'shuffle':
    return dataset.shuffle(3, seed=1).repeat(data.draw(st.integers(1, 2)))
  return dataset


def _each(function, part, *values):
  """Applies `function` to the leaves of a type, a tensor or named fields."""
  if not isinstance(part, tff.StructType):
    return function(part, *values)
  return collections.OrderedDict(
      (name, _each(function, t, *(value[name] for value in values)))
      for name, t in tff.structure.iter_elements(part)
  )


def _spec(part):
  return tf.TensorSpec(part.shape, part.dtype)


def _slices(part, elements):
  """Returns a data set of elements of one shape, perhaps of none."""
  def stacked(leaf, *values):
    spec = _spec(leaf)
    if not values:
      return tf.zeros([0, *(d or 0 for d in spec.shape)], spec.dtype)
    return tf.constant(np.stack(values), spec.dtype)

  spec = _each(_spec, part)
  return tf.data.Dataset.from_tensor_slices(
      _each(stacked, part, *elements)
  ).map(lambda e: tf.nest.map_structure(
      lambda t, s: tf.ensure_shape(t, s.shape), e, spec
  ))


def _in_a_file(part, elements, name):
  """Writes the elements to a file; returns a data set that reads it."""
  path = os.path.join(_FOLDER.name, name)
  specs = tf.nest.flatten(_each(_spec, part))
  with tf.io.TFRecordWriter(path) as writer:
    for element in elements:
      texts = [
          tf.io.serialize_tensor(tf.constant(leaf, spec.dtype))
          for leaf, spec in zip(tf.nest.flatten(element), specs)
      ]
      writer.write(tf.io.serialize_tensor(tf.stack(texts)).numpy())

  def parse(record):
    texts = tf.unstack(tf.io.parse_tensor(record, tf.string), len(specs))
    return tf.nest.pack_sequence_as(_each(_spec, part), [
        tf.ensure_shape(tf.io.parse_tensor(text, spec.dtype), spec.shape)
        for text, spec in zip(texts, specs)
    ])

  return tf.data.TFRecordDataset(path).map(parse)


def freeze(value) -> None:
  """Makes the arrays of a value read-only."""
  for array in _arrays(value):
    array.flags.writeable = False


def change(value) -> None:
  """Changes the numbers of a value in place, and freezes it again."""
  for array in _arrays(value):
    if np.issubdtype(array.dtype, np.number):
      array.flags.writeable = True
      array[...] = 1 - array
  freeze(value)


def _arrays(value) -> list:
  return [
      leaf for leaf in tf.nest.flatten(value) if isinstance(leaf, np.ndarray)
  ]
