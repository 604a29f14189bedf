"""A task: clients with data, a model, and what is known about them."""

import dataclasses
from typing import (
    Any, Callable, Mapping, NamedTuple, Optional, Sequence, TYPE_CHECKING,
)

import numpy as np

from tff_pers.config import traits as traits_lib
from tff_pers.data import on_demand
from tff_pers.models import functional

if TYPE_CHECKING:  # Methods read a task; they need not import the tables.
  from tff_pers.data import features as features_lib


class Arrivals(NamedTuple):
  """What is known about the messages of a run before it starts.

  Attributes:
    in_flight: P, number of clients that compute at the same time.
    max_delay: tau_max >= 1, the largest number of server updates from the
      dispatch of a task to the application of its message, inclusive.
  """

  in_flight: int
  max_delay: int


@dataclasses.dataclass(frozen=True)
class Task:
  """What a method is trained and evaluated on.

  Attributes:
    name: Value of `--task`.
    model: The model that clients train.
    train: Dense training data per client, in order of the index: a list, or
      `on_demand.OnDemand`, as `test` and `validation`.
    test: Dense held-out data per client, in order of the index.
    validation: Dense validation data per client, or None (see
      `data/validation.py`).
    splits: What determines test and validation rows: '', the seed and the order
      of clients; `content`, or `content, centred` if float32 would round them,
      the seed and the rows; `file`, test rows are the same for every seed,
      because the file marks them (the last of the other rows are then for
      validation) or the task draws them by a seed of its own.
    validation_order: The training rows of each client, int64, in the order in
      which they are held out for validation; None: random.
    client_keys: uint64[N], keys that depend only on the clients' rows, by which
      clients are held out. None: by their positions.
    rows: A hash of the clients' names and rows, and of which rows a file marks
      as test rows, whatever the order of either; '': the task makes its rows.
    groups: int32[N], the true cluster of each client, -1 unknown.
    num_classes: Number of labels, 0 for regression.
    client_weighting: Default of `--client_weighting`.
    clients_per_round: Cohort size, 0 for all clients.
    rounds: Default of `--rounds`.
    fits_rounds: Whether `fitting_rounds` determines it instead.
    updates: Default of `--rounds` where messages are applied as they arrive; 0:
      as many as the messages of `rounds` make.
    eval_every: Default of `--eval_every`, in rounds.
    regimes: Variants of this task that have their own settings of methods
      (`config/settings.py`), e.g. `reduced` data.
    class_counts: int64[N, num_classes] of training labels, or None.
    partition: The partition as text, e.g. `dirichlet[alpha=0.5]`.
    global_test: Dense data of a test set common to all clients, or None; its
      index is -1. Without it, the models of several tiers are evaluated on the
      test sets of all clients together.
    byzantine: bool[N], the clients that need not follow the protocol, or None:
      all are honest. They take part in rounds, but are excluded from the
      training loss, from evaluations and from the files with their results.
    eval_clients: int[K], the honest clients that are evaluated, ascending;
      None: all of them.
    optimum: What each client should deploy, or None if there is no closed form:
      a structure like the weights of `model`, every leaf float[N, ...] with one
      row per client. It minimizes the client's expected loss (not the loss on
      its few training examples). A leaf is None if the weight does not count in
      the distance, e.g. a private one if the paper measures the shared ones.
    rank_ratios: The share of the model that devices of each tier can train,
      the rank ratios of FedHM, largest first.
    tier_assignment: `fixed` or `dynamic`, see `data/tiers.py`.
    tiers: int32[N], the tier of each client, followed by those of held-out
      clients; None: they are assigned.
    num_new_clients: Number of held-out clients: they never train, and are
      evaluated under the indices N and above.
    client_names: The name of each of the N clients in the data, followed by
      those of held-out clients; None: they only have numbers.
    rows_are_examples: See `traits.Traits`.
    metrics: The task's own metrics by name, for `--metric` and all tables:
      functions `(y, outputs) -> float` of a client's examples [n] and of its
      model's predictions, probabilities [n, C] or numbers [n]. Larger is
      better.
    about: How the data were interpreted, a sentence to print; '' if users know
      the task.
    named_arrays: Whether its data files are those of `data/named_arrays.py`.
    recipe: The conversion of x to be fitted, see `data/fitting.py`, or None.
    features: The fitted conversion of x, or None: x is unchanged.
    pooled_statistics: Whether statistics of all clients' rows, other than those
      of `features`, encode the data, such as a counted vocabulary.
    arrivals: If messages are applied as they arrive: what is known about them;
      None: they are applied in rounds.
  """

  name: str
  model: functional.FunctionalModel
  train: Sequence[Any]
  test: Sequence[Any]
  validation: Optional[Sequence[Any]] = None
  splits: str = ''
  validation_order: Optional[Sequence[np.ndarray]] = None
  client_keys: Optional[np.ndarray] = None
  rows: str = ''
  groups: Optional[np.ndarray] = None
  num_classes: int = 0
  client_weighting: str = 'examples'
  clients_per_round: int = 0
  rounds: int = 100
  fits_rounds: bool = False
  updates: int = 0
  eval_every: int = 10
  regimes: Sequence[str] = ()
  class_counts: Optional[np.ndarray] = None
  partition: str = ''
  global_test: Optional[Any] = None
  byzantine: Optional[np.ndarray] = None
  eval_clients: Optional[np.ndarray] = None
  optimum: Optional[Any] = None
  rank_ratios: tuple[float, ...] = (1.0, 0.5, 0.25, 0.125)
  tier_assignment: str = 'fixed'
  tiers: Optional[np.ndarray] = None
  num_new_clients: int = 0
  client_names: Optional[Sequence[str]] = None
  rows_are_examples: bool = True
  metrics: Mapping[str, Callable[[np.ndarray, np.ndarray], float]] = (
      dataclasses.field(default_factory=dict)
  )
  about: str = ''
  named_arrays: bool = False
  recipe: 'Optional[features_lib.Recipe]' = None
  features: 'Optional[features_lib.Features]' = None
  pooled_statistics: bool = False
  arrivals: Optional[Arrivals] = None

  @property
  def num_clients(self) -> int:
    """N, the number of clients that train."""
    return len(self.train)

  @property
  def sizes(self) -> np.ndarray:
    """The number of training examples of each client, int64[N]."""
    return on_demand.sizes(self.train)

  @property
  def full_participation(self) -> bool:
    """Whether every round has all clients."""
    return not 0 < self.clients_per_round < self.num_clients

  @property
  def has_groups(self) -> bool:
    """Whether the true cluster of every client is known."""
    return self.groups is not None and bool(np.all(self.groups >= 0))

  @property
  def honest(self) -> np.ndarray:
    """Indices of the clients that are not Byzantine, ascending."""
    if self.byzantine is None:
      return np.arange(self.num_clients)
    return np.flatnonzero(~np.asarray(self.byzantine))

  @property
  def evaluated(self) -> np.ndarray:
    """Indices of the honest clients that are evaluated, ascending."""
    return self.honest if self.eval_clients is None else self.eval_clients

  @property
  def class_names(self) -> list[str]:
    """Names of the classes: those in the user's file, else their labels."""
    if self.features is not None and self.features.classes:
      return list(self.features.classes)
    return [str(label) for label in range(self.num_classes)]

  @property
  def traits(self) -> traits_lib.Traits:
    """The traits that methods may require of the task."""
    return traits_lib.Traits(
        groups=self.has_groups,
        full_participation=self.full_participation,
        classification=self.num_classes > 0,
        model=self.model.name,
        rows_are_examples=self.rows_are_examples,
    )


