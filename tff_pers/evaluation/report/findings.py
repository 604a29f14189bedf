"""Findings: problems of runs that a reader must know."""

from typing import Any, Iterator, Sequence

import numpy as np

from tff_pers.evaluation import figures
from tff_pers.evaluation import results
from tff_pers.evaluation.report import members as members_lib
from tff_pers.evaluation.report import settings_data

# A smaller increase of the loss may be due to the order of summation.
_ROUNDING = 1e-3


def of_groups(groups: Sequence[members_lib.Group]) -> list[dict[str, Any]]:
  """Returns findings about runs (`text` and `items`), most serious first."""
  members = [member for group in groups for member in group.members]
  found = [
      _finding(
          'diverged: training produced NaN or infinity', [
              f'{member.name}: {member.run.diverged}' for member in members
              if member.state == members_lib.DIVERGED
          ],
      ),
      _finding(
          'not finished: interrupted, still running, or pruned', [
              f'{member.name}: {_progress(member)}' for member in members
              if member.state == members_lib.UNFINISHED
          ],
      ),
      _finding(
          'ended with a test loss above that of the start',
          [text for member in members for text in _risen(member)],
      ),
      _finding(
          'dropped clients because of NaN or infinity, or refused messages',
          [text for member in members for text in _dropped(member)],
      ),
  ]
  uneven = [text for group in groups for text in _uneven(group)]
  if uneven:
    found.append(dict(text='Variants have different seeds.', items=uneven))
  mixed = settings_data.mixed_versions(members)
  if mixed:
    found.append(dict(
        text='Runs were made with different versions of packages.', items=mixed
    ))
  return [one for one in found if one]


def _finding(text: str, items: Sequence[str]):
  """Returns a finding about runs, or None without items."""
  if not items:
    return None
  runs = 'run' if len(items) == 1 else 'runs'
  return dict(text=f'{len(items)} {runs} {text}.', items=list(items))


def _progress(member: members_lib.Member) -> str:
  asked = member.run.config['flags']
  planned = asked.get('rounds')
  if planned == 'auto':
    planned = f"at most {asked.get('max_rounds')}"
  if member.last_round is None:
    return f'no evaluated round yet, of {planned} rounds'
  return f'round {member.last_round} of {planned}'


def _risen(member: members_lib.Member) -> Iterator[str]:
  """Yields a sentence if the loss is larger at the end than at the start."""
  metrics = member.run.metrics
  if member.state != members_lib.FINISHED or not figures.has(
      metrics, 'loss_mean'
  ):
    return
  losses, rounds = metrics['loss_mean'], metrics['round']
  first, when = losses[0], f'in round {rounds[0]:.0f}'
  if member.run.config.get('initial_loss') is not None:
    first, when = member.run.config['initial_loss'], 'untrained'
  if not losses[-1] <= first * (1 + _ROUNDING):
    lowest = int(np.nanargmin(losses))
    yield (
        f'{member.name}: {first:.4g} {when}, {losses[-1]:.4g} in round'
        f' {rounds[-1]:.0f}; lowest, {losses[lowest]:.4g}, in round'
        f' {rounds[lowest]:.0f}'
    )


def _dropped(member: members_lib.Member) -> Iterator[str]:
  """Yields a sentence if clients were dropped."""
  rows = results.read_rows(member.run.folder, results.DROPPED)
  if rows:
    clients = [f"client {row['client']} in {row['rounds']}" for row in rows]
    yield f'{member.name}: {", ".join(clients)} rounds'


def _uneven(group: members_lib.Group) -> Iterator[str]:
  """Yields the seeds of each variant unless all have the same."""
  seeds = {
      label: sorted(member.seed for member in own)
      for label, own in group.by_label().items()
  }
  if any(own != next(iter(seeds.values())) for own in seeds.values()):
    for label, own in seeds.items():
      yield f'{label}: {", ".join(map(str, own))}'
