"""What every aggregation factory promises.

A class of `tff_pers.aggregators` is found by itself; `CASES` says how one is
built and what it aggregates. A class without a case fails the first test.
"""

import collections
import inspect
import pkgutil
from typing import Any, Callable, NamedTuple, Optional

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.conformance import agree as agree_lib
from tff_pers import aggregators
from tff_pers.aggregators import absence
from tff_pers.aggregators import arrivals
from tff_pers.aggregators import factor_mean
from tff_pers.aggregators import nothing
from tff_pers.aggregators import robust
from tff_pers.aggregators import structure
from tff_pers.aggregators import sum_of_mean

KINDS = (
    tff.aggregators.UnweightedAggregationFactory,
    tff.aggregators.WeightedAggregationFactory,
)
# Two dtypes, several shapes, nested: what a model's update may look like.
UPDATE = tff.to_type(collections.OrderedDict(
    body=(tff.TensorType(np.float32, [3, 2]), tff.TensorType(np.float64, [4])),
    head=np.float32,
))
MESSAGE = tff.to_type(collections.OrderedDict(weights=UPDATE, version=np.int32))
TABLE = tff.to_type(collections.OrderedDict(
    adaptors=(tff.TensorType(np.float32, [2, 3]),
              tff.TensorType(np.float64, [2])),
    base=tff.TensorType(np.float32, [4]),
))
ROWS = tff.to_type(collections.OrderedDict(
    keys=tff.TensorType(np.int32, [None]),
    models=(tff.TensorType(np.float32, [None, 3]),),
))
# A bias, and a kernel [4, 3] that exists in full or as its factors.
FACTORISED = tff.to_type(collections.OrderedDict(
    factors=((), (tff.TensorType(np.float32, [4, None]),
                  tff.TensorType(np.float32, [None, 3]))),
    weights=(tff.TensorType(np.float32, [3]),
             tff.TensorType(np.float32, [None, 3])),
))

# A bias, and a kernel [4, 3] of which clients send factors of some rows.
_PRODUCT = [tf.TensorSpec([3]), tf.TensorSpec([4, 3])]
FACTORS = tff.to_type(collections.OrderedDict(
    dense=[tff.TensorType(np.float32, [3])],
    factors=[collections.OrderedDict(
        u=tff.TensorType(np.float32, [None, 3]),
        v=tff.TensorType(np.float32, [None, 4]),
    )],
))

PARTIAL = tff.to_type(collections.OrderedDict(kept=UPDATE, update=UPDATE))


def _factors(rng, client):
  """Each client has another number of rows."""
  draw = lambda *shape: rng.normal(size=shape).astype(np.float32)
  return collections.OrderedDict(
      dense=[draw(3)],
      factors=[collections.OrderedDict(
          u=draw(client + 1, 3), v=draw(client + 1, 4)
      )],
  )


def _draw(value_type, rng):
  """Returns a value of this type."""
  return tff.types.structure_from_tensor_type_tree(
      lambda t: rng.normal(size=list(t.shape)).astype(t.dtype)[()], value_type
  )


def _update(rng, client):
  del client  # Only the numbers differ.
  return _draw(UPDATE, rng)


def _rows(rng, client):
  count = client % 3  # Some have no row, some several.
  return collections.OrderedDict(
      keys=np.arange(count, dtype=np.int32) + 10 * client,
      models=(rng.normal(size=[count, 3]).astype(np.float32),),
  )


def _factorised(rng, client):
  rank = client % 3  # 0 is the kernel itself.
  draw = lambda *shape: rng.normal(size=shape).astype(np.float32)
  return collections.OrderedDict(
      factors=((), (draw(4, rank), draw(rank, 3))),
      weights=(draw(3), draw(0 if rank else 4, 3)),
  )


def _partial(rng, client):
  kept = _draw(PARTIAL['kept'], rng)
  # Client 2 has everything, the others some.
  kept = tf.nest.map_structure(
      lambda x: ((x > 0) | (client == 2)).astype(x.dtype), kept
  )
  update = tf.nest.map_structure(
      lambda x, k: x * k, _draw(PARTIAL['update'], rng), kept
  )
  return collections.OrderedDict(kept=kept, update=update)


def _recovered(value):
  v, u = value['factors'][1]
  bias, kernel = value['weights']
  return collections.OrderedDict(weights=(bias, v @ u if v.size else kernel))


def _by_key(rows):
  order = np.argsort(rows['keys'])
  return tf.nest.map_structure(lambda leaf: leaf[order], rows)


