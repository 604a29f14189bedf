"""`cifar10` and `cifar100`: 32x32 colour images, from files or from TFDS.

Files: see `data/cifar.py`, and for CIFAR-100 those of TFF,
`data/formats/cifar100.py`. By default clients form clusters, which divide the
official test set; with other partitions it is the task's `global_test`.
"""

import dataclasses
import os
from typing import Optional

import numpy as np

from tff_pers.config import hyperparameters as hp
from tff_pers.data import checks
from tff_pers.data import cifar
from tff_pers.data import errors
from tff_pers.data import sources
from tff_pers.data import task as task_lib
from tff_pers.data.formats import cifar100
from tff_pers.data.formats import published
from tff_pers.data.tasks import assembly
from tff_pers.data.tasks import floral_images
from tff_pers.data.tasks import registry
from tff_pers.models import augmented
from tff_pers.models import zoo

# Mean and deviation of each colour in the training images. FLoRAL uses these
# numbers for both data sets (papers/floral.md 5.2). The deviations are means of
# those within each image, which are below the deviation over all pixels.
MEAN = (0.4914, 0.4822, 0.4465)
DEVIATION = (0.2023, 0.1994, 0.2010)
_SHAPE = (32, 32, 3)


@dataclasses.dataclass(frozen=True)
class CifarOptions(hp.Options):
  """Augmentation of training images."""

  augment: str = hp.field(
      'none', 'flip_crop: images are flipped and shifted by up to 4 pixels at'
      ' random in training; crop24: windows of 24 x 24 pixels of flipped'
      ' images, each standardized, in tests the one in the middle.',
      choices=('none', 'flip_crop', 'crop24'),
  )


CIFAR10 = registry.Declaration(
    classification=True,
    model='floral_cnn',
    num_clients=20,
    partition='label_shift_clusters',
    partitions=registry.partitions('by_client', 'pachinko'),
)
CIFAR100 = registry.Declaration(
    classification=True,
    model='vgg8',
    num_clients=100,
    clients_per_round=50,
    partition='class_groups',
    partitions=registry.partitions(),
)


@registry.register(
    'cifar10', CifarOptions, declares=CIFAR10,
    summary='colour images of 10 classes, from --data_dir or TFDS',
)
def build_cifar10(
    request: registry.TaskRequest, options: CifarOptions
) -> task_lib.Task:
  """Builds the task: 20 clients in 4 clusters that name classes differently."""
  return _build('cifar10', request, options, CIFAR10, num_classes=10)


@registry.register(
    'cifar100', CifarOptions, declares=CIFAR100,
    summary='colour images of 100 classes, from --data_dir or TFDS; by_client:'
    ' the clients of TFF',
)
def build_cifar100(
    request: registry.TaskRequest, options: CifarOptions
) -> task_lib.Task:
  """Builds the task: 100 clients in 10 groups of 10 classes, 50 per round.

  The paper's step sizes (0.001 with Adam at the server) require such a server;
  those in `settings` are from its ablations with plain averaging.
  """
  return _build('cifar100', request, options, CIFAR100, num_classes=100)


def _build(
    name: str, request: registry.TaskRequest, options: CifarOptions,
    declares: registry.Declaration, num_classes: int,
) -> task_lib.Task:
  """Builds either task; x is float32[n, 32, 32, 3], normalized.

  The authors flip and crop images before they rotate them (papers/floral.md
  5.2), `augment` does so afterwards.
  """
  examples = _examples(name, request, num_classes)
  num_clients = declares.num_clients
  # Without clients, the partition raises an error.
  if examples.clients is not None and (
      declares.named_partition(request.partition) == 'by_client'
  ):
    num_clients = len(np.unique(examples.clients))
  task = assembly.assemble(
      name, request, examples, declares,
      num_clients=num_clients,
      train_fraction=0.8,
      clients_per_round=declares.cohort(request.num_clients or num_clients),
      **floral_images.schedule(request),
  )
  return dataclasses.replace(
      task, model=_augmented(task.model, options.augment, num_classes)
  )


def _augmented(model, augment: str, num_classes: int):
  """Returns the model with the augmentation of training images."""
  if augment == 'flip_crop':
    black = -np.array(MEAN) / np.array(DEVIATION)
    return augmented.flip_and_crop(model, black.tolist())
  if augment == 'crop24':
    return augmented.crop(
        lambda x_spec: zoo.build(model.name, x_spec, num_classes), model.x_spec
    )
  return model


def _examples(
    name: str, request: registry.TaskRequest, num_classes: int
) -> assembly.Examples:
  """Returns the images from the first source that has them."""
  parts = _of_tff(request) if name == 'cifar100' else None
  clients = None
  if parts is not None:
    where = parts[published.TRAIN].where
    of_train = cifar100.images(parts[published.TRAIN])
    train, test = of_train[:2], cifar100.images(parts[published.TEST])[:2]
    clients = of_train[2]
  elif request.data_dir:
    where = request.data_dir
    train, test = cifar.read(name, request.data_dir)
  else:
    where = f'{name} of tensorflow_datasets'
    train, test = (sources.from_tfds(name, s) for s in ('train', 'test'))
  x, y = _checked(*train, where, num_classes)
  return assembly.Examples(
      x, y, num_classes, where, clients=clients,
      global_test=_checked(*test, where, num_classes),
  )


def _of_tff(request: registry.TaskRequest) -> Optional[published.Parts]:
  """Returns the records of TFF's files, or None if the folder has none.

  Without a folder, they are downloaded only for their clients.
  """
  if request.data_dir:
    return published.find_first(
        cifar100.DATA_SET,
        (request.data_dir, os.path.join(request.data_dir, 'cifar100')),
    )[1]
  if CIFAR100.named_partition(request.partition) == 'by_client':
    return published.fetch(cifar100.DATA_SET)
  return None


def _checked(x, y, where: str, num_classes: int):
  """Returns x float32[n, 32, 32, 3], normalized, and y int32[n]."""
  x = np.asarray(x)
  if x.shape[1:] != _SHAPE or x.dtype != np.uint8 or len(x) != len(y):
    raise errors.DataError(
        f'{where}: images must be uint8 of 32 x 32 x 3, one per label, found'
        f' {x.dtype} of shape {list(x.shape)} for {len(y)} labels.'
    )
  # (x / 255 - mean) / deviation as one product and one difference, in float32:
  # the training images are 614 MB in this form.
  scale = np.float32(1 / 255) / np.array(DEVIATION, np.float32)
  offset = np.array(MEAN, np.float32) / np.array(DEVIATION, np.float32)
  return x * scale - offset, checks.labels(y, where, num_classes)[0]
