"""Flags and versions on a page: differences between runs come first."""

from typing import Any, Sequence

from tff_pers.evaluation.report import cells
from tff_pers.evaluation.report import members as members_lib

_FLAG = cells.Column('flag', 'Flag', 'text')


def of_group(group: members_lib.Group) -> dict[str, Any]:
  """Returns the flags of a group's runs, a table for each kind.

  Returns:
    `differing`: flags whose values differ between runs, a column per label;
    for other flags `given`: those that were set; `own`: flags of methods, and
    `common`: flags of all runs, that have their defaults.
  """
  first = {label: own[0].run for label, own in group.by_label().items()}
  flags = {k: members_lib.settings_of(run) for k, run in first.items()}
  common = {
      name: [one[name] for one in flags.values() if name in one]
      for one in flags.values() for name in one
  }
  # The method is the label.
  common.pop('algo')
  differing = [
      name for name, values in common.items()
      if members_lib.differences([{name: value} for value in values])
  ]
  of_methods = {
      name for run in first.values() for name in run.config['flags']
      if name.startswith(members_lib.own_prefix(run))
  }
  given = {
      name for run in first.values() for name in run.config.get('given', ())
  }
  same = {
      name: 'given' if name in given
      else 'own' if name in of_methods else 'common'
      for name in common if name not in differing
  }
  return dict(
      differing=_differing_table(differing, flags),
      **{
          kind: cells.table(
              [_FLAG, cells.Column('value', 'Value', 'text')], [
                  dict(flag=f'--{name}', value=_shown(common[name][0]))
                  for name, own in same.items() if own == kind
              ],
          ) for kind in ('given', 'own', 'common')
      },
  )


def _differing_table(names: Sequence[str], flags) -> dict[str, Any]:
  """Returns the values of flags, a column for each label of `flags`."""
  return cells.table(
      [_FLAG, *(cells.Column(f'run{i}', label, 'text')
                for i, label in enumerate(flags))], [
                    dict(
                        {f'run{i}': _shown(one[name])
                         for i, one in enumerate(flags.values())
                         if name in one},
                        flag=f'--{name}',
                    ) for name in names
                ],
  )


def versions(members: Sequence[members_lib.Member]) -> dict[str, Any]:
  """Returns the versions of packages that made the runs, as a table."""
  found: dict[str, dict[str, None]] = {}
  for member in members:
    for package, version in (member.run.config.get('versions') or {}).items():
      found.setdefault(package, {})[version] = None
  rows = [
      dict(package=package, version=', '.join(own))
      for package, own in found.items()
  ]
  return cells.table(
      [cells.Column('package', 'Package', 'text'),
       cells.Column('version', 'Version', 'text')], rows,
  )


def mixed_versions(members: Sequence[members_lib.Member]) -> list[str]:
  """Returns the packages whose versions differ between runs."""
  table = versions(members)
  return [row[0] for row in table['rows'] if ', ' in row[1]]


def _shown(value: Any) -> str:
  """Returns a value as typed."""
  if value is None:
    return "the task's"
  if isinstance(value, bool):
    return str(value).lower()
  return str(value) if value != '' else 'empty'
