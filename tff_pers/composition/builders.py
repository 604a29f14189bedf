"""Checks the arguments of method builders, each with a one-sentence error.

    @builders.checked
    def build_fedavg(model: functional.FunctionalModel, hyperparameters: ...)

Arguments are recognized by name, and their required type by annotation.
"""

import functools
import inspect
import numbers
import textwrap
import typing
from typing import Any, Callable, Optional, Sequence, TypeVar

import tensorflow as tf

from tff_pers.config import hyperparameters as hp
from tff_pers.core import process
from tff_pers.models import functional
from tff_pers import tff

# Model types of TFF and Keras, and how to convert each into our model.
_WAYS = (
    (tf.keras.Model, 'Keras model', 'models.from_keras(keras_model, loss)'),
    (
        tff.learning.models.FunctionalModel,
        'tff.learning.models.FunctionalModel',
        'models.from_tff_functional_model(model)',
    ),
    (
        tff.learning.models.VariableModel, 'tff.learning.models.VariableModel',
        'models.from_keras(keras_model, loss), of the Keras model inside',
    ),
)
_STATISTICS = 'statistics'
_Builder = TypeVar('_Builder', bound=Callable[..., Any])


def takes_statistics(how: str) -> Callable[[_Builder], _Builder]:
  """Marks a builder, below `checked`, whose method handles batch normalization.

  Moving statistics (`models.moving_statistics`) must not be updated as weights
  are, so all other builders refuse a model that has some.

  Args:
    how: 'averaged': the server takes their mean; 'private': the method takes
      them only where the split leaves them with the client.
  """

  def mark(build):
    setattr(build, _STATISTICS, how)
    return build

  return mark


def checked(build: _Builder) -> _Builder:
  """Returns the builder with a check of its arguments.

  A process whose builder is given `num_clients`, or the `groups` of all
  clients, accepts only those clients; see `PersonalizedProcess.require`.

  Args:
    build: `(...) -> PersonalizedProcess`. Checked are the arguments annotated
      as a model or as a class built from one (with a text `made_by`, which says
      how), and those named `hyperparameters` or `num_clients`. The docstring is
      extended by what the builder returns and by the errors of these checks.
  """
  signature = inspect.signature(build)
  # Annotations may be strings; on Python 3.9 only this resolves them.
  kinds = typing.get_type_hints(build)

  @functools.wraps(build)
  def build_checked(*args, **kwargs):
    try:
      bound = signature.bind(*args, **kwargs)
    except TypeError as error:
      raise TypeError(
          f'{build.__name__}: {error}. Its arguments are'
          f' {", ".join(signature.parameters)}.'
      ) from None
    bound.apply_defaults()
    given = bound.arguments
    for name, value in given.items():
      kind = kinds.get(name, inspect.Parameter.empty)
      if hasattr(kind, 'made_by'):
        _check_made(value, name, kind)
      elif kind is functional.FunctionalModel:
        check_model(value, name)
      elif name == 'hyperparameters':
        _check_hyperparameters(value, kind)
      elif name == 'num_clients' and (kind is int or value is not None):
        _check_num_clients(value)
    _check_statistics(build, given)
    return _among(build(*args, **kwargs), given)

  build_checked.__doc__ = _with_results(build, [
      name for name in signature.parameters
      if name in ('hyperparameters', 'num_clients')
      or kinds.get(name) is functional.FunctionalModel
      or hasattr(kinds.get(name), 'made_by')
  ])
  return typing.cast(_Builder, build_checked)


def _with_results(build, names: Sequence[str]) -> str:
  """Returns the docstring, with what all builders return and raise.

  Args:
    build: The builder; what its docstring already says is not repeated.
    names: Names of the arguments that are checked.
  """
  text, _, errors = inspect.cleandoc(build.__doc__ or '').partition('Raises:\n')
  if 'Returns:\n' not in text:
    text = f'{text.rstrip()}\n\nReturns:\n  A `PersonalizedProcess`.'
  raised = []
  if 'TypeError:' not in errors:
    looked_at = ', '.join(f'`{name}`' for name in names)
    raised += [f'TypeError: If one of {looked_at} has the wrong type.']
  if 'num_clients' in names and '`num_clients` is below 1' not in errors:
    raised += ['ValueError: If `num_clients` is below 1.']
  own = [
      textwrap.fill(line, 80, initial_indent='  ', subsequent_indent='    ')
      for line in raised
  ]
  return '\n'.join([text.rstrip(), '', 'Raises:', *own, errors.rstrip()])


