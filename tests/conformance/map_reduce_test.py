"""Which methods TFF compiles for systems that map and reduce.

A system of that kind keeps what is a client's own with its data: a client is
`<own, data>`, and the round's result is what the server has after it.
"""

import collections
import pathlib

import numpy as np
import pytest
import tensorflow_federated as tff

from tests import slow
from tests.conformance import agree
from tff_pers.config import methods
from tff_pers.experiments import flags
from tff_pers.testing import tiny

# With a second exchange in a round, or a model for each client.
_WITHOUT = (
    'fedamp', 'fedfomo', 'oracle_groups', 'perm', 'pfedgraph', 'splitmix',
    'uniform_shuffling',
)
flags.all_flags()  # Registers them.
_NAMES = methods.names()
_FIRST = ('fedavg',)
_PAGE = pathlib.Path(__file__).parents[2] / 'docs' / 'building_blocks.md'


def _round(process):
  """Returns (S@SERVER, {<own, data>}@CLIENTS -> <S, M>@SERVER) of `next`."""
  state, own, data = process.next.type_signature.parameter
  client = tff.FederatedType(tff.to_type(collections.OrderedDict(
      own=own.member, data=data.member
  )), tff.CLIENTS)
  part = lambda name: tff.tensorflow.computation(
      lambda client: client[name], client.member
  )
  get_own, get_data = part('own'), part('data')

  @tff.federated_computation(state, client)
  def compute(state, clients):
    output = process.next(
        state, tff.federated_map(get_own, clients),
        tff.federated_map(get_data, clients),
    )
    return output.state, output.metrics

  return compute


@pytest.mark.parametrize('name', slow.beyond(
    len(_FIRST), [*_FIRST, *(n for n in _NAMES if n not in _FIRST)]
))
def test_a_round_is_compiled_unless_it_has_two_exchanges(name):
  task = tiny.task()
  process = tiny.build(name, task)
  compute = _round(process)
  compile_ = tff.backends.mapreduce.get_map_reduce_form_for_computation
  if name in _WITHOUT:
    with pytest.raises(ValueError):
      compile_(compute)
    return
  compiled = tff.backends.mapreduce.get_computation_for_map_reduce_form(
      compile_(compute)
  )
  state = process.initialize_seeded(3)
  own = [process.initialize_client(state, i) for i in range(4)]
  expected = process.next(state, own, task.train)
  clients = [
      collections.OrderedDict(own=o, data=d) for o, d in zip(own, task.train)
  ]
  found, _ = agree.on_native(compiled, state, clients)
  # TFF's form keeps the order of fields, but not the kinds of containers.
  flat = lambda state: tff.structure.flatten(
      tff.structure.from_container(state, recursive=True)
  )
  for a, b in zip(flat(expected.state), flat(found)):
    np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_the_page_names_those_that_are_not():
  assert set(_WITHOUT) < set(_NAMES)
  assert f'all methods but {", ".join(f"`{n}`" for n in _WITHOUT)}' in (
      ' '.join(_PAGE.read_text(encoding='utf-8').split())
  )
