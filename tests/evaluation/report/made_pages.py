"""A page about runs that nobody trained, with everything that it can have."""

import numpy as np

from tests.evaluation import made_runs
from tff_pers.evaluation import results
from tff_pers.evaluation.report import page

# What would run if a name were taken for markup.
EVIL = '</script><script>window.hacked = 1</script><img src=x onerror=hacked=1>'
# Their groups are 1, 0, 1, 0.
CLIENTS = ('ann', EVIL, 'client 10', 'client 9')
ORDERED = (EVIL, 'client 9', 'ann', 'client 10')
MIXING = np.array([
    [0.5, 0.0, 0.5, 0.0], [0.0, 0.75, 0.0, 0.25], [0.25, 0.0, 0.75, 0.0],
    [0.0, 1.0, 0.0, 0.0],
])
ACCURACIES = {
    'local_only': {0: (0.5, 0.5, 0.5, 0.5), 1: (0.5, 0.5, 0.5, 1.0)},
    'perm': {0: (0.4, 0.6, 0.7, 0.5), 1: (0.9, 0.9, 0.9, 0.9)},
    EVIL: {0: (0.1, 0.2, 0.3, 0.4)},
}


def runs(folder) -> list[results.Run]:
  """Returns runs of three methods; client 10 trains only with seed 0."""
  found = []
  for label, seeds in ACCURACIES.items():
    for seed, values in seeds.items():
      path = made_runs.write(
          f'{folder}/{len(found)}', label, seed, accuracy=np.mean(values),
          validation=np.mean(values) - 0.3, groups=np.array([1, 0, 1, 0]),
          clients=dict(zip('0123', values)), mixing=MIXING, perm_note=EVIL,
          columns=dict(distance=[1000.0, 10.0, 0.1]),
      )
      found.append(_named(results.read_run(path), seed))
  return found


def _named(run: results.Run, seed: int) -> results.Run:
  names, seen = np.array(CLIENTS), np.ones(4)
  if seed == 1:
    seen[2] = 0
  return run._replace(
      client_names=names, clients=dict(run.clients, client=names, seen=seen)
  )


def collected(folder):
  """Returns the data of the page."""
  return page.collect(runs(folder), top=str(folder), title=EVIL)
