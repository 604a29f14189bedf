"""Clients of a page: the metric of each, by run."""

from typing import Any, Iterable, Sequence

import numpy as np

from tff_pers.evaluation import figures
from tff_pers.evaluation import results
from tff_pers.evaluation import summary
from tff_pers.evaluation.report import cells
from tff_pers.evaluation.report import members as members_lib


def of_group(members: Sequence[members_lib.Member]) -> dict[str, Any]:
  """Returns the last evaluated metrics of all clients of a group.

  Returns:
    `metric`: See `members.metric_of`; `isHigherBetter`: whether larger values
    are better; `baseline`: see `members.baseline_of`, None for metrics other
    than accuracy; `names`: the N clients of any run; `runs`: `label`, `seed`
    and `values`, [N], None if a client has no value; `seeds`: by seed, because
    data may differ, `num_test` [N] and `unseen`, the positions of clients that
    never train.
  """
  finished = [m for m in members if m.state == members_lib.FINISHED]
  metric = members_lib.metric_of(members)
  if not any(figures.has(m.run.clients, metric) for m in finished):
    metric = 'loss'
  names = list(dict.fromkeys(
      name for m in finished for name in names_of(m.run)
  ))
  places = {name: place for place, name in enumerate(names)}
  return dict(
      metric=metric, isHigherBetter=summary.is_higher_better(metric),
      baseline=(
          members_lib.baseline_of(members) if metric == 'accuracy' else None
      ),
      names=names,
      runs=[
          dict(label=m.label, seed=m.seed,
               values=_placed(m.run, metric, places))
          for m in finished
      ],
      seeds={
          str(m.seed): dict(
              num_test=_placed(m.run, 'num_test', places),
              unseen=[
                  places[name] for name, seen in zip(
                      names_of(m.run), m.run.final_clients['seen']
                  ) if not seen
              ],
          )
          for m in finished
      },
  )


def names_of(run: results.Run) -> list[str]:
  """Returns the names of the clients in `clients.csv`."""
  return as_names(run.final_clients['client'])


def as_names(clients: Iterable[Any]) -> list[str]:
  """Returns names or numbers of clients, [N], as texts."""
  return [
      f'{name:.0f}' if isinstance(name, float) else str(name)
      for name in np.asarray(clients).tolist()
  ]


def _placed(run: results.Run, column: str, places) -> list[Any]:
  """Returns a column of `clients.csv`, with a value for every client."""
  values = np.full(len(places), np.nan)
  own = [places[name] for name in names_of(run)]
  values[own] = run.final_clients[column]
  return cells.series(values)
