"""Every test runs on the fused runtime unless it installs another one."""

import ctypes
import gc
import os

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '2')
# No test downloads data, in programs that it starts neither: nobody is there.
os.environ['https_proxy'] = 'http://127.0.0.1:9'

import pytest  # pylint: disable=g-import-not-at-top
import tensorflow as tf  # pylint: disable=g-import-not-at-top
import tensorflow_federated as tff  # pylint: disable=g-import-not-at-top

from tests import slowest  # pylint: disable=g-import-not-at-top
from tff_pers.runtime import fused  # pylint: disable=g-import-not-at-top
from tff_pers.runtime import native  # pylint: disable=g-import-not-at-top

# For pytest-xdist's controller, which runs no test.
native.drop_default_context()

# TensorFlow's and TFF's modules are never garbage: half a million objects that
# need not be looked at again and again.
gc.collect()
gc.freeze()


pytest_addoption = slowest.add_option
pytest_configure = slowest.register


@pytest.fixture(scope='session', autouse=True)
def _fused_runtime():
  # Nothing is measured: tests are over before a choice pays.
  fused.use(strategy='loop')
  yield
  native.stop()


@pytest.fixture(scope='module', autouse=True)
def _nothing_stays_behind(request):
  """What a file of tests keeps for its tests is freed after the last one."""
  yield
  for value in vars(request.module).values():
    if hasattr(value, 'cache_clear'):
      value.cache_clear()
  gc.collect()
  # The native runtime tells the allocator to keep what is freed.
  libc = ctypes.CDLL(None)
  if hasattr(libc, 'malloc_trim'):
    libc.malloc_trim(0)


@pytest.fixture(autouse=True)
def _no_seed_of_another_test():
  """With a global seed, unseeded data sets are the same in every pass."""
  # Setting it, even to None, clears TensorFlow's compiled kernels: every
  # function that tests share would be instantiated and optimized again.
  if tf.compat.v1.random.get_seed(None) != (None, None):
    tf.random.set_seed(None)


@pytest.fixture(autouse=True)
def _runtime_of_before(_fused_runtime):
  before = tff.framework.get_context_stack().current
  yield
  tff.framework.set_default_context(before)
