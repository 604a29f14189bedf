"""Assembles a task from labelled examples: partition, split, model."""

import dataclasses
import hashlib
from typing import Any, Optional, Sequence, Union

import numpy as np
import tensorflow as tf

from tff_pers.data import brackets
from tff_pers.data import client_data
from tff_pers.data import errors
from tff_pers.data import partition as partition_lib
from tff_pers.data import sources
from tff_pers.data import split as split_lib
from tff_pers.data import task as task_lib
from tff_pers.data import validation
from tff_pers.data.tasks import registry
from tff_pers.models import functional
from tff_pers.models import zoo


@dataclasses.dataclass(frozen=True)
class Examples:
  """Checked examples of all clients.

  Attributes:
    x: float32[n, ...]; for a user's own model, a structure of any arrays.
    y: int32[n] labels 0..C-1, or float32[n] targets; likewise.
    num_classes: C, or 0 for regression.
    where: Their origin, for messages.
    clients: The natural client of each example, or None; if there are
      `client_names`, their order is that of the sorted clients.
    is_test: bool[n], whether examples are held out, or None: to be drawn.
    global_test: (x, y) of a given test set, or None.
    tier: int32[n], the tier of the client of each example, or None.
    client_names: Names of clients, of which the entries in `clients` are
      positions, or None: the entries are names.
    row_keys: uint64[n], see `split.content_keys`, if rows are drawn by their
      content; None: by the order of clients.
  """

  x: Any
  y: Any
  num_classes: int
  where: str
  clients: Optional[np.ndarray] = None
  is_test: Optional[np.ndarray] = None
  global_test: Optional[tuple[np.ndarray, np.ndarray]] = None
  tier: Optional[np.ndarray] = None
  client_names: Optional[np.ndarray] = None
  row_keys: Optional[np.ndarray] = None


def assemble(
    name: str,
    request: registry.TaskRequest,
    examples: Examples,
    declares: registry.Declaration,
    *,
    train_fraction: float,
    num_clients: int = 0,
    model: Union[str, functional.FunctionalModel] = '',
    flatten: bool = False,
    center: bool = False,
    **task_fields: Any,
) -> task_lib.Task:
  """Returns the task of partitioned and split examples.

  With a partition that deals out tests (see `Partitioner`), the given test set
  is divided among the clients, and `--train_fraction` reduces only the training
  sets (1 by default; at least 10 examples remain). Otherwise it is the share of
  a client's examples on which it trains; the others are its test set, and a
  given test set is the task's `global_test`.

  Args:
    name: The task's name.
    request: The request of the flags, whose gaps take the defaults below.
    examples: The examples.
    declares: The defaults of `--partition`, `--num_clients` and `--model`.
    train_fraction: Default of `--train_fraction` if tests are not dealt out.
    num_clients: Another default of `--num_clients`.
    model: Another default of `--model`, or the model.
    flatten: Whether clients get x as vectors (after images were rotated).
    center: Whether every client subtracts the mean of its training data.
    **task_fields: Further fields of `Task`.

  Raises:
    ValueError: If the request does not fit the data (also `errors.DataError`).
  """
  made = partition_lib.build(
      request.partition or declares.partition, tf.nest.flatten(examples.y)[0],
      request.num_clients or num_clients or declares.num_clients, request.seed,
      examples.clients,
  )
  names = None
  of_clients = lambda column: np.array([column[r[0]] for r in made.indices])
  if brackets.parse(made.name)[0] == 'by_client':
    own = of_clients(examples.clients)
    if examples.client_names is not None:
      own = examples.client_names[own]
    names = [str(name) for name in own]
  order = None
  deal = made.deals_test and examples.global_test is not None
  if deal:
    train, test = _deal(made, examples, request)
  else:
    fraction = request.train_fraction or train_fraction
    splits = _splits(made, examples, fraction, request.seed, names)
    order = _validation_order(made, examples, splits, request.seed)
    parts = made.clients(examples.x, examples.y)
    take = lambda part, rows: tf.nest.map_structure(lambda a: a[rows], part)
    train = [take(part, s.train) for part, s in zip(parts, splits)]
    test = [take(part, s.test) for part, s in zip(parts, splits)]
  # Not earlier, because the partition may have rotated the images.
  if flatten:
    train, test = (
        [(x.reshape(len(x), -1), y) for x, y in part] for part in (train, test)
    )
  if center:
    means = [x.mean(axis=0) for x, _ in train]
    train, test = (
        [(x - mean, y) for (x, y), mean in zip(part, means)]
        for part in (train, test)
    )
  if not isinstance(model, functional.FunctionalModel):
    model = build_model(
        request.model or model or declares.named_model(), train,
        examples.num_classes,
    )
  return task_lib.Task(
      name=name,
      model=model,
      train=sources.from_arrays(train),
      test=sources.from_arrays(test),
      validation_order=order,
      # Sums ignore the order of rows.
      client_keys=None if examples.row_keys is None else np.array(
          [examples.row_keys[rows].sum() for rows in made.indices]
      ),
      rows=_hash(made, examples, names),
      groups=made.groups,
      num_classes=examples.num_classes,
      class_counts=partition_lib.class_counts(
          [y for _, y in train], examples.num_classes
      ) if examples.num_classes else None,
      partition=made.name,
      global_test=None if deal or examples.global_test is None else (
          client_data.dense(-1, *examples.global_test)  # -1: of no client.
      ),
      tiers=None if examples.tier is None else of_clients(examples.tier),
      client_names=names,
      **task_fields,
  )


