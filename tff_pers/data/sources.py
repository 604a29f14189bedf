"""Dense client data from arrays, TFF's client data, and TFDS."""

import os
from typing import Any, Callable, Optional, Sequence

import numpy as np
import tensorflow as tf

from tff_pers.data import client_data as cd
from tff_pers.data import errors
from tff_pers import tff


def paths(task: str, data_dir: str, names: Sequence[str]) -> list[str]:
  """Returns the paths of a task's files, all of which are needed.

  `data_dir` is their folder, or one with a folder named as the task.

  Raises:
    errors.DataError: If a file is missing.
  """
  missing = names[0]
  for folder in (data_dir, os.path.join(data_dir, task)) if data_dir else ():
    found = [os.path.join(folder, name) for name in names]
    absent = [path for path in found if not os.path.exists(path)]
    if not absent:
      return found
    if len(absent) < len(found):
      missing = os.path.basename(absent[0])
      break
  raise errors.DataError(
      f'`data_dir` must be the folder of {", ".join(names)} for task {task},'
      f' found no {missing} in {data_dir!r}.'
  )


def from_arrays(parts: Sequence[tuple[Any, Any]]) -> list[Any]:
  """Returns (x, y) of every client as dense client data, in order."""
  return [cd.dense(index, x, y) for index, (x, y) in enumerate(parts)]


# Examples are read in batches, because one call per example is slow.
_READ_BATCH = 4096


def from_client_data(
    client_data: tff.simulation.datasets.ClientData,
    preprocess: Optional[Callable[[tf.data.Dataset], tf.data.Dataset]] = None,
) -> list[Any]:
  """Returns the clients of a TFF `ClientData` as dense client data, by id.

  Args:
    client_data: Any `ClientData` of `tff.simulation.datasets`.
    preprocess: From a client's dataset to a dataset of single (unbatched)
      examples `(x, y)` or `<x, y>`; None: they already have this form.

  Raises:
    errors.DataError: If it is not a `ClientData`, or a client has no examples,
      or its examples are not pairs of one shape; names the client.
  """
  if not hasattr(client_data, 'create_tf_dataset_for_client'):
    raise errors.DataError(
        '`client_data` must be a ClientData of tff.simulation.datasets, found a'
        f' {type(client_data).__name__}. Tip: dense(index, x, y) takes the'
        ' arrays of a client.'
    )
  dense = []
  for index, client in enumerate(sorted(client_data.client_ids)):
    dataset = client_data.create_tf_dataset_for_client(client)
    if preprocess is not None:
      dataset = preprocess(dataset)
    dense.append(cd.dense(index, *_read(dataset, client)))
  return dense


def _read(dataset: tf.data.Dataset, client: str):
  """Returns all examples of one client, stacked: (x, y)."""
  spec = dataset.element_spec
  if hasattr(spec, '_asdict'):  # A named pair is read by name, not by position.
    dataset = dataset.map(lambda e: e._asdict())
    spec = dataset.element_spec
  if isinstance(spec, dict):
    pair = set(spec) == {'x', 'y'}
    dataset = dataset.map(lambda e: (e['x'], e['y'])) if pair else dataset
  else:
    pair = isinstance(spec, tuple) and len(spec) == 2
  leaves = dataset.element_spec if pair else ()
  if not pair or any(isinstance(leaf, (dict, tuple)) for leaf in leaves):
    raise errors.DataError(
        f'Client {client} must have examples (x, y) or <x, y>, found {spec}.'
        ' Tip: give `preprocess`.'
    )
  try:
    batches = list(dataset.batch(_READ_BATCH).as_numpy_iterator())
    if batches:
      x, y = (np.concatenate(parts) for parts in zip(*batches))
      return x, y
  except (tf.errors.InvalidArgumentError, ValueError) as error:
    raise errors.DataError(
        f'Client {client} must have examples of one shape, found several.'
    ) from error
  raise errors.DataError(
      f'Client {client} must have at least one example, found none.'
  )


def from_tfds(name: str, split: str = 'train') -> tuple[np.ndarray, np.ndarray]:
  """Returns (x, y) of a supervised TensorFlow Datasets data set, as arrays.

  Raises:
    errors.DataError: If tensorflow_datasets is not installed, or the data set
      cannot be loaded or downloaded; suggests `--data_dir` instead.
  """
  try:
    import tensorflow_datasets as tfds  # pylint: disable=g-import-not-at-top
  except ImportError as error:
    raise errors.DataError(
        f'{name} needs the package tensorflow_datasets, which is not installed.'
        ' Tip: install it, or give its files with --data_dir.'
    ) from error
  try:
    dataset = tfds.load(name, split=split, batch_size=-1, as_supervised=True)
    x, y = tfds.as_numpy(dataset)
  # Any error of the downloader: no network, no disk, a changed address.
  except Exception as error:  # pylint: disable=broad-exception-caught
    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    raise errors.DataError(
        f'{name} could not be loaded with tensorflow_datasets ({reason}). Tip:'
        ' give its files with --data_dir.'
    ) from error
  return x, y
