"""Every test runs on the fused runtime unless it installs another one."""

import ctypes
import gc
import os
import sys

# Until all tests are collected: nothing of it is garbage.
gc.disable()
os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '2')
# No test downloads data, in programs that it starts neither: nobody is there.
os.environ['https_proxy'] = 'http://127.0.0.1:9'
# Neither reads or writes the user's compiled computations.
os.environ['TFF_PERS_COMPILE_CACHE'] = 'off'

from absl import logging  # pylint: disable=g-import-not-at-top
import psutil  # pylint: disable=g-import-not-at-top
import pytest  # pylint: disable=g-import-not-at-top
import tensorflow as tf  # pylint: disable=g-import-not-at-top
import tensorflow_federated as tff  # pylint: disable=g-import-not-at-top
from tensorflow.python.util import tf_stack  # pylint: disable=g-import-not-at-top

from tests import levels  # pylint: disable=g-import-not-at-top
from tests import slowest  # pylint: disable=g-import-not-at-top
from tff_pers.runtime import fused  # pylint: disable=g-import-not-at-top
from tff_pers.runtime import native  # pylint: disable=g-import-not-at-top

# Graphs of tests are tiny, and pytest has a worker per core: handing operations
# over to other threads takes longer than they do. Programs that tests start, and
# the native runtime's worker, have as many threads as ever.
tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)

# For pytest-xdist's controller, which runs no test.
native.drop_default_context()


_GROWTH = 5e7  # Bytes, after which memory is freed: heaps that grow more have holes.
_size_before = 0.0

pytest_addoption = slowest.add_option
pytest_configure = slowest.register


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
  levels.mark(items)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish():
  # What TensorFlow, TFF and pytest have made by now is never garbage: a million
  # objects that need not be looked at again and again. Nor need what tests of a
  # file share, after every 70,000 new objects (the default), which took a tenth
  # of all tests' time; that memory has grown says when to look.
  gc.freeze()
  gc.set_threshold(50000, 20, 20)
  gc.enable()
  # TensorFlow notes for every operation where it was made, and never forgets it:
  # 1.6 MB and a tenth of the time of a test of PERM. One place will do.
  stack = tf_stack.extract_stack()
  tf_stack.extract_stack = lambda stacklevel=1: stack


@pytest.fixture(scope='session', autouse=True)
def _fused_runtime():
  # Nothing is measured: tests are over before a choice pays.
  fused.use(strategy='loop')
  yield
  native.stop()


@pytest.fixture(scope='module', autouse=True)
def _nothing_stays_behind():
  """What files of tests and their helpers keep is freed after each file."""
  yield
  for name, module in list(sys.modules.items()):
    if name.startswith('tests.'):
      for value in vars(module).values():
        if hasattr(value, 'cache_clear'):
          value.cache_clear()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown():
  global _size_before  # pylint: disable=global-statement
  if psutil.Process().memory_info().rss > _size_before + _GROWTH:
    # Clears TensorFlow's compiled kernels, those of functions that are gone, too.
    tf.random.set_seed(None)
    gc.collect()
    # The native runtime tells the allocator to keep what is freed.
    libc = ctypes.CDLL(None)
    if hasattr(libc, 'malloc_trim'):
      libc.malloc_trim(0)
    _size_before = psutil.Process().memory_info().rss


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


@pytest.fixture(name='native_runtime')
def fixture_native_runtime(_runtime_of_before):
  """TFF's own runtime, for processes that run too few rounds to be fused."""
  with native.use():
    yield


@pytest.fixture(name='axes')
def fixture_axes(monkeypatch):
  """The axes of the figures that are made."""
  from tff_pers.evaluation import figures  # pylint: disable=g-import-not-at-top
  made = []
  new_figure = figures.new_figure
  def keep(*args):
    picture, axes = new_figure(*args)
    made.append(axes)
    return picture, axes
  monkeypatch.setattr(figures, 'new_figure', keep)
  return made


@pytest.fixture(name='saved')
def fixture_saved(monkeypatch):
  """The figures that are made, instead of files."""
  from tff_pers.evaluation import figures  # pylint: disable=g-import-not-at-top
  saved = []
  monkeypatch.setattr(
      figures, 'save', lambda picture, *rest: saved.append(picture)
  )
  return saved


@pytest.fixture(name='no_plots')
def fixture_no_plots(monkeypatch):
  """No figures of runs, which take longer than small runs."""
  from tff_pers.evaluation import plots  # pylint: disable=g-import-not-at-top
  monkeypatch.setattr(plots, 'plot_run', lambda folder: None)
  monkeypatch.setattr(plots, 'plot_runs', lambda runs, folder: None)


@pytest.fixture(name='trained')
def fixture_trained(monkeypatch):
  """The variants and seeds of the runs that train."""
  from tff_pers.experiments import runner  # pylint: disable=g-import-not-at-top
  trained = []
  train = runner._train
  def count(experiment, *args):
    trained.append((experiment.variant, experiment.flag('seed')))
    return train(experiment, *args)
  monkeypatch.setattr(runner, '_train', count)
  return trained


@pytest.fixture(name='warnings')
def fixture_warnings(monkeypatch):
  """The warnings in the log of absl, as texts."""
  found = []
  monkeypatch.setattr(
      logging, 'warning', lambda text, *args: found.append(text % args)
  )
  return found
