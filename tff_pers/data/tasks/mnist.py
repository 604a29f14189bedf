"""`mnist` and `fashion_mnist`: 28x28 images, from files or from TFDS.

`--data_dir` is the folder, or the parent of the folder, with the idx files
(plain or .gz); `train_first18000.npz` (arrays x, y) suffices as training set.
For the partition `by_client`, `mnist` reads the writers from
`qmnist-train-labels-idx2-int`. The official training set is partitioned and
split within each client; the official test set is the task's `global_test`.
Clusters of clients (`rotated_clusters`, `label_shift_clusters`, `class_groups`)
divide the official test set instead, with the defaults of FLoRAL's MNIST-R and
MNIST-LS: 300 clients, 30 per round, one hidden layer.
"""

import dataclasses
import os
from typing import Any

import numpy as np

from tff_pers.data import checks
from tff_pers.data import errors
from tff_pers.data import idx
from tff_pers.data import partition as partition_lib
from tff_pers.data import sources
from tff_pers.data import tables
from tff_pers.data import task as task_lib
from tff_pers.data.tasks import assembly
from tff_pers.data.tasks import floral_images
from tff_pers.data.tasks import registry

_IMAGES = '{}-images-idx3-ubyte'
_LABELS = '{}-labels-idx1-ubyte'
_WRITERS = 'qmnist-train-labels-idx2-int'
_SUBSET = 'train_first18000.npz'

MNIST = registry.Declaration(
    classification=True,
    model='mlp',
    num_clients=50,
    partition='shards[classes=2]',
    partitions=registry.partitions('pachinko'),
)
FASHION_MNIST = dataclasses.replace(
    MNIST, partitions=registry.partitions('by_client', 'pachinko')
)


@registry.register(
    'mnist', registry.NoOptions, declares=MNIST,
    summary='handwritten digits, from --data_dir or TFDS; by_client: by writer',
)
def build_mnist(
    request: registry.TaskRequest, options: registry.NoOptions
) -> task_lib.Task:
  """Builds the task; 50 clients with 2 digits each."""
  del options  # There are none.
  return _build('mnist', request)


@registry.register(
    'fashion_mnist', registry.NoOptions, declares=FASHION_MNIST,
    summary='images of clothes, from --data_dir or TFDS',
)
def build_fashion_mnist(
    request: registry.TaskRequest, options: registry.NoOptions
) -> task_lib.Task:
  """Builds the task; 50 clients with 2 kinds of clothes each."""
  del options  # There are none.
  return _build('fashion_mnist', request)


def _build(name: str, request: registry.TaskRequest):
  """Builds either task; x is float32[n, 28, 28, 1] in [0, 1]."""
  if request.data_dir:
    where = _folder(name, request.data_dir)
    train, test = _train(where), _pair(where, 't10k')
  else:
    where = f'{name} of tensorflow_datasets'
    train, test = (sources.from_tfds(name, s) for s in ('train', 'test'))
  x, y = _checked(train, where)
  partition = MNIST.named_partition(request.partition)
  clients = None
  if name == 'mnist' and request.data_dir and partition == 'by_client':
    clients = _writers(where, y)
  examples = assembly.Examples(
      x, y, 10, where, clients=clients, global_test=_checked(test, where)
  )
  fields: dict[str, Any] = dict(rounds=100, eval_every=10)
  if partition_lib.get(partition).deals_test:  # Clusters, as in FLoRAL.
    num_clients = request.num_clients or 300
    fields = dict(
        num_clients=num_clients,
        model='mlp_200',
        # 10 % take part in a round (papers/floral.md 5.2).
        clients_per_round=max(num_clients // 10, 1),
        **floral_images.schedule(request, 'clusters'),
    )
  return assembly.assemble(
      name, request, examples, MNIST, train_fraction=0.8, **fields
  )


def _folder(name: str, data_dir: str) -> str:
  """Returns `data_dir`, or its folder `name` if it has one."""
  if not os.path.isdir(data_dir):
    raise errors.DataError(
        f'`data_dir` must be a folder with the files of {name}, found'
        f' {data_dir!r}.'
    )
  inner = os.path.join(data_dir, name)
  return inner if os.path.isdir(inner) else data_dir


def _train(folder: str):
  """Returns the training set: idx files, or the first 18,000 examples."""
  subset = os.path.join(folder, _SUBSET)
  # The subset is a substitute, so complete files take precedence.
  if not idx.find(folder, _IMAGES.format('train')) and os.path.isfile(subset):
    arrays = tables.load_arrays(subset, ('x', 'y'))
    return arrays['x'], arrays['y']
  return _pair(folder, 'train')


def _pair(folder: str, part: str):
  """Returns (images, labels) of `train` or `t10k`."""
  return (
      idx.read(_require(folder, _IMAGES.format(part))),
      idx.read(_require(folder, _LABELS.format(part))),
  )


def _writers(folder: str, y) -> np.ndarray:
  """Returns the NIST writer of each training digit (QMNIST column 2)."""
  path = _require(folder, _WRITERS)
  columns = idx.read(path)
  if columns.ndim != 2 or columns.shape[1] < 3 or len(columns) != len(y):
    raise errors.DataError(
        f'{path} must hold {len(y)} rows of 8 columns, found shape'
        f' {list(columns.shape)}.'
    )
  # Writers are matched to images only by position. Equal labels show that both
  # files have the digits in the same order.
  if not np.array_equal(columns[:, 0], y):
    raise errors.DataError(
        f'{path} must hold the same labels as the training set, found others.'
    )
  return columns[:, 2]


def _require(folder: str, name: str) -> str:
  path = idx.find(folder, name)
  if not path:
    raise errors.DataError(
        f'`data_dir` must hold {name} or {name}.gz, found neither in {folder}.'
    )
  return path


def _checked(pair, where: str):
  """Returns x float32[n, 28, 28, 1] in [0, 1] and y int32[n] in 0..9."""
  x, y = np.asarray(pair[0]), pair[1]
  if x.shape[1:] not in ((28, 28), (28, 28, 1)) or x.dtype != np.uint8:
    raise errors.DataError(
        f'{where}: images must be uint8 of 28 x 28, found {x.dtype} of shape'
        f' {list(x.shape)}.'
    )
  if len(x) != len(y):
    raise errors.DataError(
        f'{where} must hold one label per image, found {len(x)} images and'
        f' {len(y)} labels.'
    )
  x = x.reshape(-1, 28, 28, 1).astype(np.float32) / np.float32(255)
  return x, checks.labels(y, where, 10)[0]
