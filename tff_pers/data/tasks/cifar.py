"""`cifar10` and `cifar100`: 32x32 colour images, from files or from TFDS.

Files: see `data/cifar.py`. Clients form clusters by default, which share out
the official test set; with other partitions it is the task's `global_test`.
"""

import numpy as np

from tff_pers.data import checks
from tff_pers.data import cifar
from tff_pers.data import errors
from tff_pers.data import sources
from tff_pers.data.tasks import assembly
from tff_pers.data.tasks import floral_images
from tff_pers.data.tasks import registry

# Mean and deviation of each colour in the training images. FLoRAL uses these
# numbers for both data sets (papers/floral.md 5.2). The deviations are means of
# those within each image, which is less than the deviation over all pixels.
MEAN = (0.4914, 0.4822, 0.4465)
DEVIATION = (0.2023, 0.1994, 0.2010)


CIFAR10 = registry.Declaration(
    classification=True,
    model='floral_cnn',
    num_clients=20,
    partition='label_shift_clusters',
    partitions=registry.partitions('by_client'),
)
CIFAR100 = registry.Declaration(
    classification=True,
    model='vgg8',
    num_clients=100,
    clients_per_round=50,
    partition='class_groups',
    partitions=registry.partitions('by_client'),
)


@registry.register(
    'cifar10', registry.NoOptions, declares=CIFAR10,
    summary='colour images of 10 classes, from --data_dir or TFDS',
)
def build_cifar10(request: registry.TaskRequest, options: registry.NoOptions):
  """Builds the task: 20 clients in 4 clusters that name classes differently."""
  del options  # None.
  return _build('cifar10', request, CIFAR10, num_classes=10)


@registry.register(
    'cifar100', registry.NoOptions, declares=CIFAR100,
    summary='colour images of 100 classes, from --data_dir or TFDS',
)
def build_cifar100(request: registry.TaskRequest, options: registry.NoOptions):
  """Builds the task: 100 clients in 10 groups of 10 classes, 50 per round.

  The paper's step sizes (0.001 with Adam at the server) need such a server;
  those in `settings` are those of its ablations, for plain averaging.
  """
  del options  # None.
  return _build('cifar100', request, CIFAR100, num_classes=100)


def _build(
    name: str, request: registry.TaskRequest, declares: registry.Declaration,
    num_classes: int,
):
  """Builds either task; x is float32[n, 32, 32, 3], normalized.

  Images are not augmented (the authors flip and crop those for training).
  """
  if request.data_dir:
    where = request.data_dir
    train, test = cifar.read(name, request.data_dir)
  else:
    where = f'{name} of tensorflow_datasets'
    train, test = (sources.from_tfds(name, s) for s in ('train', 'test'))
  x, y = _checked(*train, where, num_classes)
  examples = assembly.Examples(
      x, y, num_classes, where,
      global_test=_checked(*test, where, num_classes),
  )
  # With no more clients than the usual cohort has, all take part in a round.
  cohort = declares.clients_per_round
  is_larger = (request.num_clients or declares.num_clients) > cohort
  return assembly.assemble(
      name, request, examples,
      partition=declares.partition,
      num_clients=declares.num_clients,
      train_fraction=0.8,
      model=declares.model,
      clients_per_round=cohort if is_larger else 0,
      **floral_images.schedule(request),
  )


def _checked(x, y, where: str, num_classes: int):
  """Returns x float32[n, 32, 32, 3], normalized, and y int32[n]."""
  x = np.asarray(x)
  if x.shape[1:] != (32, 32, 3) or x.dtype != np.uint8 or len(x) != len(y):
    raise errors.DataError(
        f'{where}: images must be uint8 of 32 x 32 x 3, one per label, found'
        f' {x.dtype} of shape {list(x.shape)} for {len(y)} labels.'
    )
  # (x / 255 - mean) / deviation as one product and one difference, in float32:
  # the training images are 614 MB in this form.
  scale = np.float32(1 / 255) / np.array(DEVIATION, np.float32)
  offset = np.array(MEAN, np.float32) / np.array(DEVIATION, np.float32)
  return x * scale - offset, checks.labels(y, where, num_classes)[0]
