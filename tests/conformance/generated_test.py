"""Random federated computations: `programs` draws them."""

import hypothesis
from hypothesis import strategies as st
import pytest
import tensorflow_federated as tff

from tests.conformance import agree as agree_lib
from tests.conformance import drawn_values
from tests.conformance import programs
from tff_pers.runtime.fused.values import results

SETTINGS = hypothesis.settings(
    derandomize=True, deadline=None, max_examples=15, print_blob=True,
    suppress_health_check=list(hypothesis.HealthCheck),
    # An example takes a second; without shrinking, a failure as long as a pass.
    phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate),
)


@pytest.fixture(autouse=True)
def keeps_small_arrays(monkeypatch):
  monkeypatch.setattr(results, 'LEAST_BYTES', 1)


def _check(data):
  """Two cohorts of a computation of up to six steps.

  The second one comes back, as it was and then with changed arrays.
  """
  types = st.one_of(programs.member_types(), programs.sequence_types())
  client_types = data.draw(st.lists(types, min_size=1, max_size=2))
  server_types = data.draw(st.lists(programs.member_types(), max_size=2))
  computation = programs.computation(
      data, client_types, server_types, data.draw(st.integers(1, 6))
  )
  # The fused runtime leaves queues to the native one.
  has_queue = b'FIFOQueueV2' in tff.framework.serialize_computation(
      computation
  ).SerializeToString()
  for _ in range(2):
    num_clients = data.draw(st.integers(0, 5))
    arguments = [
        *(
            [programs.value(data, t) for _ in range(num_clients)]
            for t in client_types
        ),
        *(programs.value(data, t) for t in server_types),
    ]
    drawn_values.freeze(arguments)
    _agree(computation, arguments, num_clients, fuses=not has_queue)
  _agree(computation, arguments, num_clients, fuses=not has_queue)
  drawn_values.change(arguments)
  _agree(computation, arguments, num_clients, fuses=not has_queue)


def _agree(computation, arguments, num_clients, fuses):
  try:
    agree_lib.agree(computation, arguments, fuses=fuses)
  except ValueError:
    assert not num_clients  # Clients return nothing then, on both runtimes.


@SETTINGS
@hypothesis.given(data=st.data())
def test_random_computations(data):
  _check(data)


@pytest.mark.slow
@hypothesis.settings(SETTINGS, max_examples=150, derandomize=False)
@hypothesis.given(data=st.data())
def test_many_random_computations(data):
  _check(data)
