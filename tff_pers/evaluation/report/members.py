"""Runs of a report: comparable groups and labels."""

import json
import os
from typing import Any, NamedTuple, Optional, Sequence

from tff_pers.evaluation import figures
from tff_pers.evaluation import results

FINISHED, UNFINISHED, DIVERGED = 'finished', 'unfinished', 'diverged'
# Flags that determine the clients' data. Runs that differ in one of them, or in
# a flag of their task, are not compared to each other.
_DATA_FLAGS = (
    'task', 'partition', 'num_clients', 'holdout_clients', 'num_byzantine',
    'data_dir', 'train_fraction', 'validation_fraction',
)
# Keys that every run has; others depend on the version.
_FLAGS = ('algo', 'task', 'seed', 'num_clients', 'partition')
_COLUMNS = (
    'round', 'seconds', 'accuracy_mean', 'loss_mean', 'bytes_down', 'bytes_up'
)


def check(run: results.Run) -> None:
  """Raises a ValueError unless a run has the keys that all runs have."""
  for file, needed, held in (
      (results.CONFIG, _FLAGS, run.config['flags']),
      (results.METRICS, _COLUMNS, run.metrics or _COLUMNS),
  ):
    missing = [name for name in needed if name not in held]
    if missing:
      raise ValueError(
          f'{os.path.join(run.folder, file)} must be that of a run, found no'
          f' {", ".join(missing)}.'
      )


class Member(NamedTuple):
  """A run.

  Attributes:
    run: Contents of its folder.
    label: Its variant, with other differing flags if one variant was run with
      several settings. Runs of one label differ only in their seeds.
  """

  run: results.Run
  label: str

  @property
  def seed(self) -> int:
    """The seed of the run."""
    return self.run.config['flags']['seed']

  @property
  def name(self) -> str:
    """Name of the run in a sentence."""
    return f'{self.label}, seed {self.seed}'

  @property
  def state(self) -> str:
    """`finished`, `diverged` or `unfinished`."""
    if self.run.diverged is not None:
      return DIVERGED
    return UNFINISHED if self.run.clients is None else FINISHED

  @property
  def last_round(self) -> Optional[int]:
    """The last evaluated round, None before the first."""
    rounds = self.run.metrics.get('round')
    return None if rounds is None or not len(rounds) else int(rounds[-1])


class Group(NamedTuple):
  """Runs on the same data.

  Attributes:
    name: The task, and what distinguishes it from other groups.
    members: Its runs, grouped by label.
  """

  name: str
  members: list[Member]

  def by_label(self) -> dict[str, list[Member]]:
    """Returns the members of each label, in order."""
    found: dict[str, list[Member]] = {}
    for member in self.members:
      found.setdefault(member.label, []).append(member)
    return found


def groups(runs: Sequence[results.Run]) -> list[Group]:
  """Returns the runs grouped by data, in order of first occurrence."""
  found: dict[Any, list[results.Run]] = {}
  for run in runs:
    found.setdefault(_key(_data_flags(run)), []).append(run)
  data = [_data_flags(own[0]) for own in found.values()]
  return [
      Group(_group_name(flags, data), _labelled(own))
      for flags, own in zip(data, found.values())
  ]


def metric_of(members: Sequence[Member]) -> str:
  """Returns the metric of sorting and drawing: the runs' own, if known."""
  asked = [member.run.config.get('metric', 'accuracy') for member in members]
  names = [f'{metric}_mean' for metric in (*asked[:1], 'accuracy', 'loss')]
  return figures.first_known(
      (member.run.metrics for member in members), *names
  ).removesuffix('_mean')


def baseline_of(members: Sequence[Member]) -> Optional[float]:
  """Returns the accuracy of always predicting a client's most frequent class.

  It is the mean over clients that train, and over runs on the same data; None
  if it is unknown.
  """
  found = [figures.baseline(member.run) for member in members]
  known = [value for value in found if value is not None]
  return sum(known) / len(known) if known else None


def tellable(members: Sequence[Member]) -> list[Member]:
  """Returns the runs of a label from which curves are made.

  These are the finished runs or, if there are none, those with an evaluated
  round: still running, or diverged later.
  """
  finished = [member for member in members if member.state == FINISHED]
  return finished or [m for m in members if m.last_round is not None]


def differences(settings: Sequence[dict[str, Any]]) -> list[str]:
  """Returns the names of settings that differ, in order."""
  names = dict.fromkeys(name for one in settings for name in one)
  return [
      name for name in names
      if len({_key(one.get(name)) for one in settings}) > 1
  ]


def settings_of(run: results.Run) -> dict[str, Any]:
  """Returns the flags of a run without its seed."""
  return {k: v for k, v in run.config['flags'].items() if k != 'seed'}


def own_prefix(run: results.Run) -> str:
  """Returns the prefix of the method's own flags."""
  return f"{run.config['flags']['algo']}_"


def _data_flags(run: results.Run) -> dict[str, Any]:
  flags = run.config['flags']
  own = [name for name in flags if name.startswith(f"{flags['task']}_")]
  return {
      **{name: flags.get(name) for name in (*_DATA_FLAGS, *own)},
      # Older runs have losses in squared units of y.
      'y_is_scaled': bool(run.config.get('y_is_scaled')),
  }


def _group_name(
    flags: dict[str, Any], others: Sequence[dict[str, Any]]
) -> str:
  """Returns a name for data, with differing flags if the task is shared."""
  same_kind = lambda other: all(
      other[name] == flags[name] for name in ('task', 'partition')
  )
  differing = differences(list(filter(same_kind, others)))
  partition = f" ({flags['partition']})" if flags['partition'] else ''
  return ', '.join([
      f"{flags['task']}{partition}",
      *(f'{name}={flags.get(name)}' for name in differing),
  ])


def _labelled(runs: Sequence[results.Run]) -> list[Member]:
  """Returns members grouped by label, in order of first occurrence."""
  labelled = Group('', [
      member for variant, own in figures.by_variant(runs).items()
      for member in _with_settings(variant, own)
  ]).by_label()
  common = os.path.commonpath([run.folder for run in runs])
  placed = [
      member for own in labelled.values() for member in _placed(own, common)
  ]
  return [
      member for own in Group('', placed).by_label().values() for member in own
  ]


def _placed(members: Sequence[Member], common: str) -> list[Member]:
  """Returns members of a label; folders are named if a seed occurs twice.

  The folder above the seed's is named if that distinguishes them.
  """
  place = lambda member: ''
  for place in (
      place, lambda member: os.path.dirname(member.run.folder),
      lambda member: member.run.folder,
  ):
    if len({(place(m), m.seed) for m in members}) == len(members):
      break
  return [
      m._replace(label=f'{m.label} in {os.path.relpath(place(m), common)}')
      if place(m) else m for m in members
  ]


def _with_settings(
    variant: str, runs: Sequence[results.Run]
) -> list[Member]:
  """Returns members of a variant, labelled with the flags that differ."""
  names = differences([settings_of(run) for run in runs])
  members = []
  for run in runs:
    flags, prefix = settings_of(run), own_prefix(run)
    shown = [f'{name.removeprefix(prefix)}={flags.get(name)}' for name in names]
    members.append(
        Member(run, f'{variant} ({", ".join(shown)})' if shown else variant)
    )
  return members


def _key(value: Any) -> str:
  return json.dumps(value, sort_keys=True)
