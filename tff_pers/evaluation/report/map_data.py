"""Maps of a page: mixing weights, routers, and classes of clients.

Clients are ordered by their true group if it is known. Maps of many clients are
averaged over blocks of neighbours to keep the page small.
"""

import base64
from typing import Any, NamedTuple, Sequence

import numpy as np

from tff_pers.evaluation import clusters
from tff_pers.evaluation import results
from tff_pers.evaluation.report import cells
from tff_pers.evaluation.report import client_data
from tff_pers.evaluation.report import members as members_lib

# Rows or columns of a map above which neighbours are averaged.
MAX_SIDE = 200
# Cells of all maps of a page, two bytes each.
MAX_CELLS = 1_000_000
# Values are 0 to 65534 times max / 65534; 65535 is NaN.
_STEPS = 65534


class _Axis(NamedTuple):
  """One side of a map.

  Attributes:
    title: Title of the entries.
    names: Names of the entries, in their order in the array.
    order: int[n], the entries in drawing order.
    edges: Positions in that order at which a new group begins.
  """

  title: str
  names: Sequence[str]
  order: np.ndarray
  edges: Sequence[int]


def of_group(members: Sequence[members_lib.Member]) -> dict[str, Any]:
  """Returns the maps of a group's runs.

  Returns:
    `maps`: see `_encoded`, with `kind` (`mixing`, `router` or `data`), `label`
    and `seed`; `left_out`: number of omitted maps.
  """
  found = [made for member in members for made in _of_member(member)]
  maps, total = [], 0
  for made in found:
    total += len(made['rows']['names']) * len(made['columns']['names'])
    if total <= MAX_CELLS:
      maps.append(made)
  return dict(maps=maps, left_out=len(found) - len(maps))


def _of_member(member: members_lib.Member) -> list[dict[str, Any]]:
  run, made = member.run, []
  if run.mixing is not None:
    made.append(_mixing(run))
  if run.router is not None and run.router.shape[1]:
    made.append(_router(run))
  if run.class_counts is not None and len(run.class_counts):
    made.append(_data(run))
  return [dict(one, label=member.label, seed=member.seed) for one in made]


def _mixing(run: results.Run) -> dict[str, Any]:
  mixing = run.mixing
  assert mixing is not None
  sources = _clients(run, mixing.shape[1], 'Source client')
  # Models of clusters do not belong to a client.
  owners = _clients(run, len(mixing), 'Owner of the model')
  if 'models_used' in run.metrics:
    owners = _numbered('Model', len(mixing))
  return _encoded('mixing', mixing, owners, sources)


def _router(run: results.Run) -> dict[str, Any]:
  assert run.router is not None
  number, models = run.router.shape
  return _encoded(
      'router', run.router, _clients(run, number, 'Client'),
      _numbered('Adaptor or model', models),
  )


def _data(run: results.Run) -> dict[str, Any]:
  assert run.class_counts is not None
  number, classes = run.class_counts.shape
  axis = _numbered('Class', classes)
  if len(run.class_names) == classes:
    axis = axis._replace(names=list(run.class_names))
  return _encoded(
      'data', run.class_counts, _clients(run, number, 'Client'), axis
  )


def _numbered(title: str, number: int) -> _Axis:
  return _Axis(title, [str(i) for i in range(number)], np.arange(number), [])


def _clients(run: results.Run, number: int, title: str) -> _Axis:
  """Returns the axis of the clients that train, by true group if known."""
  order, edges = clusters.group_order(run.groups, number)
  names = _numbered(title, number).names
  if run.client_names is not None and len(run.client_names) == number:
    names = client_data.as_names(run.client_names)
  return _Axis(title, names, order, edges)


def _encoded(
    kind: str, values, rows: _Axis, columns: _Axis
) -> dict[str, Any]:
  """Returns a map for a page.

  Returns:
    `rows` and `columns`, see `_side`; `largest`: the largest value, encoded as
    65534 in `cells`; `cells`: unsigned 16-bit numbers, little-endian, base64,
    row by row; 65535 is NaN.
  """
  table = np.asarray(values, np.float64)[rows.order][:, columns.order]
  table = _averaged(_averaged(table, 0), 1)
  known = table[np.isfinite(table)]
  largest = float(known.max(initial=0.0)) or 1.0
  scaled = np.where(
      np.isfinite(table), np.clip(table / largest, 0, 1) * _STEPS, _STEPS + 1
  )
  steps = np.round(scaled).astype('<u2')
  return dict(
      kind=kind, rows=_side(rows), columns=_side(columns),
      largest=cells.rounded(largest, 7),
      cells=base64.b64encode(steps.tobytes()).decode('ascii'),
  )


def block_size(number: int) -> int:
  """Returns the number of neighbours to average, so that few remain."""
  return -(-number // MAX_SIDE)


def _averaged(table: np.ndarray, axis: int) -> np.ndarray:
  """Returns means over blocks; the last block may be smaller."""
  number = table.shape[axis]
  size = block_size(number)
  if size <= 1:
    return table
  starts = np.arange(0, number, size)
  sums = np.add.reduceat(table, starts, axis)
  counts = np.diff(np.append(starts, number))
  return sums / np.expand_dims(counts, 1 - axis)


def _side(axis: _Axis) -> dict[str, Any]:
  """Returns `title`, `names` as drawn, `edges`, `block` (1: none averaged)."""
  size = block_size(len(axis.order))
  names = [axis.names[i] for i in axis.order]
  blocks = [names[i:i + size] for i in range(0, len(names), size or 1)]
  return dict(
      title=axis.title, block=size, number=len(names),
      names=[b[0] if len(b) == 1 else f'{b[0]} … {b[-1]}' for b in blocks],
      edges=[cells.rounded(edge / size, 6) for edge in axis.edges],
      ordered=bool(axis.edges),
  )


def summary(found: dict[str, Any]) -> str:
  """Returns a note on omitted maps, or ''."""
  if not found['left_out']:
    return ''
  return (
      f"{found['left_out']} more maps are left out to keep this page small;"
      ' binaries.plot draws them.'
  )
