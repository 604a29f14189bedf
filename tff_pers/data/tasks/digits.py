"""`digits`: the 1,797 handwritten digits (8x8) that scikit-learn ships."""

import dataclasses

import numpy as np
from sklearn import datasets

from tff_pers.config import hyperparameters as hp
from tff_pers.data import task as task_lib
from tff_pers.data.tasks import assembly
from tff_pers.data.tasks import registry


DECLARATION = registry.Declaration(
    classification=True,
    model='logistic_regression',
    num_clients=20,
    partition='label_shift_clusters[clusters=4,order=blocks]',
    partitions=registry.partitions('by_client', 'pachinko'),
)


@dataclasses.dataclass(frozen=True)
class DigitsOptions(hp.Options):
  """Preprocessing of the clients' images."""

  center: str = hp.field(
      'client',
      'Subtracted from the pixels, which are in [0, 1]: client (the mean of the'
      ' client\'s training images) or none.',
      choices=('client', 'none'),
  )


@registry.register(
    'digits', DigitsOptions, declares=DECLARATION,
    summary='real handwritten digits (8x8), embedded; clusters of clients with'
    ' few examples',
)
def build(
    request: registry.TaskRequest, options: DigitsOptions
) -> task_lib.Task:
  """Builds the task; x is float32[n, 64].

  By default 4 clusters of 5 clients name the digits differently, and a client
  trains on 45 examples: alone it predicts about 80 % of the test examples
  correctly, with its cluster about 93 %; other clusters only teach wrong names.

  The mean image is independent of the label, but in the gradients of linear
  models, which PERM compares, it is most of the noise: between clients of one
  cluster, distances are 0.6 of those between clusters; if centered, 0.3.
  """
  registry.refuse('digits', request, 'data_dir')
  x, y = load()
  return assembly.assemble(
      'digits', request, assembly.Examples(x, y, 10, 'digits'), DECLARATION,
      train_fraction=0.5,
      flatten=True,
      center=options.center == 'client',
      rounds=110,
      eval_every=10,
      # A square dense kernel only shrinks with ratios below one half.
      rank_ratios=(1.0, 0.25, 0.125, 0.0625),
  )


def load() -> tuple[np.ndarray, np.ndarray]:
  """Returns x float32[1797, 8, 8], pixels in [0, 1], and y int32[1797]."""
  digits = datasets.load_digits()
  return (digits.images / 16.0).astype('float32'), digits.target.astype('int32')
