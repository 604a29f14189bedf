"""Dense client data as a data source of `tff.program`."""

import collections
import hashlib
import json
from typing import Any, Mapping, Optional, Sequence
import weakref

import numpy as np
import tensorflow as tf

from tff_pers.simulation import cohort
from tff_pers import tff

# By digest of data and seed: a program's saved state holds an iterator as
# digest and position; otherwise every checkpoint would contain all data.
_SOURCES: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()


def client_dataset(data: Mapping[str, Any]) -> tf.data.Dataset:
  """Returns dense client data as a data set of one batch, <index, x, y>.

  Every row holds the client's index. The data sets of all clients have the same
  type, whatever the number of examples.

  Args:
    data: Dense client data, see `client_data.dense`, of at least one example.

  Raises:
    ValueError: If there is no example.
  """
  examples, count = data['examples'], int(data['num_examples'])
  if not count:
    raise ValueError(
        f"Client {int(data['index'])} must have an example, found none."
    )
  rows = collections.OrderedDict(
      index=np.full([count], data['index'], np.int32), **examples
  )
  return tf.data.Dataset.from_tensor_slices(rows).batch(count)


class ClientDataSource(tff.program.FederatedDataSource):
  """The data of N clients; an iterator selects cohorts without replacement.

  The cohorts are those of `cohort.uniform`, and depend only on the seed and on
  the number of earlier selections.
  """

  def __init__(self, clients: Sequence[Any], *, seed: int = 0):
    """Initializes the data source.

    Args:
      clients: Dense data of every client, by index.
      seed: The seed of the cohorts.

    Raises:
      ValueError: If there are no clients, or one has no examples.
    """
    if not clients:
      raise ValueError('`clients` must hold the data of a client, found none.')
    self.datasets = [client_dataset(data) for data in clients]
    self.seed = seed
    self.digest = _digest(clients, seed)
    element = tff.types.tensorflow_to_type(self.datasets[0].element_spec)
    self._type = tff.FederatedType(tff.SequenceType(element), tff.CLIENTS)
    _SOURCES[self.digest] = self

  @property
  def federated_type(self) -> tff.FederatedType:
    """{<index, x, y>*}@CLIENTS."""
    return self._type

  def iterator(self) -> 'ClientDataIterator':
    """Returns an iterator at the first cohort."""
    return ClientDataIterator(self)


class ClientDataIterator(tff.program.FederatedDataSourceIterator):
  """Selects cohorts; it is saved as its position, without the data."""

  def __init__(self, source: ClientDataSource, position: int = 0):
    self._source, self._position = source, position

  @property
  def federated_type(self) -> tff.FederatedType:
    """{<index, x, y>*}@CLIENTS, that of the source."""
    return self._source.federated_type

  def select(self, k: Optional[int] = None) -> list[tf.data.Dataset]:
    """Returns the data sets of the next cohort.

    Args:
      k: Size of the cohort; None: all clients.

    Raises:
      ValueError: If there are fewer clients than that.
    """
    datasets = self._source.datasets
    if k is not None and not 0 < k <= len(datasets):
      raise ValueError(
          f'`k` must be in 1..{len(datasets)}, the number of clients, found'
          f' {k}.'
      )
    chosen = cohort.uniform(len(datasets), k or 0)(
        self._source.seed, self._position
    )
    self._position += 1
    return [datasets[i] for i in chosen]

  def to_bytes(self) -> bytes:
    """Returns the position and the digest of the data; see `from_bytes`."""
    return json.dumps(
        dict(digest=self._source.digest, position=self._position)
    ).encode()

  @classmethod
  def from_bytes(cls, buffer: bytes) -> 'ClientDataIterator':
    """Returns the iterator of this process's source of the same data and seed.

    Raises:
      ValueError: If there is no such source.
    """
    saved = json.loads(buffer)
    source = _SOURCES.get(saved['digest'])
    if source is None:
      raise ValueError(
          'The saved state must be of a data source of this program, found one'
          ' of other data or of another seed. Tip: first make the'
          ' `ClientDataSource` from the same data with the same seed.'
      )
    return cls(source, saved['position'])

  def __deepcopy__(self, memo):
    return ClientDataIterator(self._source, self._position)

  def __eq__(self, other):
    if not isinstance(other, ClientDataIterator):
      return NotImplemented
    return self.to_bytes() == other.to_bytes()


def _digest(clients, seed: int) -> str:
  """Returns a digest that identifies cohorts, also in other processes."""
  found = hashlib.sha256(f'{seed}'.encode())
  for data in clients:
    for array in tf.nest.flatten(data):
      array = np.asarray(array)
      found.update(f'{array.dtype}{array.shape}'.encode())
      found.update(np.ascontiguousarray(array).tobytes())
  return found.hexdigest()
