"""What a run leaves behind: rows per client, tables, weights."""

import os
from typing import Mapping, Optional

import numpy as np

from tff_pers.evaluation import results
from tff_pers.evaluation import summary
from tff_pers.simulation import program


def final_table(clients: Mapping[str, np.ndarray]) -> str:
  """Returns the summary over clients, a row per metric, as Markdown."""
  rows = []
  for seen, who in ((1, ''), (0, ' of held-out clients')):
    for metric in ('accuracy', 'loss'):
      chosen = clients['seen'] == seen
      values = clients[metric][chosen]
      if not np.all(np.isnan(values)):
        numbers = summary.summarize(
            values, clients['num_test'][chosen],
            higher_is_better=metric == 'accuracy',
        )
        rows.append({'metric': metric + who, **numbers._asdict()})
  return results.markdown(('metric', *summary.Summary._fields), rows)


def client_rows(clients, seen: int, data: program.Data, metrics):
  """Returns the rows of `clients.csv`."""
  return [
      dict(
          client=int(client), seen=seen,
          num_train=int(data.train[i]['num_examples']),
          num_test=int(data.test[i]['num_examples']),
          accuracy=_cell(metrics.get('accuracy'), i),
          loss=_cell(metrics['loss'], i),
      )
      for i, client in enumerate(clients)
  ]


def _cell(values, i: int) -> Optional[float]:
  """Returns a client's metric, None if it has no test examples."""
  if values is None or np.isnan(values[i]):
    return None
  return values[i].item()


def dense(mixing, num_clients: int) -> np.ndarray:
  """Returns mixing weights as float32[N, N], also those of sparse rows."""
  if not isinstance(mixing, Mapping):
    return np.asarray(mixing)
  table = np.zeros([num_clients, num_clients], np.float32)
  rows = np.arange(num_clients)[:, None]
  np.add.at(table, (rows, mixing['columns']), mixing['values'])
  return table


def export_weights(folder: str, client: int, weights) -> None:
  """Writes what a client deploys to export/client_<number>.npz, by leaf."""
  os.makedirs(os.path.join(folder, 'export'), exist_ok=True)
  leaves = {
      '/'.join(map(str, path)): np.asarray(leaf)
      for path, leaf in _flatten_with_path(weights)
  }
  np.savez(os.path.join(folder, 'export', f'client_{client}.npz'), **leaves)


def _flatten_with_path(structure, path=()):
  """Yields (path, leaf) of nested mappings and sequences."""
  if isinstance(structure, Mapping):
    items = structure.items()
  elif isinstance(structure, (tuple, list)):
    items = enumerate(structure)
  else:
    yield path or ('weights',), structure
    return
  for name, member in items:
    yield from _flatten_with_path(member, (*path, name))
