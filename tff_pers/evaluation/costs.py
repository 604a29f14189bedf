"""Bytes and MACs that a run needed to reach an accuracy.

Costs are those of a client that takes part in all rounds so far: the bytes that
it received and sent, and the MACs of its deployed model, one forward pass for
each example that its local training visited. The traffic of a whole run is this
times the clients per round. In a run driven by events, whose rounds are server
updates, as many messages as a round has clients count as a round.

FedHM: Efficient Federated Learning for Heterogeneous Models via Low-rank
Factorization (section 4: 2 x participants x parameters x rounds, and MACs x
epochs x samples x rounds)
    Yao, Pan, O'Neill, Dai, Wan, Jin, Sun. 2021.
    https://arxiv.org/abs/2111.14655
"""

from typing import Any, Mapping, Optional, Sequence

import numpy as np

from tff_pers.evaluation import results

COLUMNS = (
    'algo', 'seed', 'tier', 'rounds', 'kept_from', 'bytes', 'macs'
)
# The row of the run itself: a client with mean cost.
MEAN = 'mean'


def cumulative_bytes(run: results.Run) -> np.ndarray:
  """Returns the bytes of a client until each evaluated round, float64[R].

  NaN if unknown: the run is an old one driven by events.
  """
  metrics = run.metrics
  return _visits(run) * (metrics['bytes_down'] + metrics['bytes_up'])


def cumulative_macs(run: results.Run) -> Optional[np.ndarray]:
  """Returns the MACs of a client until each evaluated round, float64[R].

  None if unknown: the model has loops, the method does not declare how many
  examples its clients visit, or the run is an old one.
  """
  cost = run.config.get('cost') or {}
  if cost.get('macs') is None or cost.get('examples') is None:
    return None
  return _visits(run) * cost['macs'] * cost['examples']


def _visits(run: results.Run) -> np.ndarray:
  """Returns in how many rounds such a client took part so far, float64[R]."""
  unknown = np.nan if 'in_flight' in run.metrics else 1.0
  cost = run.config.get('cost') or {}
  return run.metrics['round'] * cost.get('rounds_per_update', unknown)


def best_accuracy(run: results.Run) -> float:
  """Returns the largest mean accuracy of a run, 0 if it has none."""
  found = _accuracies(run)
  return float(np.max(found[~np.isnan(found)], initial=0.0))


def to_accuracy(
    run: results.Run, accuracy: float,
    tiers: Sequence[Mapping[str, Any]] = (),
) -> list[dict[str, Any]]:
  """Returns the rows of a run: its cost until it reached the accuracy.

  That is until the first evaluated round whose `accuracy_mean` is at least
  `accuracy`; `kept_from` is the first round from which on all are. Both, and
  the costs, are None if there is no such round. The row `mean` has mean costs
  of the clients; a row for each of `tiers`, rows of `cost.csv`, follows.
  """
  is_good = _accuracies(run) >= accuracy
  if not is_good.any():
    return [_row(run, MEAN)]
  first = int(np.argmax(is_good))
  bad = np.flatnonzero(~is_good)
  kept = int(bad[-1]) + 1 if bad.size else 0
  rounds, visits = run.metrics['round'], float(_visits(run)[first])
  reached = dict(
      rounds=int(rounds[first]),
      kept_from=int(rounds[kept]) if kept < len(rounds) else None,
  )
  macs = cumulative_macs(run)
  table = [_row(
      run, MEAN, bytes=float(cumulative_bytes(run)[first]),
      macs=None if macs is None else float(macs[first]), **reached,
  )]
  for tier in tiers:
    both = tier['bytes_down'] + tier['bytes_up']
    examples = (run.config.get('cost') or {}).get('examples')
    is_known = None not in (examples, tier['macs'])
    table.append(_row(
        run, tier['tier'], bytes=visits * both,
        macs=visits * tier['macs'] * examples if is_known else None,
        **reached,
    ))
  return table


def _accuracies(run: results.Run) -> np.ndarray:
  return np.asarray(run.metrics.get('accuracy_mean', []), np.float64)


def _row(run: results.Run, tier: str, **values) -> dict[str, Any]:
  return {
      **dict.fromkeys(COLUMNS), 'algo': run.variant,
      'seed': run.config['flags']['seed'], 'tier': tier, **values,
  }
