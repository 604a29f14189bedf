"""Clients of a published data set, read on demand."""

from typing import Any, Callable, Mapping, Optional, Sequence

import numpy as np

from tff_pers.data import errors
from tff_pers.data import on_demand
from tff_pers.data import partition
from tff_pers.data.formats import published
from tff_pers.data.formats import records

# (records of a client by name of the field, file and client as text) ->
# (x, y), one row per record.
Convert = Callable[[Mapping[str, np.ndarray], str], tuple[Any, Any]]


def with_enough(
    parts: published.Parts, minima: Mapping[str, int], tip: str
) -> list[str]:
  """Returns the sorted names of the clients with enough records.

  `minima` are numbers of records by part; a client without records in a part
  may be missing there. The tip says how to keep more clients.

  Raises:
    errors.DataError: If there is no such client.
  """
  kept: Optional[set[str]] = None
  for part, minimum in minima.items():
    found = parts[part]
    names = {
        name for name, size in zip(found.clients, found.sizes)
        if size >= minimum
    }
    kept = names if kept is None else kept & names
  if not kept:
    wanted = ' and '.join(
        f'{minimum} {part} examples' for part, minimum in minima.items()
    )
    raise errors.DataError(
        f'{parts[published.TRAIN].where} must hold a client with at least'
        f' {wanted}, found none among {len(parts[published.TRAIN].clients)}.'
        f' Tip: {tip}'
    )
  return sorted(kept)


def sample(names: Sequence[str], num_clients: int, seed: int) -> list[str]:
  """Returns the clients that the partition `by_client` takes of sorted names.

  `num_clients` 0 takes all.

  Raises:
    errors.DataError: If there are fewer.
  """
  made = partition.build(
      'by_client', np.zeros([len(names)], np.int32), num_clients or len(names),
      seed, np.asarray(names),
  )
  return [names[rows[0]] for rows in made.indices]


def on_request(
    parts: published.Parts, names: Sequence[str], convert: Convert
) -> list[on_demand.OnDemand]:
  """Returns training and test data of clients; records are read on demand."""
  return [_lazy(parts[part], names, convert) for part in published.PARTS]


def _lazy(
    found: records.Records, names: Sequence[str], convert: Convert
) -> on_demand.OnDemand:
  places = found.places

  def load(position: int):
    where = f'{found.where}, client {found.clients[position]}'
    return convert(found.read(position), where)

  return on_demand.OnDemand(
      load, found.sizes, [places[name] for name in names]
  )
