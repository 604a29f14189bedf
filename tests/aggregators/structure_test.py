"""One rule for each field of an update."""

import collections

import numpy as np
import pytest
import tensorflow_federated as tff

from tff_pers.aggregators import structure

TYPE = tff.to_type(collections.OrderedDict(
    mean=np.float32, plain=np.float32, total=np.float32
))
VALUES = [
    collections.OrderedDict(mean=v, plain=v, total=v)
    for v in np.float32([1, 2, 40])
]


def _factory(**more):
  return structure.StructureFactory(dict(
      mean=tff.aggregators.MeanFactory(),
      plain=tff.aggregators.UnweightedMeanFactory(),
      total=tff.aggregators.SumFactory(), **more,
  ))


def test_every_field_is_combined_by_its_own_rule():
  process = _factory().create(TYPE, tff.TensorType(np.float32))
  output = process.next(
      process.initialize(), VALUES, [np.float32(w) for w in (1, 3, 0)]
  )
  result = output.result
  assert (result['mean'], result['plain'], result['total']) == (1.75, 1.5, 3)
  assert list(output.measurements) == ['mean', 'plain', 'total']


def test_raises_on_fields_without_a_rule():
  with pytest.raises(TypeError, match='fields mean, other, plain, total, found'):
    _factory(other=tff.aggregators.SumFactory()).create(
        TYPE, tff.TensorType(np.float32)
    )


def test_raises_on_no_field():
  with pytest.raises(ValueError, match='must have a field, found none'):
    structure.StructureFactory({})
