"""The runs of a report: which are comparable, and what each is called."""

import json
import os
from typing import Any, NamedTuple, Optional, Sequence

from tff_pers.evaluation import figures
from tff_pers.evaluation import results

FINISHED, UNFINISHED, DIVERGED = 'finished', 'unfinished', 'diverged'
# Flags that say which data clients have. Runs that differ in one of them, or in
# a flag of their task, are not compared with each other.
_DATA_FLAGS = (
    'task', 'partition', 'num_clients', 'holdout_clients', 'num_byzantine',
    'data_dir', 'train_fraction', 'validation_fraction',
)
# What every run has; other flags and columns may come and go.
_FLAGS = ('algo', 'task', 'seed', 'num_clients', 'partition')
_COLUMNS = (
    'round', 'seconds', 'accuracy_mean', 'loss_mean', 'bytes_down', 'bytes_up'
)


def check(run: results.Run) -> None:
  """Raises a ValueError, a sentence, unless a run has what all runs have."""
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
    run: What its folder holds.
    label: Its variant, with what else differs where one variant was run with
      several settings. Runs of one label differ in their seeds alone.
  """

  run: results.Run
  label: str

  @property
  def seed(self) -> int:
    """The seed of the run."""
    return self.run.config['flags']['seed']

  @property
  def name(self) -> str:
    """Names it in a sentence."""
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
    name: The task, and what distinguishes it from the other groups.
    members: Its runs, those of a label together.
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
  """Returns the runs by their data, in the order of the first of each."""
  found: dict[Any, list[results.Run]] = {}
  for run in runs:
    found.setdefault(_key(_data_flags(run)), []).append(run)
  data = [_data_flags(own[0]) for own in found.values()]
  return [
      Group(_group_name(flags, data), _labelled(own))
      for flags, own in zip(data, found.values())
  ]


def metric_of(members: Sequence[Member]) -> str:
  """Returns what a page sorts and draws by: what the runs choose by, if known.

  Args:
    members: Runs on the same data.
  """
  asked = [member.run.config.get('metric', 'accuracy') for member in members]
  return next((
      metric for metric in (*asked[:1], 'accuracy')
      if any(figures.has(m.run.metrics, f'{metric}_mean') for m in members)
  ), 'loss')


def baseline_of(members: Sequence[Member]) -> Optional[float]:
  """Returns the accuracy of always answering a client's most frequent class.

  Args:
    members: Runs on the same data.

  Returns:
    The mean over clients that train, and over runs; None if it is not known.
  """
  found = [figures.baseline(member.run) for member in members]
  known = [value for value in found if value is not None]
  return sum(known) / len(known) if known else None


def tellable(members: Sequence[Member]) -> list[Member]:
  """Returns the runs of a label that curves are made of.

  Finished ones. Where there are none, those that have an evaluated round: what
  is under way, or what led to a divergence.
  """
  finished = [member for member in members if member.state == FINISHED]
  return finished or [m for m in members if m.last_round is not None]


def differences(settings: Sequence[dict[str, Any]]) -> list[str]:
  """Returns the names of what is not the same in all, in order."""
  names = dict.fromkeys(name for one in settings for name in one)
  return [
      name for name in names
      if len({_key(one.get(name)) for one in settings}) > 1
  ]


def settings_of(run: results.Run) -> dict[str, Any]:
  """Returns the flags of a run, less its seed."""
  return {k: v for k, v in run.config['flags'].items() if k != 'seed'}


def own_prefix(run: results.Run) -> str:
  """Returns what the names of the method's own flags begin with."""
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
  """Names data; of others of the same task, by what differs."""
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
  """Returns members, those of a label together, in order of the first."""
  by_variant: dict[str, list[results.Run]] = {}
  for run in runs:
    by_variant.setdefault(run.variant, []).append(run)
  labelled = Group('', [
      member for variant, own in by_variant.items()
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
  """Returns members of a label; where a seed is twice, folders are named.

  The folder above that of the seed if that tells them apart.
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
  """Returns members of a variant; their labels have the flags that differ."""
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
