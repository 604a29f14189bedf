"""Old paths of modules work for one release, and say where they are now."""

import importlib
import subprocess
import sys

import pytest

from tff_pers import moved


@pytest.mark.parametrize('old', sorted(moved._MOVED))
def test_an_old_path_is_the_module_itself(old):
  new = importlib.import_module(moved._MOVED[old])
  spec = new.__spec__
  sys.modules.pop(old, None)
  with pytest.warns(FutureWarning, match=f'^{old} is now {new.__name__};'):
    assert importlib.import_module(old) is new
  assert new.__spec__ is spec


@pytest.mark.parametrize('module, names', [
    ('fedhm', 'build_fedhm tier_weights'),
    ('ffgg', 'build_ffgg'),
    ('floral', 'build_floral build_floral_client_work'),
    ('local_update', 'build_local_update compose compose_averaging'),
    ('perm', 'build_perm PermHyperparameters'),
])
def test_a_module_that_is_a_folder_now_has_its_functions(module, names):
  folder = importlib.import_module(f'tff_pers.algorithms.{module}')
  assert not set(names.split()) - set(vars(folder))


def test_a_script_of_the_last_release_runs():
  """The warning stands at its own line."""
  script = (
      'from tff_pers import composition, registry\n'
      'from tff_pers.cadence import Cadence\n'
      'import tff_pers.config.registry\n'
      'composition.compose, Cadence\n'
      'assert registry is tff_pers.config.registry\n'
  )
  done = subprocess.run(
      [sys.executable, '-c', script], check=True, capture_output=True, text=True,
  )
  assert [
      line.partition(';')[0] for line in done.stderr.splitlines()
      if 'FutureWarning' in line
  ] == [
      '<string>:1: FutureWarning: tff_pers.registry is now'
      ' tff_pers.config.registry',
      '<string>:2: FutureWarning: tff_pers.cadence is now'
      ' tff_pers.config.cadence',
  ]