def check(task: Task) -> None:
  """Refuses a task whose parts do not fit together.

  Raises:
    ValueError: If a part does not have an entry for each client, two clients
      have the same name, or a number of rounds is below 1.
  """
  for name in (
      'test', 'validation', 'groups', 'client_names', 'byzantine', 'tiers'
  ):
    part = getattr(task, name)
    if part is not None and len(part) != task.num_clients:
      raise ValueError(
          f'`{name}` of task {task.name} must have an entry for each of the'
          f' {task.num_clients} clients of `train`, found {len(part)}.'
      )
  names = [] if task.client_names is None else list(task.client_names)
  if len(set(names)) < len(names):
    twice = next(name for name in names if names.count(name) > 1)
    raise ValueError(
        f'`client_names` of task {task.name} must be distinct, found {twice!r}'
        ' twice.'
    )
  for name in ('rounds', 'eval_every'):
    if getattr(task, name) < 1:
      raise ValueError(
          f'`{name}` of task {task.name} must be at least 1, found'
          f' {getattr(task, name)}.'
      )


def num_clusters(task: Task, otherwise: int) -> int:
  """Returns a task's number of true clusters, or `otherwise` if unknown."""
  if not task.has_groups:
    return otherwise
  assert task.groups is not None
  return int(np.max(task.groups)) + 1
