"""The registry of tasks, read by programs, tests and `--help`.

    @registry.register(
        'digits', DigitsOptions, declares=Declaration(...), summary='...'
    )
    def build(request, options): ...

One registration makes a task known everywhere.
"""

import dataclasses
import itertools
import functools
from typing import Any, Callable, Iterable, Optional, Sequence, TypeVar

from tff_pers.config import hyperparameters as hp
from tff_pers.config import registry
from tff_pers.config import traits as traits_lib
from tff_pers.data import brackets
from tff_pers.data import byzantine
from tff_pers.data import fitting
from tff_pers.data import partition as partition_lib
from tff_pers.data import task as task_lib
from tff_pers.data import validation


@dataclasses.dataclass(frozen=True)
class TaskRequest:
  """The shared flags of a task; 0 and '' mean the task's default.

  Attributes:
    num_clients: `--num_clients`.
    partition: `--partition`, with bracket options.
    seed: `--seed`, which determines partition, split and generated examples.
    data_dir: `--data_dir`, the folder (or file) of the data.
    train_fraction: `--train_fraction`, in (0, 1]: share of a client's examples;
      if test sets are dealt out, of its training examples.
    model: `--model`, a name of `models.zoo`.
    validation_fraction: `--validation_fraction`, in [0, 1): share of a client's
      training examples; 0: no validation part.
    num_byzantine: `--num_byzantine`. In tasks that generate their clients,
      these are added to `num_clients` (if the task says so); in others, they
      are drawn among the clients that train.
    holdout_clients: `--holdout_clients`. They stay in the task; features are
      not fitted to them.
    standardize: `--standardize`, or None: as the task declares.
  """

  num_clients: int = 0
  partition: str = ''
  seed: int = 0
  data_dir: str = ''
  train_fraction: float = 0.0
  model: str = ''
  validation_fraction: float = 0.0
  num_byzantine: int = 0
  holdout_clients: int = 0
  standardize: Optional[bool] = None

  def __post_init__(self):
    if self.num_clients < 0:
      raise ValueError(f'`num_clients` must be >= 0, found {self.num_clients}.')
    if not 0.0 <= self.train_fraction <= 1.0:
      raise ValueError(
          '`train_fraction` must be in (0, 1], or 0 for the task\'s default,'
          f' found {self.train_fraction}.'
      )
    validation.check_fraction(self.validation_fraction)
    if self.num_byzantine < 0:
      raise ValueError(
          f'`num_byzantine` must be >= 0, found {self.num_byzantine}.'
      )


@dataclasses.dataclass(frozen=True)
class NoOptions:
  """Options of a task without options."""


@dataclasses.dataclass(frozen=True)
class Declaration:
  """The properties of a task with its default flags, known without its data.

  Attributes:
    classification: Whether y are labels; else it is regression; None: the data
      decide.
    model: Default of `--model`; None: the data decide.
    num_clients: Default of `--num_clients`; 0: all clients in the data.
    clients_per_round: Default of `--clients_per_round`, 0 for all clients.
    partition: Default of `--partition`.
    partitions: Names of partitions that `--partition` may choose; none if the
      task generates its clients.
    groups: Whether the true groups are known; None: if the partition knows.
    standardize: Default of `--standardize`; None: the task's features are never
      scaled to training data.
    networks: Models that `--model` may choose and that together have all that
      any of its models has.
  """

  classification: Optional[bool]
  model: Optional[str]
  num_clients: int
  clients_per_round: int = 0
  partition: str = 'by_client'
  partitions: tuple[str, ...] = ()
  groups: Optional[bool] = None
  standardize: Optional[bool] = None
  networks: tuple[str, ...] = ('mlp', 'mlp_bn')

  def named_model(self, asked: str = '') -> str:
    """Returns the requested model, or else the default, which must exist."""
    found = asked or self.model
    assert found is not None
    return found

  def named_partition(self, asked: str = '') -> str:
    """Returns the name of the requested partition, or else of the default."""
    return brackets.parse(asked or self.partition)[0]

  @property
  def traits(self) -> traits_lib.Traits:
    """The traits of the task with its default flags."""
    return traits_lib.Traits(
        groups=self._knows_groups(self.partition),
        full_participation=not self.clients_per_round,
        classification=self.classification,
        model=self.model,
    )

  def cohort(self, num_clients: int) -> int:
    """Returns the default of `--clients_per_round` for `num_clients` clients.

    If there are no more than the usual cohort, all take part: 0.
    """
    usual = self.clients_per_round
    return usual if num_clients > usual else 0

  def natural(self, names: Sequence[str]) -> dict[str, Any]:
    """Returns the fields of `Task` that depend on the clients in the data."""
    return dict(
        partition=self.partition, client_names=names,
        clients_per_round=self.cohort(len(names)),
    )

  def alternatives(self) -> Iterable[traits_lib.Traits]:
    """Yields the traits with other partitions, networks, and all clients."""
    names = self.partitions or [self.partition]
    for model, name in itertools.product((self.model, *self.networks), names):
      yield dataclasses.replace(
          self.traits, groups=self._knows_groups(name), full_participation=True,
          model=model,
      )

  def _knows_groups(self, partition: str) -> bool:
    if self.groups is not None:
      return self.groups
    return partition_lib.knows_groups(partition)


