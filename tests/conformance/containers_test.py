"""Fields of Python containers: the same value, or class of error, as natively.

Every container stands at every place with its fields in the order of the type,
in another one, with a wrong name, too few and too many. What TFF does is not
one rule: elements of a list that is a sequence are matched by name where they
have names, everything else by position.
"""

import collections
from typing import Any, Callable, NamedTuple

import attrs
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.conformance import agree as agree_lib

PAIR = collections.OrderedDict(a=np.int32, b=np.int32)
TYPES = {
    'sorted': tff.to_type(PAIR),
    'unsorted': tff.to_type(collections.OrderedDict(b=np.int32, a=np.int32)),
    'unnamed': tff.to_type((np.int32, np.int32)),
    'nested': tff.to_type(collections.OrderedDict(p=PAIR, q=np.int32)),
}


def _attrs(fields):
  return attrs.make_class('Fields', [name for name, _ in fields])(
      *(value for _, value in fields)
  )


def _namedtuple(fields):
  return collections.namedtuple('Fields', [name for name, _ in fields])(
      *(value for _, value in fields)
  )


def _struct(*unnamed):
  """Returns what makes a `Struct`; fields at positions `unnamed` lose names."""
  return lambda fields: tff.structure.Struct([
      (None if k in unnamed else name, value)
      for k, (name, value) in enumerate(fields)
  ])


CONTAINERS = {
    'dict': dict,
    'OrderedDict': collections.OrderedDict,
    'defaultdict': lambda fields: collections.defaultdict(int, fields),
    'Mapping': collections.UserDict,
    'tuple': lambda fields: tuple(value for _, value in fields),
    'list': lambda fields: [value for _, value in fields],
    'namedtuple': _namedtuple,
    'attrs': _attrs,
    'Struct': _struct(),
    'Struct without names': _struct(0, 1, 2),
    'Struct with one name, first': _struct(1, 2),
    'Struct with one name, last': _struct(0),
    'array': lambda fields: np.array([0] * len(fields), np.int32),
    'set': lambda fields: {1, 2},
}
FIELDS = {
    'right': 'ab', 'other order': 'ba', 'wrong name': 'ac', 'missing': 'a',
    'extra': 'abc',
}


class Place(NamedTuple):
  """Where a structure stands.

  Attributes:
    parameter: Type of the argument, of the type of the structure.
    argument: The argument, of the structure.
    is_sequence: Whether the structure is an element.
  """

  parameter: Callable[[tff.Type], tff.Type]
  argument: Callable[[Any], Any]
  is_sequence: bool


def _clients(member):
  return tff.FederatedType(member, tff.CLIENTS)


PLACES = {
    'unplaced': Place(lambda t: t, lambda v: v, False),
    'server': Place(
        lambda t: tff.FederatedType(t, tff.SERVER), lambda v: v, False
    ),
    'clients': Place(_clients, lambda v: [v, v], False),
    'list': Place(tff.SequenceType, lambda v: [v, v], True),
    'lists of clients': Place(
        lambda t: _clients(tff.SequenceType(t)), lambda v: [[v], [v, v]], True
    ),
    'beside a list': Place(
        lambda t: _clients((tff.SequenceType(t), np.int32)),
        lambda v: [([v, v], np.int32(0))], True,
    ),
}


def _score(value):
  """Returns a number that tells all orders of the fields."""
  if isinstance(value, dict) and 'p' in value:
    return 5 * _score(value['p']) + value['q']
  a, b = (value['a'], value['b']) if isinstance(value, dict) else value
  return 3 * a - b


def _computation(place, part):
  """Returns a computation of the place's parameter that tells orders."""
  def local(x):
    x = x[0] if isinstance(x, tuple) and isinstance(x[0], tf.data.Dataset) else x
    if not place.is_sequence:
      return _score(x)
    return x.reduce(0, lambda total, element: 7 * total + _score(element))

  parameter = place.parameter(part)
  member = getattr(parameter, 'member', parameter)
  local = tff.tensorflow.computation(local, member)
  if member is parameter:
    return local
  return tff.federated_computation(
      lambda value: tff.federated_map(local, value), parameter
  )


def _fields(names, part, container):
  fields = [(name, np.int32(10**k)) for k, name in enumerate(names)]
  if part is TYPES['nested']:
    fields = [('p', container(fields)), ('q', np.int32(1000))]
  return fields


