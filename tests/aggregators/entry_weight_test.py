"""Fields of an update with weights of their own."""

import collections

import numpy as np
import pytest
import tensorflow_federated as tff

from tff_pers.aggregators import entry_weight
from tff_pers.aggregators import structure


def test_every_field_takes_its_own_entry():
  process = structure.StructureFactory(dict(
      first=entry_weight.EntryWeightFactory(0),
      second=entry_weight.EntryWeightFactory(1),
  )).create(
      tff.to_type(collections.OrderedDict(first=np.float32, second=np.float32)),
      tff.TensorType(np.float32, [2]),
  )
  values = [
      collections.OrderedDict(first=np.float32(x), second=np.float32(x))
      for x in (0, 8)
  ]
  result = process.next(
      process.initialize(), values, [np.float32([1, 1]), np.float32([1, 3])]
  ).result
  assert (result['first'], result['second']) == (4, 6)


@pytest.mark.parametrize('weight_type', [
    tff.TensorType(np.float32), tff.TensorType(np.float32, [2]),
    tff.to_type([np.float32, np.float32, np.float32]),
])
def test_raises_on_weights_without_that_entry(weight_type):
  with pytest.raises(TypeError, match='must be a vector with an entry 2'):
    entry_weight.EntryWeightFactory(2).create(
        tff.TensorType(np.float32), weight_type
    )