def partitions(*without: str) -> tuple[str, ...]:
  """Returns the names of all partitions except `without`."""
  return tuple(n for n in partition_lib.names() if n not in without)


@dataclasses.dataclass(frozen=True)
class TaskFamily:
  """A registered task.

  Attributes:
    name: The value of `--task`.
    options: Its dataclass of `hyperparameters.field`s; flags are prefixed with
      the task's name.
    build: `(request, options) -> Task`.
    declares: Its properties.
    summary: One line for `--help`.
  """

  name: str
  options: type[Any]
  build: Callable[[TaskRequest, Any], task_lib.Task]
  declares: Declaration
  summary: str = ''


_Build = TypeVar('_Build', bound=Callable[[TaskRequest, Any], task_lib.Task])
_TASKS: registry.Registry[TaskFamily] = registry.Registry('task')


def register(
    name: str, options: type[Any], *, declares: Declaration, summary: str = ''
) -> Callable[[_Build], _Build]:
  """Returns a decorator that registers `build` under `name`.

  The validation part is cut here, after `build`, so that every task has one and
  none can take it from its test data; Byzantine clients are appointed here,
  too. Features are fitted last, when the training data are known.

  Raises:
    ValueError: If the name is taken, or an option is not made by `hp.field`.
  """
  hp.check_declared(options)

  def family(build):

    @functools.wraps(build)
    def build_whole(request: TaskRequest, options):
      request = _with_standardize(request, name, declares)
      task = build(request, options)
      task_lib.check(task)
      task = validation.hold_out(
          task, request.validation_fraction, request.seed
      )
      task = byzantine.appoint(
          task, request.num_byzantine, request.seed, request.holdout_clients
      )
      return fitting.fit(task, request.holdout_clients, request.seed)

    return TaskFamily(name, options, build_whole, declares, summary)

  return _TASKS.register(name, family)


def _with_standardize(
    request: TaskRequest, name: str, declares: Declaration
) -> TaskRequest:
  """Returns the request with the task's default of `--standardize`.

  Raises:
    ValueError: If it is given, and the task has none.
  """
  if request.standardize is None:
    return dataclasses.replace(request, standardize=declares.standardize)
  if declares.standardize is None:
    raise ValueError(
        f'`standardize` must not be given for task {name}, found'
        f' {request.standardize}.'
    )
  return request


def get(name: str) -> TaskFamily:
  """Returns the task of that name; see `Registry.get`."""
  return _TASKS.get(name)


def names() -> list[str]:
  """Returns the names of all registered tasks, sorted."""
  return _TASKS.names()


def refuse(task: str, request: TaskRequest, *fields: str) -> None:
  """Raises a ValueError if `request` sets `fields` that `task` lacks."""
  for name in fields:
    value = getattr(request, name)
    if value:
      raise ValueError(
          f'`{name}` must not be given for task {task}, found'
          f' {value!r}.'
      )


def refuse_partition(task: str, request: TaskRequest) -> None:
  """Raises a ValueError if another partition than `by_client` is asked for."""
  if request.partition not in ('', 'by_client'):
    raise ValueError(
        f'`partition` must be by_client for task {task}, found'
        f' {request.partition!r}.'
    )