def _agree(computation, argument, what):
  """Compares the runtimes; an error must be of the same class on both."""
  try:
    agree_lib.agree(computation, argument)
  except AssertionError as error:
    raise AssertionError(f'{what}: {error}') from error
  except (IndexError, TypeError, ValueError):
    pass


@pytest.mark.parametrize('place', PLACES)
@pytest.mark.parametrize('part', TYPES)
def test_containers(place, part):
  place, part = PLACES[place], TYPES[part]
  computation = _computation(place, part)
  for name, container in CONTAINERS.items():
    for change, names in FIELDS.items():
      value = container(_fields(names, part, container))
      _agree(computation, place.argument(value), f'{name}, {change}')


@pytest.mark.parametrize('part', TYPES)
def test_data_sets(part):
  """What an element of a data set is in says what its names are worth."""
  part = TYPES[part]
  computation = _computation(PLACES['lists of clients'], part)
  for name in ('dict', 'OrderedDict', 'tuple', 'namedtuple', 'attrs'):
    for change, names in FIELDS.items():
      fields = [
          (k, tf.nest.map_structure(lambda x: np.array([x, x + 3]), v))
          for k, v in _fields(names, part, CONTAINERS[name])
      ]
      data = tf.data.Dataset.from_tensor_slices(CONTAINERS[name](fields))
      _agree(computation, [data, data], f'{name}, {change}')


def test_names_of_elements_count():
  """Without a runtime to compare with: a - b of fields in another order."""
  @tff.tensorflow.computation(tff.SequenceType(PAIR))
  def differences(elements):
    return elements.reduce(0, lambda total, e: total + e['a'] - e['b'])

  @tff.federated_computation(_clients(tff.SequenceType(PAIR)))
  def computation(data):
    return tff.federated_map(differences, data)

  assert agree_lib.on_fused(computation, [[{'b': 1, 'a': 10}], []]) == [9, 0]
  with pytest.raises(TypeError, match='of these names'):
    agree_lib.on_fused(computation, [[{'b': 1, 'c': 10}]])


LEAVES = {
    'int': 1, 'bool': True, 'float': 1.5, 'text': 'a', 'bytes': b'a',
    'float64': np.float64(1.5), 'float16': np.float16(1.5),
    'int64': np.int64(7), 'int8': np.int8(7), 'numpy bool': np.bool_(True),
    'large': 2**40, 'infinite': 1e300, 'list': [1, 2], 'tuple': (1.0, 2.0),
    'array of float64': np.ones([2]), 'array of int64': np.ones([2], np.int64),
    'tensor': tf.constant(1.5), 'variable': tf.Variable(3),
    'mixed list': [1.0, 'a'], 'ragged list': [[1.0], [1.0, 2.0]],
    'empty list': [], 'set': {1}, 'dict': {'a': 1},
    'Struct': _struct(0, 1)([('a', 1), ('b', 2)]),
    'array of text': np.array(['a', 'b'], object), 'complex': 1j,
    'matrix': np.ones([2, 2], np.float32),
}


@pytest.mark.parametrize('part', [
    tff.TensorType(np.float32), tff.TensorType(np.int32),
    tff.TensorType(np.str_), tff.TensorType(np.bool_),
    tff.TensorType(np.float32, [2]), tff.TensorType(np.int32, [None]),
], ids=str)
def test_leaves_of_elements(part):
  """TensorFlow converts them: an int, say, is a float there."""
  @tff.tensorflow.computation(tff.SequenceType(part))
  def returned(elements):
    return elements.take(5)

  for name, leaf in LEAVES.items():
    _agree(returned, [leaf], name)


@pytest.mark.parametrize('part', [
    tff.TensorType(np.float32, [2]), tff.TensorType(np.int32, [None]),
], ids=str)
def test_structs_for_tensors(part):
  """Two numbers without names are a vector, but not as an argument alone."""
  returned = tff.federated_computation(lambda x: x, _clients(part))
  alone = tff.tensorflow.computation(lambda x: 2 * x, part)
  for unnamed in ((), (0,), (0, 1)):
    value = _struct(*unnamed)([('a', np.int32(1)), ('b', np.int32(2))])
    for computation, argument in ((returned, [value]), (alone, value)):
      try:
        agree_lib.agree(computation, argument)
      except (NotImplementedError, TypeError, ValueError):
        pass
