"""`digits`: the 1,797 handwritten digits (8x8) that scikit-learn ships."""

from sklearn import datasets

from tff_pers.data.tasks import assembly
from tff_pers.data.tasks import registry


@registry.register(
    'digits', registry.NoOptions,
    summary='real handwritten digits (8x8), embedded; clusters of clients with'
    ' few examples',
)
def build(request: registry.TaskRequest, options: registry.NoOptions):
  """Builds the task; x is float32[n, 64] in [0, 1].

  By default 4 clusters of 5 clients name the digits differently, and a client
  trains on about 27 examples: too few to learn alone, and a wrong label is all
  that other clusters can teach.
  """
  del options  # None.
  registry.refuse('digits', request, 'data_dir')
  x, y = load()
  return assembly.assemble(
      'digits', request, assembly.Examples(x, y, 10, 'digits'),
      partition='label_shift_clusters[clusters=4]',
      num_clients=20,
      train_fraction=0.3,
      model='logistic_regression',
      flatten=True,
      rounds=110,
      eval_every=10,
      defaults=DEFAULTS,
  )


DEFAULTS = {
    '': dict(batch_size=10, local_steps=10, learning_rate=0.3),
    'perm': dict(warmup_rounds=10),
}


def load():
  """Returns x float32[1797, 8, 8] in [0, 1] and y int32[1797]."""
  digits = datasets.load_digits()
  return (digits.images / 16.0).astype('float32'), digits.target.astype('int32')
