"""A task: clients with data, a model, and what is known beyond examples."""

import dataclasses
from typing import Any, Callable, Mapping, NamedTuple, Optional, Sequence

import numpy as np

from tff_pers.config import traits as traits_lib
from tff_pers.data import features as features_lib
from tff_pers.models import functional


class Arrivals(NamedTuple):
  """What is known of the messages of a run before it begins.

  Attributes:
    in_flight: P, how many clients compute at the same time.
    max_delay: tau_max >= 1, the most server updates from the dispatch of a
      task to the application of its message, that one included.
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
    splits: By what test and validation rows are told from the others: '', the
      seed and the order of clients; `content`, the seed and the rows; `file`,
      the file says what is tested, and what is validated are the last rows.
    validation_order: The training rows of each client, int64, in the order in
      which they are held out for validation; None: at random.
    client_keys: uint64[N], numbers of the clients that hang on their rows
      alone; by them clients are held out. None: by their places.
    groups: int32[N], the true cluster of each client, -1 unknown.
    num_classes: Number of labels, 0 for regression.
    client_weighting: Default of `--client_weighting`.
    clients_per_round: Cohort size, 0 for all clients.
    rounds: Default of `--rounds`.
    fits_rounds: Whether it is that of `fitting_rounds` instead.
    updates: Default of `--rounds` where messages are applied as they arrive; 0:
      as many as take the messages of `rounds`.
    eval_every: Default of `--eval_every`, in rounds.
    regimes: What sets this task apart from others of its name where settings
      of methods are chosen (`config/settings.py`), e.g. `reduced` data.
    class_counts: int64[N, num_classes] of training labels, or None.
    partition: The partition in words, e.g. `dirichlet[alpha=0.5]`.
    global_test: Dense data of a test set common to all clients, or None; its
      index is -1. Without it, the models of several tiers are evaluated on the
      test sets of all clients together.
    byzantine: bool[N], the clients that need not follow the protocol, or None:
      all are honest. They take part in rounds, but not in the training loss,
      in evaluations and in the files made of those.
    eval_clients: int[K], the honest clients that are evaluated, ascending;
      None: all of them.
    optimum: What each client should deploy, or None where it is not known in
      closed form: a structure as the weights of `model`, every leaf
      float[N, ...] with one row per client. It minimizes the client's expected
      loss (not the loss on its few training examples). A leaf is None where
      the weight is no part of the distance, e.g. a private one if the paper
      measures the shared ones.
    rank_ratios: The share of the model that devices of each tier can train,
      the rank ratios of FedHM, largest first.
    tier_assignment: `fixed` or `dynamic`, see `data/tiers.py`.
    tiers: int32[N], the tier of each client, and then of those that were held
      out; None: they are dealt.
    num_new_clients: How many clients were held out: they never train, and are
      evaluated under the indices N and above.
    client_names: The name that the data give to each of the N clients, and
      then to those that were held out; None: they have numbers alone.
    rows_are_examples: See `traits.Traits`.
    metrics: Metrics of its own by name, for `--metric` and all tables:
      functions `(y, outputs) -> float` of a client's examples [n] and of what
      its model predicts of them, probabilities [n, C] or numbers [n]. More is
      better.
    about: What the data were taken for, a sentence to print; '' where users
      know the task.
    named_arrays: Whether files of its data are those of `data/named_arrays.py`.
    recipe: What is still to be made of x, see `data/fitting.py`; None: nothing.
    features: What was made of x, or None: x is as the task has it.
    arrivals: Where messages are applied as they arrive: what is known of them;
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
  recipe: Optional[features_lib.Recipe] = None
  features: Optional[features_lib.Features] = None
  arrivals: Optional[Arrivals] = None

  @property
  def num_clients(self) -> int:
    """N, how many clients train."""
    return len(self.train)

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
    """What the classes are called: as in the user's file, else their labels."""
    if self.features is not None and self.features.classes:
      return list(self.features.classes)
    return [str(label) for label in range(self.num_classes)]

  @property
  def traits(self) -> traits_lib.Traits:
    """What methods may ask of the task."""
    return traits_lib.Traits(
        groups=self.has_groups,
        full_participation=self.full_participation,
        classification=self.num_classes > 0,
        model=self.model.name,
        rows_are_examples=self.rows_are_examples,
    )
