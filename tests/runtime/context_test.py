"""A runtime as TFF's default context."""

import pytest
import tensorflow_federated as tff

from tff_pers.runtime import context


class _Context(tff.framework.SyncContext):

  def invoke(self, comp, arg):
    raise NotImplementedError


@pytest.fixture(name='default')
def fixture_default():
  """Returns a default context; the one before comes back."""
  default = _Context()
  with context.Installed(default):
    yield default


def _current():
  return tff.framework.get_context_stack().current


def test_a_block_ends_with_the_context_before(default):
  closed = []
  ours = _Context()
  with context.Installed(ours, lambda: closed.append(True)):
    assert _current() is ours and not closed
  assert _current() is default and closed


def test_without_a_block_it_stays(default):
  with context.Installed(default):  # Restores it after the test.
    ours = _Context()
    context.Installed(ours)
    assert _current() is ours


def test_a_block_within_somebody_elses_block(default):
  theirs, ours = _Context(), _Context()
  with tff.framework.get_context_stack().install(theirs):
    with context.Installed(ours):
      assert _current() is ours
    assert _current() is theirs
  assert _current() is default  # And not `theirs`, for good.
