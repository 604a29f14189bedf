"""`emnist`: handwritten digits and letters, one client per writer.

Files: see `data/emnist.py`, and those of TFF and LEAF, `data/formats`; without
`--data_dir` those of TFF, cached or downloaded. A client keeps the split of the
files; if there is none, or with `--train_fraction`, it is drawn. Images of TFF
and LEAF are read client by client when they are needed. Partitions other than
`by_client` redistribute the images of the chosen writers.

Pixels are ink in [0, 1] by default. Each with the best step size tried, FedAvg
with `mlp_200` has a test accuracy of 0.79 after 200 rounds, and of 0.77 with
the standardized pixels of papers/partial_personalization.md 5.2: some of those,
which are paper in almost all images, exceed 100 where they are ink.
"""

import dataclasses
import functools
from typing import Any, Optional

import numpy as np
import tensorflow as tf

from tff_pers.config import hyperparameters as hp
from tff_pers.data import emnist
from tff_pers.data import errors
from tff_pers.data import features
from tff_pers.data import split as split_lib
from tff_pers.data import task as task_lib
from tff_pers.data.formats import clients as clients_lib
from tff_pers.data.formats import emnist as formats
from tff_pers.data.formats import published
from tff_pers.data.tasks import assembly
from tff_pers.data.tasks import registry
from tff_pers.models import zoo

_TRAIN_FRACTION = 0.8
# Minimum numbers of training and test images of a writer, as in the papers. If
# a tenth of a writer's images is the test set, few writers of a sample have 25
# test images, and almost all have 10.
_FEWEST, _FEWEST_SAMPLE = (100, 25), (100, 10)
# With only digits, a writer has about 101 training and 12 test images.
_FEWEST_DIGITS = 50, 5
# Standardized pixels; a pixel that is paper in every image becomes 0.
_STANDARDIZED = features.Recipe(
    tuple(features.Column(f'pixel{place}') for place in range(28 * 28)),
    standardize=True,
)
_MORE_WRITERS = 'lower --emnist_min_train and --emnist_min_test.'
_ROUNDS: dict[str, Any] = dict(rounds=500, eval_every=50)


@dataclasses.dataclass(frozen=True)
class EmnistOptions(hp.Options):
  """The writers to read, and the values of pixels."""

  characters: str = hp.field(
      'all', 'all: 62 classes, digits, capital and small letters; digits: 10'
      ' classes.', choices=('all', 'digits'),
  )
  writers: str = hp.field(
      'full', 'Writers to read from the sample of .npz files: full, partial'
      ' (only some of their images are known), or all.',
      choices=emnist.CHOICES,
  )
  min_train: int = hp.field(
      0, 'Fewest training images of a writer; others are left out. 0:'
      f' {_FEWEST[0]} as in the papers, {_FEWEST_DIGITS[0]} of digits.',
      minimum=0,
  )
  min_test: int = hp.field(
      0, 'Fewest test images of a writer; where the files have no split,'
      f' min_train + min_test images in all. 0: {_FEWEST[1]} as in the papers,'
      f' {_FEWEST_SAMPLE[1]} with the sample of .npz files,'
      f' {_FEWEST_DIGITS[1]} of digits.', minimum=0,
  )
  pixels: str = hp.field(
      'ink', 'ink: 0 is paper, 1 is ink; standardized: each pixel minus its'
      ' mean, divided by its standard deviation over the training images.',
      choices=('ink', 'standardized'),
  )

  @property
  def num_classes(self) -> int:
    """Number of classes: 10 for digits, else 62."""
    return (
        emnist.NUM_DIGITS if self.characters == 'digits' else emnist.NUM_CLASSES
    )

  def fewest(self, usual: tuple[int, int]) -> tuple[int, int]:
    """Returns the minimum numbers of images; `usual` is for all characters."""
    default = _FEWEST_DIGITS if self.characters == 'digits' else usual
    return self.min_train or default[0], self.min_test or default[1]


DECLARATION = registry.Declaration(
    classification=True,
    model='mlp_200',
    num_clients=0,
    clients_per_round=10,
    partition='by_client',
    partitions=registry.partitions('pachinko'),
)


@registry.register(
    'emnist', EmnistOptions, declares=DECLARATION,
    summary='handwritten digits and letters by writer, from --data_dir',
)
def build(
    request: registry.TaskRequest, options: EmnistOptions
) -> task_lib.Task:
  """Builds the task; x is float32[n, 28, 28, 1].

  The papers keep writers with at least 100 training and 25 test images, 10 of
  which take part in a round (papers/partial_personalization.md 5.2, 5.4).
  """
  images = emnist.read(request.data_dir, options.writers)
  if images is not None:
    images = _kept(images, images.y < options.num_classes)
    images = _of_writers(images, *options.fewest(_FEWEST_SAMPLE))
    return _assemble(request, options, images)
  parts = _published(request.data_dir, options)
  names = clients_lib.with_enough(
      parts,
      dict(zip(published.PARTS, options.fewest(_FEWEST))),
      _MORE_WRITERS,
  )
  # Other partitions, splits and pixels need all images in memory.
  if _keeps_split(request) and options.pixels == 'ink':
    return _on_request(request, options, parts, names)
  return _assemble(
      request, options, formats.writers(parts, names, options.num_classes)
  )


