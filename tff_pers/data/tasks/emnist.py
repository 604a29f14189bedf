"""`emnist`: handwritten digits and letters, a client per writer.

Files: see `data/emnist.py`. A client keeps the split of the files; where they
have none, or with `--train_fraction`, one is drawn. With partitions other than
`by_client` the images of the chosen writers are dealt out anew.

Pixels are ink in [0, 1] by default: with either form at its best step size of
those tried, FedAvg with `mlp_200` is at 0.79 after 200 rounds, at 0.77 with the
standardized pixels of papers/partial_personalization.md 5.2. Of these, some
that hardly ever see ink exceed 100 where they do.
"""

import dataclasses

import numpy as np

from tff_pers import hyperparameters as hp
from tff_pers.data import brackets
from tff_pers.data import emnist
from tff_pers.data import errors
from tff_pers.data import split as split_lib
from tff_pers.data.tasks import assembly
from tff_pers.data.tasks import registry

_TRAIN_FRACTION = 0.8
# A pixel that is paper in every image has no deviation to divide by.
_SMALLEST_DEVIATION = 1e-6


@dataclasses.dataclass(frozen=True)
class EmnistOptions:
  """Which writers, and how pixels become numbers."""

  writers: str = hp.field(
      'full', 'Writers to read: complete ones, those of whom only some images'
      ' are known, or all.', choices=emnist.CHOICES,
  )
  min_train: int = hp.field(
      100, 'Fewest training images of a writer; others are left out.',
      minimum=1,
  )
  min_test: int = hp.field(
      10, 'Fewest test images of a writer; where the files have no split,'
      ' min_train + min_test images in all.', minimum=1,
  )
  pixels: str = hp.field(
      'ink', 'ink: 0 is paper, 1 is ink; standardized: each pixel minus its'
      ' mean, divided by its standard deviation over the training images.',
      choices=('ink', 'standardized'),
  )

  def __post_init__(self):
    hp.validate(self)


DECLARATION = registry.Declaration(
    classification=True,
    model='mlp_200',
    num_clients=0,
    clients_per_round=10,
    partition='by_client',
    partitions=registry.partitions(),
)


@registry.register(
    'emnist', EmnistOptions, declares=DECLARATION,
    summary='handwritten digits and letters by writer, from --data_dir',
)
def build(request: registry.TaskRequest, options: EmnistOptions):
  """Builds the task; x is float32[n, 28, 28, 1].

  The papers keep writers with at least 100 training and 25 test images, and 10
  take part in a round (papers/partial_personalization.md 5.2, 5.4). LEAF tests
  on a tenth of a writer's images, so that few writers have 25 to test on and
  almost all have 10.
  """
  images = _of_writers(emnist.read(request.data_dir, options.writers), options)
  num_clients = request.num_clients or len(np.unique(images.writer))
  cohort = DECLARATION.clients_per_round
  return assembly.assemble(
      'emnist', request,
      assembly.Examples(
          _pixels(images, options.pixels), images.y, emnist.NUM_CLASSES,
          images.where, clients=images.writer, is_test=_is_test(images, request)
      ),
      partition=DECLARATION.partition,
      num_clients=num_clients,
      train_fraction=_TRAIN_FRACTION,
      model=DECLARATION.model,
      # With no more clients than the usual cohort, all take part in a round.
      clients_per_round=cohort if num_clients > cohort else 0,
      rounds=500,
      eval_every=50,
  )


def _of_writers(
    images: emnist.Writers, options: EmnistOptions
) -> emnist.Writers:
  """Returns the images of the writers who have enough of them."""
  _, writer = np.unique(images.writer, return_inverse=True)
  count = lambda which: np.bincount(writer[which], minlength=writer.max() + 1)
  train = count(images.split == emnist.TRAIN)
  test = count(images.split == emnist.TEST)
  enough = (train >= options.min_train) & (test >= options.min_test)
  # Without a split, one can be drawn if both parts together are enough.
  undivided = count(images.split == emnist.UNKNOWN)
  enough |= undivided >= options.min_train + options.min_test
  if not enough.any():
    raise errors.DataError(
        f'{images.where} must hold a writer with at least {options.min_train}'
        f' training and {options.min_test} test images, found none among'
        f' {len(enough)}. Tip: lower --emnist_min_train and --emnist_min_test.'
    )
  kept = enough[writer]
  return images._replace(
      **{name: getattr(images, name)[kept]
         for name in ('x', 'y', 'writer', 'split')}
  )


def _pixels(images: emnist.Writers, kind: str) -> np.ndarray:
  """Returns the images as float32[n, 28, 28, 1]."""
  x = (255 - images.x[..., None]).astype(np.float32) / np.float32(255)
  if kind == 'standardized':
    train = x[images.split != emnist.TEST]
    x -= train.mean(axis=0)
    x /= train.std(axis=0) + np.float32(_SMALLEST_DEVIATION)
  return x


def _is_test(images: emnist.Writers, request: registry.TaskRequest):
  """Returns bool[n], which images are held out; None: a split is drawn.

  Writers that come without a split among others get one here.
  """
  name, _ = brackets.parse(request.partition or DECLARATION.partition)
  if name != 'by_client' or request.train_fraction:
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
