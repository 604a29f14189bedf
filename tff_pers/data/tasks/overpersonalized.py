"""`overpersonalized`: least squares with one theta that fits all clients.

See `data/least_squares.py` for the paper (Example 1, section 5.1).

With a personal w, the same theta is optimal for every client: there its loss is
0 (the paper's assumption 2). In the control no theta is optimal for all
clients, and the remaining loss is the cost of heterogeneity.
"""

import dataclasses

import numpy as np

from tff_pers.config import hyperparameters as hp
from tff_pers.data import byzantine
from tff_pers.data import least_squares
from tff_pers.data import sources
from tff_pers.data import task as task_lib
from tff_pers.data.tasks import registry
from tff_pers.models import least_squares as model_lib


@dataclasses.dataclass(frozen=True)
class OverpersonalizedOptions(hp.Options):
  """Size of the systems of equations, and what clients train on."""

  scale: str = hp.field(
      'tiny',
      'Sizes, entries and number of clients: paper as in the experiments of the'
      ' paper, tiny for tests.',
      choices=('tiny', 'paper'),
  )
  rows: str = hp.field(
      'auto',
      'What a client trains on: all rows; the fewest with the same loss, which'
      ' are mixtures of rows, not examples; auto: all with scale=tiny, the'
      ' fewest with scale=paper.', choices=('auto', 'all', 'fewest'),
  )

  @property
  def reduces(self) -> bool:
    """Whether clients train on mixtures of rows."""
    if self.rows == 'auto':
      return self.scale == 'paper'
    return self.rows == 'fewest'


@dataclasses.dataclass(frozen=True)
class _Scale:
  """The settings of a scale.

  Attributes:
    generator: Generator of the overpersonalized data.
    control: `truths` of the control.
    num_clients: Default of `--num_clients`.
    rounds: Default of `--rounds`.
    eval_every: Default of `--eval_every`.
  """

  generator: least_squares.Generator
  control: str
  num_clients: int
  rounds: int
  eval_every: int


# The paper does not specify the targets. The control of the tiny problem shifts
# theta, that of the paper's draws a new one for each client and each term:
# calibrated numbers exist for these.
SCALES = {
    'tiny': _Scale(
        least_squares.Generator(40, 10, 4, 'normal', 'shared'),
        control='shifted', num_clients=20, rounds=300, eval_every=10,
    ),
    'paper': _Scale(
        least_squares.Generator(10000, 100, 50, 'uniform', 'shared'),
        control='independent', num_clients=32, rounds=1000, eval_every=50,
    ),
}

# Server updates of asynchronous methods (section 8, check 11).
_UPDATES = 3000

DECLARATION = registry.Declaration(
    classification=False, model='least_squares',
    num_clients=SCALES['tiny'].num_clients, groups=False, networks=(),
)


@registry.register(
    'overpersonalized', OverpersonalizedOptions, declares=DECLARATION,
    summary='generated: least squares, one shared vector fits all clients',
)
def build(
    request: registry.TaskRequest, options: OverpersonalizedOptions
) -> task_lib.Task:
  """Builds the task: one theta generates the targets of all clients."""
  return _build('overpersonalized', request, options, 'shared')


@registry.register(
    'overpersonalized_control', OverpersonalizedOptions, declares=DECLARATION,
    summary='generated: the same with another shared vector for each client',
)
def build_control(
    request: registry.TaskRequest, options: OverpersonalizedOptions
) -> task_lib.Task:
  """Builds the control, in which each client has its own theta."""
  truths = SCALES[options.scale].control
  return _build('overpersonalized_control', request, options, truths)


def _build(name, request, options, truths: str) -> task_lib.Task:
  """Builds either task.

  The paper has no test set: clients are tested on their training data.
  Byzantine clients are added to the others, with systems of the same generator;
  the optimum is that of the honest ones.
  """
  # Held-out rows would be missing in the loss, whose optimum is known.
  registry.refuse(
      name, request, 'partition', 'data_dir', 'train_fraction', 'model',
      'validation_fraction',
  )
  scale = SCALES[options.scale]
  generator = dataclasses.replace(scale.generator, truths=truths)
  honest = request.num_clients or scale.num_clients
  num_clients = honest + request.num_byzantine
  byzantine.check(request.num_byzantine, num_clients)
  # One by one, because all rows of the paper's clients take 0.8 GB.
  systems = [
      least_squares.reduced(system) if options.reduces else system
      for system in generator.clients(num_clients, request.seed)
  ]
  data = sources.from_arrays([(system.x, system.y) for system in systems])
  return task_lib.Task(
      name=name,
      model=model_lib.build(
          generator.theta_dim, generator.w_dim, len(systems[0].y)
      ),
      train=data,
      test=data,
      client_weighting='uniform',
      partition=DECLARATION.partition,
      rounds=scale.rounds,
      updates=_UPDATES,
      eval_every=scale.eval_every,
      regimes=(options.scale,),
      rows_are_examples=not options.reduces,
      optimum=_optimum(systems, generator, honest),
      byzantine=(
          np.arange(num_clients) >= honest if request.num_byzantine else None
      ),
  )


def _optimum(systems, generator: least_squares.Generator, honest: int):
  """Returns theta* for each client; w does not count in the distance.

  It is the root of the mean of the F_m of the first `honest` clients: the theta
  that generated all targets, if there is one.
  """
  if generator.truths == 'shared':
    theta = systems[0].theta
  else:
    theta = least_squares.root(
        least_squares.operator(system.x, system.y, generator.theta_dim)
        for system in systems[:honest]
    )
  return np.tile(theta, (len(systems), 1)), None