def generated(
    name: str, request: registry.TaskRequest, declares: registry.Declaration,
    x: np.ndarray, y: np.ndarray, num_train: int, *,
    model: Optional[functional.FunctionalModel] = None, l2: float = 0.0,
    num_classes: int = 0, **task_fields: Any,
) -> task_lib.Task:
  """Returns the task of clients that were generated, all with n examples.

  A client trains on the first `num_train` of these. x is [N, n, d], y int[N, n]
  labels, or targets [N, n] or [N, n, targets]. `l2` is that of the zoo's model,
  which is built unless there is a `model`.

  Raises:
    ValueError: If the request has something that the task lacks.
  """
  registry.refuse(name, request, 'partition', 'data_dir', 'train_fraction')
  train, test = (
      sources.from_arrays(list(zip(x[:, part], y[:, part])))
      for part in (slice(num_train), slice(num_train, None))
  )
  return task_lib.Task(
      name=name,
      model=model or zoo.build(
          declares.named_model(request.model),
          tf.TensorSpec([None, x.shape[2]]), num_classes, l2=l2,
          num_targets=y.shape[2] if y.ndim > 2 else 1,
      ),
      train=train,
      test=test,
      num_classes=num_classes,
      class_counts=partition_lib.class_counts(
          list(y[:, :num_train]), num_classes
      ) if num_classes else None,
      partition=declares.partition,
      **task_fields,
  )


def build_model(
    name: str, train: Sequence[Any], num_classes: int
) -> functional.FunctionalModel:
  """Returns the model `name` for the examples of the first client."""
  x_spec = tf.TensorSpec([None, *train[0][0].shape[1:]], tf.float32)
  return zoo.build(name, x_spec, num_classes)


def _hash(made, examples: Examples, names: Optional[Sequence[str]]) -> str:
  """Returns `Task.rows`."""
  keys, is_test = examples.row_keys, examples.is_test
  if keys is None:
    return ''
  lines = []
  for client, rows in enumerate(made.indices):
    marked = [] if is_test is None else rows[is_test[rows]]
    name = client if names is None else names[client]
    lines.append(f'{keys[rows].sum()} {keys[marked].sum()} {name}')
  return hashlib.sha256('\n'.join(sorted(lines)).encode()).hexdigest()[:16]


def _splits(made, examples: Examples, train_fraction: float, seed: int, names):
  """Returns the split of each client's rows, given or drawn."""
  if examples.is_test is None:
    sizes = [len(rows) for rows in made.indices]
    keys = None
    if examples.row_keys is not None:
      keys = [examples.row_keys[rows] for rows in made.indices]
    return split_lib.split_clients(
        sizes, seed, train_fraction, names=names, where=examples.where,
        keys=keys,
    )
  splits = []
  for client, rows in enumerate(made.indices):
    is_test = examples.is_test[rows]
    for kind, some in (('train', not is_test.all()), ('test', is_test.any())):
      if not some:
        raise errors.DataError(
            f'{examples.where}: client {names[client]} must have at least one'
            f' example with split {kind}, found none.'
        )
    splits.append(
        split_lib.Split(np.flatnonzero(~is_test), np.flatnonzero(is_test))
    )
  return splits


def _validation_order(made, examples: Examples, splits, seed: int):
  """Returns `Task.validation_order`."""
  if examples.row_keys is None:
    return None
  if examples.is_test is not None:
    # The file may be sorted by time; test rows are then the latest.
    return [np.arange(len(split.train))[::-1] for split in splits]
  return [
      split_lib.drawn_order(
          examples.row_keys[rows[split.train]], seed, validation.USE
      ) for rows, split in zip(made.indices, splits)
  ]


def _deal(made, examples: Examples, request: registry.TaskRequest):
  """Returns (x, y) of every client, for training and for testing."""
  assert examples.global_test is not None
  x, y = examples.global_test
  # Partitions that deal out tests give every client equally many.
  if len(y) < len(made.indices):
    raise errors.DataError(
        f'{examples.where} must hold a test example for every client, found'
        f' {len(y)} for {len(made.indices)} clients.'
    )
  # The same partition of the test set matches that of the training set, because
  # in these partitions the cluster of a client depends on its number, not on
  # examples or draws.
  test_rows = partition_lib.build(
      made.name, y, len(made.indices), request.seed
  ).indices
  kept = split_lib.reduce_clients(
      [len(rows) for rows in made.indices], request.seed,
      request.train_fraction or 1.0,
  )
  train_rows = [rows[some] for rows, some in zip(made.indices, kept)]
  return (
      made.clients(examples.x, examples.y, train_rows),
      made.clients(x, y, test_rows),
  )