def check_model(model: Any, name: str = 'model') -> None:
  """Raises a TypeError unless it is a functional model of this package.

  Args:
    model: What a caller gave.
    name: Name of the argument, for the message.
  """
  if isinstance(model, functional.FunctionalModel):
    return
  found, tip = type(model).__name__, ''
  for kind, name_of_kind, way in _WAYS:
    if isinstance(model, kind):
      found, tip = name_of_kind, f' Tip: {way}.'
  if inspect.isfunction(model):  # Perhaps one that builds a Keras model.
    tip = f' Tip: {_WAYS[0][2]}, where keras_model may be a function.'
  raise TypeError(
      f'`{name}` must be a tff_pers.models.FunctionalModel, found a'
      f' {found}.{tip}'
  )


def _check_made(value, name: str, kind) -> None:
  """Raises a TypeError unless the value is of the class built from a model."""
  if not isinstance(value, kind):
    raise TypeError(
        f'`{name}` must be a {kind.__module__}.{kind.__name__}, found a'
        f' {type(value).__name__}. Tip: {kind.made_by}.'
    )


def _check_statistics(build, given) -> None:
  """Refuses moving statistics unless the method averages or keeps them."""
  how = getattr(build, _STATISTICS, None)
  name = next((x.name for x in map(_model_of, given.values()) if x), None)
  if name is None:
    return
  # A `partition.Partition`, which most methods need not import.
  parts = next((x for x in given.values() if hasattr(x, 'is_private')), None)
  hyperparameters = given.get('hyperparameters')
  tip = (
      'Tip: freeze it (layer.trainable = False), or use group or layer'
      ' normalization, which has no statistics.'
  )
  if how is None:
    raise ValueError(
        '`model` must have no batch normalization that is trained for'
        f' {build.__name__}, which would move its statistics like weights,'
        f' found {name}. {tip} FedAvg, FedProx, FedOpt, Ditto, FedBN, FedSim,'
        ' FedPer, FedRep, FedAlt, PERM and local training take it.'
    )
  if how == 'private' and parts is not None and any(parts.statistics[0]):
    raise ValueError(
        f'`split` must leave all moving statistics of {name} with the client'
        f' for {build.__name__}, whose server does not average, found some that'
        ' are global. Tip: split=norm.'
    )
  forgets = not getattr(hyperparameters, 'stateful', True) or getattr(
      hyperparameters, 'stateless', False
  )
  if parts is not None and any(parts.statistics[1]) and forgets:
    raise ValueError(
        f'The clients of {build.__name__} must keep the moving statistics of'
        f' {name} from round to round, because one round is too short for them,'
        ' found stateless clients. Tip: stateful=true, or stateless=false.'
    )
  rule = given.get('model_aggregator') or getattr(
      hyperparameters, 'aggregator', 'mean'
  )
  if rule != 'mean' and how == 'averaged':
    raise ValueError(
        "`aggregator` must be 'mean' for a model whose batch normalization is"
        f' trained, because its statistics are averaged, found {rule!r}. {tip}'
    )


def _model_of(value) -> Optional[functional.FunctionalModel]:
  """Returns the model of an argument if it has moving statistics, else None."""
  model = getattr(value, 'model', getattr(value, 'base', value))
  is_model = isinstance(model, functional.FunctionalModel)
  return model if is_model and model.statistics else None


def _check_hyperparameters(hyperparameters, kind) -> None:
  """Raises a TypeError unless it is an instance of the method's dataclass."""
  if isinstance(hyperparameters, hp.Hyperparameters):
    return
  is_one = inspect.isclass(kind) and issubclass(kind, hp.Hyperparameters)
  # Otherwise several methods share the builder, e.g. FedAdam's.
  name = kind.__name__ if is_one else 'Hyperparameters'
  tip = f'leave it out for the defaults, {name}()'
  if isinstance(hyperparameters, dict):
    tip = f'{name}(**values)'
  raise TypeError(
      f'`hyperparameters` must be {name}, found {hyperparameters!r}. Tip:'
      f' {tip}.'
  )


def _check_num_clients(num_clients) -> None:
  is_whole = isinstance(num_clients, numbers.Integral)
  if not is_whole or isinstance(num_clients, bool):
    raise TypeError(
        f'`num_clients` must be an integer, found {num_clients!r}.'
    )
  if num_clients < 1:
    raise ValueError(
        f'`num_clients` must be >= 1, the number of clients that train, found'
        f' {num_clients}.'
    )


def _among(built, given):
  """Returns what was built; a process then requires the given clients."""
  num_clients = given.get('num_clients')
  if num_clients is None and given.get('groups') is not None:
    num_clients = len(given['groups'])
  if num_clients is not None and isinstance(
      built, process.PersonalizedProcess
  ):
    built.require(int(num_clients), given.get('full_participation', False))
  return built
