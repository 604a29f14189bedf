"""The registry of methods, read by programs, contract tests and `--help`.

    @methods.register('fedavg', FedAvgHyperparameters)
    def build(task, hyperparameters): ...

One registration makes a method known everywhere.
"""

import dataclasses
from typing import (
    Any, Callable, Iterable, Mapping, NamedTuple, Optional, TypeVar, Union,
)

from tff_pers.config import hyperparameters as hp
from tff_pers.config import registry
from tff_pers.config import traits as traits_lib


class Need(NamedTuple):
  """Something that a method may require of a task.

  Attributes:
    sentence: What it is, a phrase that follows 'needs'.
    holds: `(Traits) -> bool`, or None if that depends on the data. It reads
      only declarations, so that the table of methods and tasks can be made
      without data.
    tip: The flags that may help a task that lacks it.
    model: A value of `--model` that has it; '': no model has it by itself.
  """

  sentence: str
  holds: Callable[[traits_lib.Traits], Optional[bool]]
  tip: str
  model: str = ''


NEEDS = {
    'groups': Need(
        'tasks that know the true group of every client',
        lambda traits: traits.groups,
        'a --partition that makes groups, e.g. label_shift_clusters',
    ),
    'full_participation': Need(
        'rounds with all clients (clients_per_round = 0)',
        lambda traits: traits.full_participation,
        '--clients_per_round=0',
    ),
    'batch_norm': Need(
        'a model with batch normalization, which stays with its client',
        lambda traits: traits.has_batch_norm,
        '--model=mlp_bn or, of images, --model=cnn_bn',
        'mlp_bn',
    ),
    'hidden_layers': Need(
        'a model with hidden layers, to keep one layer and share another',
        lambda traits: traits.several_layers,
        '--model=mlp',
        'mlp',
    ),
    'examples': Need(
        'rows that are examples, to learn on some and hold out others',
        lambda traits: traits.rows_are_examples,
        'the option of the task that keeps all rows, e.g.'
        ' --overpersonalized_rows=all',
    ),
    'features': Need(
        'a model that ends in a dense layer, whose inputs are features of an'
        ' example',
        lambda traits: traits.has_features,
        '--model=mlp',
        'mlp',
    ),
    'kernel': Need(
        'a model with a kernel of a dense layer or a convolution, to factorise',
        lambda traits: traits.has_kernel,
        '--model=mlp',
        'mlp',
    ),
    'ranks': Need(
        'a model with hidden layers, whose small ranks separate the classes',
        lambda traits: traits.several_layers,
        '--model=mlp',
        'mlp',
    ),
    'widths': Need(
        'a model with hidden layers, to make them narrower',
        lambda traits: traits.has_widths,
        '--model=mlp',
        'mlp',
    ),
}

# What drives a method: rounds of a cohort, or messages as they arrive.
DRIVERS = ('rounds', 'events')


@dataclasses.dataclass(frozen=True)
class Travels:
  """The fields that may leave the server and the clients.

  A message may hold nothing else: a contract test compares the types, so that
  nothing personal is sent by mistake.

  Attributes:
    down: The fields of the server state in the message to a client, besides
      `seed` and `round`.
    up: Fields of the server state. The update of a client consists of tensors
      of the same types, of which some dimensions may be unknown.
  """

  down: tuple[str, ...] = ('weights',)
  up: tuple[str, ...] = ('weights',)


@dataclasses.dataclass(frozen=True)
class Method:
  """A registered method.

  Attributes:
    name: The value of `--algo`.
    hyperparameters: Its dataclass (see `config.hyperparameters`).
    build: `(task, hyperparameters) -> PersonalizedProcess`.
    needs: Its needs: names from `NEEDS`, each with a function
      `(hyperparameters) -> bool`.
    summary: One line for `--help`.
    driver: One of `DRIVERS`.
    travels: What may be sent; None if the method has a `next` of its own.
    weighs_clients: Whether `client_weighting` of the task has an effect; if
      not, programs accept only `--client_weighting=uniform`.
    recipes: Options by name, for `perm[recipe=paper]`: hyperparameters by flag
      name, and possibly `client_weighting`.
    revision: Is raised when the rounds with default flags become others, so
      that no run is continued by another method than it was begun with.
  """

  name: str
  hyperparameters: type[Any]
  build: Callable[[Any, Any], Any]
  needs: Mapping[str, Callable[[Any], bool]] = dataclasses.field(
      default_factory=dict
  )
  summary: str = ''
  driver: str = 'rounds'
  travels: Optional[Travels] = Travels()
  weighs_clients: bool = True
  recipes: Mapping[str, Mapping[str, Any]] = dataclasses.field(
      default_factory=dict
  )
  revision: int = 1

  def recipe(self, name: str) -> dict[str, Any]:
    """Returns the options of a recipe; none for an empty name.

    Raises:
      ValueError: If there is no such recipe.
    """
    if name and name not in self.recipes:
      known = ', '.join(self.recipes) or 'left out because there is none'
      raise ValueError(
          f'The recipe of {self.name} must be {known}, found {name!r}.'
      )
    return dict(self.recipes[name]) if name else {}