class Case(NamedTuple):
  """A factory in use.

  Attributes:
    build: Makes the factory.
    value_type: V.
    value: `(rng, client) -> V`.
    weight: `client -> weight`; None: the factory takes none.
    weight_type: Type of the weight.
    result: What the result becomes for comparisons.
    absent: `V -> V`, what a client of weight 0 sends in an unweighted case.
    clips: Whether TFF's clipping takes the values (floats alone).
    keeps: Whether the result is of the type of the values.
    of_one: `(V, weight) -> result` for a cohort of one client.
  """

  build: Callable[[], Any]
  value_type: tff.Type = UPDATE
  value: Callable[..., Any] = _update
  weight: Optional[Callable[[int], Any]] = lambda client: np.float32(client + 1)
  weight_type: tff.Type = tff.TensorType(np.float32)
  result: Callable[[Any], Any] = lambda result: result
  absent: Callable[[Any], Any] = lambda value: value
  clips: bool = True
  keeps: bool = True
  of_one: Callable[..., Any] = lambda value, weight: value


def _arrived(value, weight):
  total = tf.nest.map_structure(lambda x: weight * x, value['weights'])
  return dict(sum=dict(weights=total), weight=weight)


def _means():
  return structure.StructureFactory(dict(
      body=tff.aggregators.MeanFactory(no_nan_division=True),
      head=tff.aggregators.SumFactory(),
  ))


CASES = {
    'ArrivalsFactory': Case(
        arrivals.ArrivalsFactory, MESSAGE,
        lambda rng, client: collections.OrderedDict(
            weights=_draw(UPDATE, rng), version=np.int32(client)
        ), result=lambda result: (result['sum'], result['weight']), clips=False,
        keeps=False, of_one=_arrived,
    ),
    'DispersionFactory': Case(aggregators.DispersionFactory),
    'EntryWeightFactory': Case(
        lambda: aggregators.EntryWeightFactory(1),
        weight=lambda client: np.float32([0.5, client + 1]),
        weight_type=tff.TensorType(np.float32, [2]), clips=False,
    ),
    'LowRankMeanFactory': Case(
        aggregators.LowRankMeanFactory, FACTORISED, _factorised, clips=False,
        keeps=False, of_one=lambda value, weight: _recovered(value),
    ),
    'FactorMeanFactory': Case(
        lambda: factor_mean.FactorMeanFactory(_PRODUCT, [1]), FACTORS, _factors,
        clips=False, keeps=False,
        of_one=lambda value, weight: [
            value['dense'][0], value['factors'][0]['v'].T @ value['factors'][0]['u']
        ],
    ),
    'PartialMeanFactory': Case(
        aggregators.PartialMeanFactory, PARTIAL, _partial, clips=False,
        keeps=False, of_one=lambda value, weight: value['update'],
    ),
    'RouterWeightedFactory': Case(
        aggregators.RouterWeightedFactory,
        TABLE, lambda rng, client: _draw(TABLE, rng),
        weight=lambda client: np.float32([client + 1, 0.5, client + 0.5]),
        weight_type=tff.TensorType(np.float32, [3]),
    ),
    'RowCollectionFactory': Case(
        lambda: aggregators.RowCollectionFactory(8), ROWS, _rows, weight=None,
        result=_by_key, clips=False,
        absent=lambda rows: tf.nest.map_structure(lambda leaf: leaf[:0], rows),
    ),
    'RobustFactory': Case(lambda: robust.build_factory('median')),
    'StructureFactory': Case(_means),
    'SumOfMeanFactory': Case(lambda: sum_of_mean.SumOfMeanFactory(
        tff.aggregators.MeanFactory(no_nan_division=True)
    )),
    'NothingFactory': Case(
        nothing.NothingFactory, tff.to_type(()), lambda rng, client: (),
        clips=False,
    ),
    'unweighted mean': Case(
        lambda: absence.leave_out_absent(tff.aggregators.UnweightedMeanFactory())
    ),
    'clipped unweighted mean': Case(
        lambda: absence.leave_out_absent(tff.aggregators.clipping_factory(
            100.0, tff.aggregators.UnweightedMeanFactory()
        ))
    ),
    'sum': Case(lambda: absence.leave_out_absent(tff.aggregators.SumFactory())),
}


def _found():
  """Returns the names of the public factories in `tff_pers.aggregators`."""
  names = set()
  for module in pkgutil.walk_packages(
      aggregators.__path__, aggregators.__name__ + '.'
  ):
    loaded = __import__(module.name, fromlist=['_'])
    names |= {
        name for name, member in inspect.getmembers(loaded, inspect.isclass)
        if issubclass(member, KINDS) and member.__module__ == loaded.__name__
        and not name.startswith('_')
    }
  return names


