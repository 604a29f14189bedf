"""Flags that differ come first, then those that somebody gave."""

from tests.evaluation import made_runs

from tff_pers.evaluation.report import members
from tff_pers.evaluation.report import settings_data


def _group(tmp_path, *runs):
  group, = members.groups(made_runs.read_all(tmp_path, *runs))
  return group


def test_flags_by_kind(tmp_path):
  group = _group(
      tmp_path,
      ('perm', 0, dict(
          perm_lambda=0.1, batch=10, momentum=0.0, strict=True, path='',
          config=dict(given=dict(algo='perm', batch=10)),
      )),
      ('perm[lambda=2]', 0, dict(
          perm_lambda=2, batch=10, momentum=0.0, strict=True, path='',
      )),
      ('fedavg', 0, dict(
          fedavg_rate=0.3, batch=10, momentum=0.5, strict=True, path='',
      )),
  )
  found = settings_data.of_group(group)
  differing = found['differing']
  assert [column['title'] for column in differing['columns']] == [
      'Flag', 'perm', 'perm[lambda=2]', 'fedavg'
  ]
  assert differing['rows'] == [
      ['--perm_lambda', '0.1', '2', None], ['--momentum', '0.0', '0.0', '0.5']
  ]
  assert found['given']['rows'] == [['--batch', '10']]
  assert found['own']['rows'] == [['--fedavg_rate', '0.3']]
  common = dict(found['common']['rows'])
  assert common['--strict'] == 'true' and common['--path'] == 'empty'
  # The method is the label, and seeds are runs.
  assert not {'--algo', '--seed', '--batch', '--momentum'} & set(common)


def test_versions_of_all_runs(tmp_path):
  group = _group(
      tmp_path, ('perm', 0, {}), ('perm', 1, dict(
          config=dict(versions=dict(python='3.9', numpy='1.25'))
      )),
  )
  table = settings_data.versions(group.members)
  assert table['rows'] == [['python', '3.11, 3.9'], ['numpy', '1.25']]
  assert settings_data.mixed_versions(group.members) == ['python']
  assert settings_data.mixed_versions(group.members[:1]) == []