_Build = TypeVar('_Build', bound=Callable[[Any, Any], Any])
_METHODS: registry.Registry[Method] = registry.Registry('algo')


def register(
    name: str, hyperparameters: type[Any], *,
    needs: Union[Iterable[str], Mapping[str, Callable[[Any], bool]]] = (),
    summary: str = '', driver: str = 'rounds',
    travels: Optional[Travels] = Travels(), weighs_clients: bool = True,
    recipes: Optional[Mapping[str, Mapping[str, Any]]] = None,
    revision: int = 1,
) -> Callable[[_Build], _Build]:
  """Returns a decorator that registers `build` under `name`.

  The arguments are attributes of `Method`. `needs` are names from `NEEDS`; or a
  dictionary from such names to functions `(hyperparameters) -> bool`, for needs
  that only some hyperparameters, including the defaults, have.

  Raises:
    ValueError: If the name is taken, a hyperparameter is not made by
      `hp.field`, or a need or the driver is unknown.
  """
  hp.check_declared(hyperparameters)
  if not isinstance(needs, Mapping):
    needs = dict.fromkeys(needs, _always)
  unknown = sorted(set(needs) - set(NEEDS))
  if unknown:
    raise ValueError(
        f'`needs` must be among {", ".join(NEEDS)}, found {unknown[0]!r}.'
    )
  if driver not in DRIVERS:
    raise ValueError(
        f'`driver` must be one of {", ".join(DRIVERS)}, found {driver!r}.'
    )
  return _METHODS.register(
      name,
      lambda build: Method(
          name, hyperparameters, build, needs, summary, driver, travels,
          weighs_clients, recipes or {}, revision,
      ),
  )


def get(name: str) -> Method:
  """Returns the method of that name; see `Registry.get`."""
  return _METHODS.get(name)


def names() -> list[str]:
  """Returns the names of all registered methods, sorted."""
  return _METHODS.names()


def _always(hyperparameters) -> bool:
  del hyperparameters  # Every choice of them has the need.
  return True


def missing_needs(
    method: Method, traits: traits_lib.Traits, hyperparameters: Any = None
) -> list[Need]:
  """Returns what `method` needs and a task with these traits lacks.

  Without hyperparameters, the method has its defaults.
  """
  hyperparameters = hyperparameters or method.hyperparameters()
  return [
      NEEDS[name] for name, applies in method.needs.items()
      if applies(hyperparameters) and not NEEDS[name].holds(traits)
  ]


def fit(
    method: Method, default: traits_lib.Traits,
    alternatives: Iterable[traits_lib.Traits] = (),
) -> str:
  """Returns whether a method runs on a task, as far as declarations say.

  The task has the traits `default` with the default flags, and alternatives
  with others. The answer is 'yes'; 'flags' if only other flags make it
  possible; 'data' if it depends on the data; 'no'.
  """
  if _holds_all(method.needs, default):
    return 'yes'
  # A need that only some hyperparameters have can be avoided by other flags.
  strict = [n for n, applies in method.needs.items() if applies is _always]
  answers = [_holds_all(strict, traits) for traits in (default, *alternatives)]
  if True in answers:
    return 'flags'
  return 'data' if None in answers else 'no'


def _holds_all(
    needs: Iterable[str], traits: traits_lib.Traits
) -> Optional[bool]:
  """Returns whether all needs are met; None: that depends on the data."""
  answers = [NEEDS[need].holds(traits) for need in needs]
  # One unmet need decides, whatever the data say about the others.
  if False in answers:
    return False
  return None if None in answers else True