def _published(data_dir: str, options: EmnistOptions) -> published.Parts:
  """Returns the records in the files of TFF or LEAF."""
  data_set = formats.data_set(options.characters == 'digits')
  if not data_dir:
    return published.fetch(data_set)
  _, parts = published.find_first(data_set, emnist.folders(data_dir))
  if parts is not None:
    return parts
  raise errors.DataError(
      f'`data_dir` must be a folder with {emnist.files(options.writers)}, or'
      f' {published.describe(data_set)}, found none in {data_dir!r}.'
  )


def _on_request(
    request: registry.TaskRequest, options: EmnistOptions, parts, names
) -> task_lib.Task:
  """Returns the task of writers whose images are read when they are needed."""
  num_classes = options.num_classes
  names = clients_lib.sample(names, request.num_clients, request.seed)
  train, test = clients_lib.on_request(
      parts, names, functools.partial(formats.ink, num_classes=num_classes)
  )
  return task_lib.Task(
      name='emnist',
      model=zoo.build(
          DECLARATION.named_model(request.model),
          tf.TensorSpec([None, 28, 28, 1], tf.float32), num_classes,
      ),
      train=train,
      test=test,
      num_classes=num_classes,
      **DECLARATION.natural(names),
      **_ROUNDS,
  )


def _assemble(
    request: registry.TaskRequest, options: EmnistOptions,
    images: emnist.Writers,
) -> task_lib.Task:
  """Returns the task of images that are all in memory."""
  num_clients = request.num_clients or len(np.unique(images.writer))
  return assembly.assemble(
      'emnist', request,
      assembly.Examples(
          _ink(images), images.y, options.num_classes,
          images.where, clients=images.writer, is_test=_is_test(images, request)
      ),
      DECLARATION,
      recipe=_STANDARDIZED if options.pixels == 'standardized' else None,
      num_clients=num_clients,
      train_fraction=_TRAIN_FRACTION,
      clients_per_round=DECLARATION.cohort(num_clients),
      **_ROUNDS,
  )


def _kept(images: emnist.Writers, kept: np.ndarray) -> emnist.Writers:
  """Returns the images where `kept`, bool[n], is True."""
  where, *columns = images
  return emnist.Writers(where, *(column[kept] for column in columns))


def _of_writers(
    images: emnist.Writers, min_train: int, min_test: int
) -> emnist.Writers:
  """Returns the images of the writers that have enough of them."""
  _, writer = np.unique(images.writer, return_inverse=True)
  count = lambda which: np.bincount(writer[which], minlength=writer.max() + 1)
  train = count(images.split == emnist.TRAIN)
  test = count(images.split == emnist.TEST)
  enough = (train >= min_train) & (test >= min_test)
  # Without a split, one can be drawn if the total is sufficient.
  undivided = count(images.split == emnist.UNKNOWN)
  enough |= undivided >= min_train + min_test
  if not enough.any():
    raise errors.DataError(
        f'{images.where} must hold a writer with at least {min_train}'
        f' training and {min_test} test images, found none among'
        f' {len(enough)}. Tip: {_MORE_WRITERS}'
    )
  return _kept(images, enough[writer])


def _ink(images: emnist.Writers) -> np.ndarray:
  """Returns the images as float32[n, 28, 28, 1], 0 paper and 1 ink."""
  return (255 - images.x[..., None]).astype(np.float32) / np.float32(255)


def _keeps_split(request: registry.TaskRequest) -> bool:
  name = DECLARATION.named_partition(request.partition)
  return name == 'by_client' and not request.train_fraction


def _is_test(
    images: emnist.Writers, request: registry.TaskRequest
) -> Optional[np.ndarray]:
  """Returns bool[n], whether images are held out; None: a split is drawn.

  Writers without a split, if others have one, get one here.
  """
  if not _keeps_split(request):
    return None
  is_test = images.split == emnist.TEST
  undivided = images.split == emnist.UNKNOWN
  rows = [
      np.flatnonzero(undivided & (images.writer == writer))
      for writer in np.unique(images.writer[undivided])
  ]
  splits = split_lib.split_clients(
      [len(own) for own in rows], request.seed, _TRAIN_FRACTION
  )
  for own, split in zip(rows, splits):
    is_test[own[split.test]] = True
  return is_test
