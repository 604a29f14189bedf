"""`moons`: two half circles, rotated by a different angle in each group."""

import dataclasses

import numpy as np

from tff_pers.config import hyperparameters as hp
from tff_pers.data import partition
from tff_pers.data import sources
from tff_pers.data import task as task_lib
from tff_pers.data.tasks import assembly
from tff_pers.data.tasks import registry


@dataclasses.dataclass(frozen=True)
class MoonsOptions:
  """Configuration of the half circles."""

  num_groups: int = hp.field(
      2, 'Groups of clients; group g is rotated by g / num_groups of a turn.',
      minimum=1,
  )
  noise: float = hp.field(
      0.1, 'Standard deviation of the noise on both coordinates.', minimum=0.0
  )
  train: int = hp.field(40, 'Training examples per client.', minimum=2)
  test: int = hp.field(40, 'Test examples per client.', minimum=1)

  def __post_init__(self):
    hp.validate(self)


DECLARATION = registry.Declaration(
    classification=True, model='mlp_20', num_clients=10, groups=True,
    networks=('mlp_20',),
)


@registry.register(
    'moons', MoonsOptions, declares=DECLARATION,
    summary='generated: two half circles, rotated by group',
)
def build(request: registry.TaskRequest, options: MoonsOptions):
  """Builds the task: client i is in group i mod `num_groups`."""
  registry.refuse('moons', request, 'partition', 'data_dir', 'train_fraction')
  num_clients = request.num_clients or DECLARATION.num_clients
  groups = (np.arange(num_clients) % options.num_groups).astype(np.int32)
  x, y = generate(groups, options, request.seed)
  train = [(x[c, :options.train], y[c, :options.train]) for c in range(len(x))]
  test = [(x[c, options.train:], y[c, options.train:]) for c in range(len(x))]
  return task_lib.Task(
      name='moons',
      model=assembly.build_model(request.model or DECLARATION.model, train, 2),
      train=sources.from_arrays(train),
      test=sources.from_arrays(test),
      groups=groups,
      num_classes=2,
      class_counts=partition.class_counts([y for _, y in train], 2),
      partition=DECLARATION.partition,
      rounds=50,
      eval_every=5,
  )


def generate(groups: np.ndarray, options: MoonsOptions, seed: int):
  """Returns x float32[N, train + test, 2] and y int32[N, train + test].

    y = 0: (cos t, sin t) - (1/2, 1/4),   y = 1: (1/2, 1/4) - (cos t, sin t)

  with t uniform on [0, pi], rotated by 2 pi g / num_groups, plus noise.
  """
  rng = np.random.default_rng(seed)
  shape = (len(groups), options.train + options.test)
  t, y = np.pi * rng.random(shape), rng.integers(2, size=shape)
  half = np.stack([np.cos(t) - 0.5, np.sin(t) - 0.25], axis=-1)
  half *= (1 - 2 * y)[..., None]
  angle = 2 * np.pi * groups / options.num_groups
  turn = np.array([
      [np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]
  ])
  x = np.einsum('ijn,nkj->nki', turn, half)
  x += options.noise * rng.standard_normal(x.shape)
  return x.astype(np.float32), y.astype(np.int32)
