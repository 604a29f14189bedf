"""Clients whose data are read on demand.

A task's `train`, `test` and `validation` are sequences of dense client data. A
list holds all of them in memory. `OnDemand` holds none: its memory does not
grow with the number of clients, except for their sizes.
"""

from collections import abc
from typing import Any, Callable, Optional, Sequence

import numpy as np
import numpy.typing as npt

from tff_pers.data import client_data as cd
from tff_pers.data import errors

# Position of a client in its file -> (x, y), with one row per example.
Load = Callable[[int], tuple[np.ndarray, np.ndarray]]


class OnDemand(abc.Sequence):
  """Dense data of N clients, read again whenever an entry is taken.

  Attributes:
    indices: Index of each client, int64[N].
  """

  def __init__(
      self,
      load: Load,
      sizes: npt.ArrayLike,
      positions: Optional[npt.ArrayLike] = None,
      indices: Optional[npt.ArrayLike] = None,
  ):
    """Initializes without reading anything.

    `load` reads the client at a position; several threads may call it at the
    same time. `sizes` are the numbers of examples at the P positions,
    `positions` those of the N clients, None for 0..P-1, and `indices` theirs,
    None for 0..N-1.
    """
    self._load = load
    self._all_sizes = np.asarray(sizes, np.int64)
    self._positions = (
        np.arange(len(self._all_sizes)) if positions is None
        else np.asarray(positions, np.int64)
    )
    self.indices = (
        np.arange(len(self._positions)) if indices is None
        else np.asarray(indices, np.int64)
    )

  @property
  def sizes(self) -> np.ndarray:
    """Number of examples of each client, int64[N], without reading them."""
    return self._all_sizes[self._positions]

  def pick(
      self, clients: Sequence[int], first: Optional[int] = 0
  ) -> 'OnDemand':
    """Returns the clients at these places, with indices from `first` on.

    With None they keep their indices.
    """
    chosen = np.asarray(clients, np.int64)
    return OnDemand(
        self._load, self._all_sizes, self._positions[chosen],
        self.indices[chosen] if first is None
        else np.arange(first, first + len(chosen)),
    )

  def __len__(self) -> int:
    return len(self._positions)

  def __getitem__(self, place):
    """Returns the dense data of a client, or of a slice of clients."""
    if isinstance(place, slice):
      return [self[p] for p in range(*place.indices(len(self)))]
    place = range(len(self))[int(place)]  # Raises an IndexError beyond them.
    position, index = int(self._positions[place]), int(self.indices[place])
    x, y = self._load(position)
    if len(x) != self._all_sizes[position]:
      raise errors.DataError(
          f'Client {index} must have the'
          f' {self._all_sizes[position]} examples that were counted, found'
          f' {len(x)}. Tip: its file must not change during a run.'
      )
    return cd.constant(cd.dense(index, x, y))


def sizes(clients: Sequence[Any]) -> np.ndarray:
  """Returns the number of examples of each client, int64[N]."""
  if isinstance(clients, OnDemand):
    return clients.sizes
  return np.array([int(data['num_examples']) for data in clients], np.int64)


def pick(
    clients: Sequence[Any], places: Sequence[int], first: Optional[int] = 0
) -> Sequence[Any]:
  """Returns the clients at `places`, with indices from `first` on; reads none.

  With None they keep their indices.
  """
  if isinstance(clients, OnDemand):
    return clients.pick(places, first)
  if first is None:
    return [clients[place] for place in places]
  return [
      type(clients[place])(clients[place], index=np.int32(index))
      for index, place in enumerate(places, start=first)
  ]


def join(one: Sequence[Any], other: Sequence[Any]) -> Sequence[Any]:
  """Returns the clients of both, with their own indices; reads none."""
  if not isinstance(one, OnDemand) or not isinstance(other, OnDemand):
    return [*one, *other]

  def load(place):
    data = one[place] if place < len(one) else other[place - len(one)]
    return data['examples']['x'], data['examples']['y']

  return OnDemand(
      load, np.concatenate([one.sizes, other.sizes]),
      indices=np.concatenate([one.indices, other.indices]),
  )