def test_every_factory_has_a_case():
  assert _found() <= set(CASES), _found() - set(CASES)
  assert {'RouterWeightedFactory', 'StructureFactory'} <= _found()


def _create(case, factory=None):
  factory = factory or case.build()
  if case.weight is None:
    return factory.create(case.value_type)
  return factory.create(case.value_type, case.weight_type)


@pytest.fixture(scope='module', name='case', params=sorted(CASES))
def _case(request):
  return CASES[request.param]


@pytest.fixture(scope='module', name='process')
def _process(case):
  return _create(case)


def _aggregate(case, process, clients, values=None, weights=None):
  """Returns the result over these clients, each with its usual value."""
  if values is None:
    values = [
        case.value(np.random.default_rng(client), client) for client in clients
    ]
  if case.weight is None:
    output = process.next(process.initialize(), values)
  else:
    if weights is None:
      weights = [case.weight(client) for client in clients]
    output = process.next(process.initialize(), values, weights)
  return case.result(output.result)


def _assert_close(actual, expected):
  """A few sums of float32."""
  actual, expected = tf.nest.flatten(actual), tf.nest.flatten(expected)
  assert len(actual) == len(expected)
  for a, e in zip(actual, expected):
    np.testing.assert_allclose(a, e, rtol=1e-5, atol=1e-6)


def test_order_of_clients_is_irrelevant(case, process):
  _assert_close(
      _aggregate(case, process, [3, 0, 2, 1]),
      _aggregate(case, process, [0, 1, 2, 3]),
  )


def test_one_client_alone(case, process):
  value = case.value(np.random.default_rng(2), 2)
  weight = None if case.weight is None else case.weight(2)
  _assert_close(
      _aggregate(case, process, [2]), case.result(case.of_one(value, weight))
  )


def test_a_client_of_weight_zero_is_absent(case, process):
  """Whatever it sends, as long as it is finite."""
  values = [
      case.value(np.random.default_rng(client), client)
      for client in (0, 1, 2, 5)
  ]
  if case.weight is None:
    values[3], weights = case.absent(values[3]), None
  else:
    values[3] = tf.nest.map_structure(
        lambda x: (x * 1000).astype(x.dtype), values[3]
    )
    weights = [case.weight(client) for client in (0, 1, 2)]
    weights.append(np.zeros_like(weights[0]))
  _assert_close(
      _aggregate(case, process, [0, 1, 2, 5], values, weights),
      _aggregate(case, process, [0, 1, 2]),
  )


def test_nobody_present_gives_zeros(case, process):
  if case.weight is None:
    return
  result = _aggregate(
      case, process, [0, 1], weights=[np.zeros_like(case.weight(0))] * 2
  )
  for leaf in tf.nest.flatten(result):
    np.testing.assert_array_equal(leaf, np.zeros_like(leaf))


def test_structure_and_dtype_are_kept(case, process):
  if not case.keeps:
    return
  result_type = process.next.type_signature.result.result.member
  assert result_type == case.value_type
  result = _aggregate(case, process, [0, 1, 2])
  expected = case.value(np.random.default_rng(0), 0)
  tf.nest.assert_same_structure(result, expected)
  for a, e in zip(tf.nest.flatten(result), tf.nest.flatten(expected)):
    assert np.asarray(a).dtype == np.asarray(e).dtype


def test_composes_with_clipping(case, process):
  """A norm that nobody reaches changes nothing, one that all do bounds it."""
  if not case.clips:
    return
  clipped = {
      norm: _create(case, tff.aggregators.clipping_factory(norm, case.build()))
      for norm in (1e6, 1e-3)
  }
  _assert_close(
      _aggregate(case, clipped[1e6], [0, 1, 2]),
      _aggregate(case, process, [0, 1, 2]),
  )
  small = _aggregate(case, clipped[1e-3], [0, 1, 2])
  # Three messages of norm 1e-3 each, for sums; each part by its own weights.
  for leaf in tf.nest.flatten(small):
    assert 0 < np.linalg.norm(leaf) <= 3e-3 + 1e-6


def test_native_equals_fused(case, process):
  values = [
      case.value(np.random.default_rng(client), client) for client in range(4)
  ]
  weights = [] if case.weight is None else [
      [case.weight(client) for client in range(4)]
  ]

  def result(*arguments):
    state = process.initialize()
    return case.result(process.next(state, *arguments).result)

  agree_lib.agree(result, values, *weights)
