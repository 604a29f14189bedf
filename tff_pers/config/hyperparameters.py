"""Hyperparameters of a method, declared in one frozen dataclass.

A field made by `field` carries its help text, range and unit; the programs
build their flags from it, `validate` checks it, records store it. A trailing
underscore avoids a name that Python reserves (`lambda_` is the flag `lambda`).
A field with a condition `when` acts only if others have certain values;
otherwise it must be left at its default, so that no flag is silently ignored.
A field may declare a search range (`search_spaces` makes the space of a
method); only the most important ones do, so that ten trials are enough.

    learning_rate: float = hp.field(0.1, '...', search=hp.Around(20))
    num_models: int = hp.field(0, '...', search=hp.Between(2, 5))
    adaptive: bool = hp.field(True, '...', search=hp.Among((True, False)))
"""

import dataclasses
import inspect
import math
import operator
import textwrap
from typing import Any, Mapping, NamedTuple, Optional, Sequence, Union

from tff_pers.config import cadence as cadence_lib
from tff_pers.config import conditions
from tff_pers import number_inputs

# TensorFlow holds integers as int32, seeds as int64. These are the bounds of
# fields that declare no others; `--help` does not repeat them for each field.
LARGEST_INTEGER = 2**31 - 1
LARGEST_SEED = 2**63 - 1
# By argument of `field`, as texts show it.
_BOUNDS = dict(
    minimum=('>=', operator.ge), above=('>', operator.gt),
    maximum=('<=', operator.le), below=('<', operator.lt),
)


class Around(NamedTuple):
  """From the task's default divided by `factor` to the default times it.

  On a logarithmic scale, for rates and amounts of work that depend on the task.

  Attributes:
    factor: The factor, > 1.
    of: The hyperparameter whose value a default of 0 or auto means; empty: a
      default of 0 is not searched.
  """

  factor: float
  of: str = ''


class Between(NamedTuple):
  """From `low` to `high`, both included, whatever the default is."""

  low: float
  high: float
  log: bool = False


class Among(NamedTuple):
  """One of several values."""

  values: tuple[Any, ...]


Range = Union[Around, Between, Among]


def field(
    default: Any,
    help: str,  # pylint: disable=redefined-builtin
    *,
    minimum: Optional[float] = None,
    above: Optional[float] = None,
    maximum: Optional[float] = None,
    below: Optional[float] = None,
    choices: Optional[Sequence[str]] = None,
    auto: Union[bool, Sequence[str]] = False,
    when: str = '',
    search: Optional[Range] = None,
) -> Any:
  """Returns a dataclass field of a hyperparameter.

  Args:
    default: The default; its type is the type of the hyperparameter.
    help: One sentence with the unit, shown by `--help`.
    minimum: Smallest allowed value.
    above: Exclusive lower bound.
    maximum: Largest allowed value; an integer's is 2^31 - 1 if it is not given.
    below: Exclusive upper bound.
    choices: Allowed strings.
    auto: Whether the string `auto` is allowed as well as a number, which is an
      integer if the default is one; or the strings that are.
    when: The condition on other hyperparameters under which this one acts, e.g.
      `router=learned`, see `conditions`; empty: it always acts.
    search: The range in which tuners search; None: they do not change it.
  """
  return dataclasses.field(
      default=default,
      metadata=dict(
          help=help, minimum=minimum, above=above, maximum=maximum,
          below=below, choices=tuple(choices) if choices else None,
          auto=('auto',) if auto is True else tuple(auto or ()),
          when=when, search=search,
      ),
  )


def inherited(
    base: type[Any], name: str, *, default: Any = None, when: str = ''
) -> Any:
  """Returns the field `name` of the dataclass `base`, changed.

  It keeps its default if the new one is None, and its condition (see `field`)
  if the new one is empty.
  """
  spec = base.__dataclass_fields__[name]
  return dataclasses.field(
      default=spec.default if default is None else default,
      metadata={**spec.metadata, 'when': when or spec.metadata['when']},
  )


def flag_name(name: str) -> str:
  """Returns the name of a field's flag: `lambda` for `lambda_`."""
  return name.rstrip('_')


def specs(hyperparameters: Any) -> dict[str, dataclasses.Field]:
  """Returns the fields of a dataclass, or of an instance, by flag name."""
  return {flag_name(s.name): s for s in dataclasses.fields(hyperparameters)}


def check_declared(hyperparameters: type[Any]) -> None:
  """Refuses a dataclass with a field of which no flag can be made.

  Raises:
    ValueError: If a field is not made by `field`, or its default is not a
      boolean, a number or a text.
  """
  for spec in dataclasses.fields(hyperparameters):
    if 'help' not in spec.metadata or not isinstance(
        spec.default, (bool, int, float, str)
    ):
      raise ValueError(
          f'`{hyperparameters.__name__}.{spec.name}` must be made by `hp.field`'
          ' with a boolean, a number or a text as default, because it becomes'
          f' a flag, found {spec.default!r}.'
      )


def parse(spec: dataclasses.Field, text: str) -> Any:
  """Returns the value that `text` means for the field `spec`.

  Raises:
    ValueError: If `text` is not of the field's type.
  """
  if text in spec.metadata['auto']:
    return text
  kind: type[Any] = type(spec.default)
  if spec.metadata['auto'] and kind is str:
    kind = float
  # Not `bool(text)`, which is true for 'false'.
  if kind is bool:
    lowered = text.lower()
    if lowered in ('true', '1', 'yes'):
      return True
    if lowered in ('false', '0', 'no'):
      return False
  else:
    try:
      return kind(text)
    except ValueError:
      pass
  raise ValueError(_sentence(spec, text))


def _sentence(spec: dataclasses.Field, value) -> str:
  """Returns the message with what is allowed and what was found."""
  limit = f' and <= {LARGEST_INTEGER}' if _is_too_large(spec, value) else ''
  return (
      f'`{flag_name(spec.name)}` must be {allowed(spec)}{limit}, found'
      f' {value!r}.'
  )


def validate(hyperparameters: Any) -> None:
  """Checks every field against its range, and that non-default fields act.

  Raises:
    ValueError: Names the first field out of range, or else the first that
      differs from its default though the others leave it without effect; says
      what is allowed and what was found.
  """
  fields = specs(hyperparameters)
  values = {
      name: number_inputs.plain(value)
      for name, value in as_dict(hyperparameters).items()
  }
  for name, spec in fields.items():
    check(spec, values[name])
  for name, spec in fields.items():
    if not acts(spec, values) and values[name] != spec.default:
      when = spec.metadata['when']
      raise ValueError(
          f'`{name}` must be left at {conditions.as_text(spec.default)} unless'
          f' {when} because it has no effect otherwise, found'
          f' {conditions.as_text(values[name])} with'
          f' {conditions.found(when, values)}.'
      )


def check(spec: dataclasses.Field, value: Any) -> None:
  """Raises a ValueError if a value is out of the field's range."""
  if not is_allowed(spec, value):
    raise ValueError(_sentence(spec, value))


def acts(spec: dataclasses.Field, values: Mapping[str, Any]) -> bool:
  """Returns whether the field has an effect, given all values by flag name."""
  when = spec.metadata['when']
  return not when or conditions.holds(when, values)


def as_dict(hyperparameters: Any) -> dict[str, Any]:
  """Returns the record of the hyperparameters under their flag names."""
  return {
      flag_name(name): value
      for name, value in dataclasses.asdict(hyperparameters).items()
  }


def replace(hyperparameters: Any, **values: Any) -> Any:
  """Returns a copy with fields replaced, given under their flag names.

  Raises:
    ValueError: If a name is not a hyperparameter, or `validate` refuses a
      value.
  """
  names = {name: s.name for name, s in specs(hyperparameters).items()}
  unknown = sorted(set(values) - set(names))
  if unknown:
    raise ValueError(
        f'`{unknown[0]}` must be one of {", ".join(sorted(names))}.'
    )
  changed = dataclasses.replace(
      hyperparameters, **{names[k]: v for k, v in values.items()}
  )
  validate(changed)
  return changed


def without_idle(
    kind: type[Any], settings: Mapping[str, Any], given: Mapping[str, Any]
) -> dict[str, Any]:
  """Returns the settings that act together with the given values.

  Settings are suggestions for all variants of a method, whose dataclass is
  `kind`; a setting without effect in the requested variant is dropped, not
  refused. So are those that the user has given. Both are by flag name.
  """
  kept = {k: value for k, value in settings.items() if k not in given}
  values = {**as_dict(kind()), **kept, **given}
  idle = {n for n, spec in specs(kind).items() if not acts(spec, values)}
  if idle.isdisjoint(kept):
    return kept
  # Without one setting, another that depended on it may be idle, too.
  return without_idle(
      kind, {k: v for k, v in kept.items() if k not in idle}, given
  )


def is_allowed(spec: dataclasses.Field, value: Any) -> bool:
  """Returns whether a value is in the field's range."""
  meta = spec.metadata
  if isinstance(value, str) and value in meta['auto']:
    return True
  if meta['choices'] is not None:
    return value in meta['choices']
  if isinstance(spec.default, (bool, str)) and not meta['auto']:
    return isinstance(value, type(spec.default))
  # A bool is an int to Python, but not a number to the user.
  if isinstance(value, bool) or not isinstance(value, (int, float)):
    return False
  if isinstance(spec.default, int) and not isinstance(value, int):
    return False
  return (
      not _is_too_large(spec, value)
      # Not `math.isfinite`, which fails for very large integers.
      and -math.inf < value < math.inf
      and all(meta[name] is None or keeps(value, meta[name])
              for name, (_, keeps) in _BOUNDS.items())
  )


def _is_too_large(spec: dataclasses.Field, value) -> bool:
  """Whether an integer exceeds the bound of fields that declare none."""
  return (
      isinstance(spec.default, int) and isinstance(value, int)
      and spec.metadata['maximum'] is None
      and value > LARGEST_INTEGER
  )


def allowed(spec: dataclasses.Field) -> str:
  """Returns the allowed values as text: `a number > 0.0`."""
  meta = spec.metadata
  if meta['choices'] is not None:
    return 'one of ' + ', '.join(meta['choices'])
  if isinstance(spec.default, bool):
    return 'true or false'
  if isinstance(spec.default, str) and not meta['auto']:
    return 'a string'
  text = 'an integer' if isinstance(spec.default, int) else 'a number'
  bounds = ' and '.join(
      f'{sign} {meta[name]}' for name, (sign, _) in _BOUNDS.items()
      if meta[name] is not None
  )
  return ' or '.join([f'{text} {bounds}'.rstrip(), *meta['auto']])


_RAISES = (
    'Raises:',
    '  ValueError: If a value is out of its range, or is set though the others',
    '    leave it without effect.',
)


def _with_attributes(kind) -> str:
  """Returns the docstring of a dataclass, with its fields as attributes.

  Their help texts are used, so that nothing is written twice.
  """
  fields: dict[str, dataclasses.Field] = {}
  for base in reversed(kind.__mro__):
    if '__dataclass_fields__' in vars(base):
      # Not `__dataclass_fields__`, which has class variables, too.
      fields.update({spec.name: spec for spec in dataclasses.fields(base)})
    # Fields of `kind` itself, which the decorator has not processed yet.
    fields.update({
        name: value for name, value in vars(base).items()
        if isinstance(value, dataclasses.Field)
    })
  entries = [
      textwrap.fill(
          f'{name}: {_description(spec)}', 80, initial_indent='  ',
          subsequent_indent='    ', break_long_words=False,
      )
      for name, spec in fields.items()
  ]
  text = inspect.cleandoc(kind.__doc__ or '')
  return '\n'.join([text, '', 'Attributes:', *entries, '', *_RAISES, ''])


def _description(spec: dataclasses.Field) -> str:
  """Returns help text, range, default and condition, as sentences."""
  text = f'{spec.metadata["help"]} {allowed(spec).capitalize()}'
  if allowed(spec) == 'a string':
    text = spec.metadata['help'].rstrip('.')
  text += f'; default {conditions.as_text(spec.default)}.'
  when = spec.metadata['when']
  return f'{text} Acts with {when}.' if when else text


@dataclasses.dataclass(frozen=True)
class Aggregation:
  """Hyperparameters of methods whose server averages clients' messages.

  `aggregators.choice` builds a factory from them.
  """

  aggregator: str = field(
      'mean',
      'How the server combines clients\' messages: mean (weighted), or a robust'
      ' rule with equal weights: median, trimmed_mean, geometric_median, krum,'
      ' multi_krum, centered_clipping, caf, norm_clipping; also in the form'
      ' bucketing(median), nnm(krum). A rule assumes --num_byzantine attackers,'
      ' or f, as in krum[f=2].',
  )


@dataclasses.dataclass(frozen=True)
class MaskedLoss:
  """Hyperparameters of methods whose clients may lack classes."""

  masked_loss: bool = field(
      False,
      'Train with logits 0 for the classes that a client does not have, and'
      ' average each row of the output layer over the clients that have the'
      ' class.',
  )


@dataclasses.dataclass(frozen=True)
class NewClients:
  """Hyperparameters of the adaptation of clients that never train.

  They train their private part (a router, mixing weights, adaptors, private
  weights), starting from an initial state; everything shared is frozen.
  """

  adapt_epochs: int = field(
      5,
      'Passes over its training data in which a client that never trains learns'
      ' its private part, with all else frozen, before it is evaluated.',
      minimum=0,
  )


SCHEDULES = ('constant', 'exponential', 'cosine', 'steps', 'linear')
_IS_SCHEDULED = 'learning_rate_schedule!=constant'
# The linear schedule ends near 0, whatever the factor.
_HAS_DECAY = (
    'learning_rate_schedule!=constant and learning_rate_schedule!=linear'
)


@dataclasses.dataclass(frozen=True)
class Options:
  """Base class of options that are checked when they are made."""

  def __post_init__(self):
    validate(self)


@dataclasses.dataclass(frozen=True)
class Hyperparameters(Options):
  """Base class of the hyperparameters of every method."""

  def __init_subclass__(cls, **options):
    super().__init_subclass__(**options)
    cls.__doc__ = _with_attributes(cls)

  def describe(self, task: Any) -> str:
    """Returns what `train` first prints about the task's model; '': nothing."""
    return ''  # Methods that change or split it say how.

  def wants(self, task: Any) -> Sequence[str]:
    """Returns names of `methods.NEEDS` that `train`'s own model should meet."""
    return ()  # The method runs without, but not well.

  @property
  def messages_per_update(self) -> int:
    """Number of messages per server update in a run by events."""
    return 1  # Methods with a buffer say how many fill it.

  def cadence(
      self, num_clients: int, cohort_size: int
  ) -> cadence_lib.Cadence:
    """Returns when the models of different rounds can be compared.

    Args:
      num_clients: N, the number of clients that train.
      cohort_size: Number of clients per round.
    """
    return cadence_lib.Cadence(cycle=math.ceil(num_clients / cohort_size))


@dataclasses.dataclass(frozen=True)
class LocalBatches(Hyperparameters):
  """A step size, and the minibatches that a client visits in a round."""

  learning_rate: float = field(
      0.1, 'Step size eta of local SGD, per step.', above=0.0,
      search=Around(20),
  )
  local_steps: int = field(
      20,
      'Local steps K per round, in minibatches; 0: use local_epochs instead.',
      minimum=0, search=Around(4),
  )
  local_epochs: int = field(
      0, 'Passes over the local data per round, if local_steps is 0.',
      minimum=0, search=Around(4),
  )
  batch_size: int = field(
      20, 'Examples per minibatch; 0: all of a client at once.', minimum=0
  )

  def __post_init__(self):
    super().__post_init__()
    if (self.local_steps > 0) == (self.local_epochs > 0):
      raise ValueError(
          'Exactly one of `local_steps` and `local_epochs` must be > 0, found'
          f' {self.local_steps} and {self.local_epochs}.'
      )

  def budget(self) -> dict[str, Any]:
    """Returns the arguments of `fold_batches` that say how long to train."""
    return dict(
        batch_size=self.batch_size,
        num_steps=self.local_steps or None,
        num_epochs=self.local_epochs or None,
    )

  def num_visited(self, num_examples: int) -> int:
    """Returns how many examples a client visits in a round, with repeats.

    It has `num_examples`; a pass may end in a short minibatch.
    """
    if self.local_epochs or not num_examples:
      return self.local_epochs * num_examples
    size = self.batch_size or num_examples
    passes, steps = divmod(self.local_steps, math.ceil(num_examples / size))
    return passes * num_examples + steps * size


@dataclasses.dataclass(frozen=True)
class LocalTraining(LocalBatches):
  """Hyperparameters of local SGD; methods extend them.

  See `client_works.local_step` for their effect on a gradient.
  """

  learning_rate_schedule: str = field(
      'constant',
      'Schedule of the step sizes over rounds; exponential and cosine decay to'
      ' the share learning_rate_decay after learning_rate_rounds, steps'
      ' multiplies by it in each of these rounds, linear rises for a tenth of'
      ' them and then falls to almost 0.',
      choices=SCHEDULES,
  )
  learning_rate_rounds: str = field(
      '',
      'Rounds of the schedule: one number T (exponential, cosine, linear), or'
      ' the rounds of the steps, as in 100:150; with driver=events messages'
      ' count, not server updates.',
      when=_IS_SCHEDULED,
  )
  learning_rate_decay: float = field(
      0.1, 'Factor of the schedule.', above=0.0, maximum=1.0,
      when=_HAS_DECAY,
  )
  momentum: float = field(
      0.0,
      'Heavy-ball momentum of local steps, restarted whenever a client takes'
      ' part; 0: none.',
      minimum=0.0, below=1.0,
  )
  weight_decay: float = field(
      0.0,
      'L2 penalty: this times the weights is added to the gradient of every'
      ' local step.',
      minimum=0.0,
  )
  clip_norm: float = field(
      0.0,
      'Largest norm of the gradient of a local step, over all its tensors;'
      ' 0: no limit.',
      minimum=0.0,
  )

  def __post_init__(self):
    super().__post_init__()
    schedule = self.learning_rate_schedule
    rounds = self.schedule_rounds() if schedule != 'constant' else []
    if schedule != 'steps' and len(rounds) > 1:
      raise ValueError(
          '`learning_rate_rounds` must be one number with'
          f' learning_rate_schedule={schedule}, found'
          f' {self.learning_rate_rounds!r}.'
      )
    if self.momentum and self.longest_line() == 1:
      raise ValueError(
          '`momentum` must be 0 where a client takes one step whenever it takes'
          f' part, because it restarts each time, found {self.momentum}.'
      )

  def cadence(
      self, num_clients: int, cohort_size: int
  ) -> cadence_lib.Cadence:
    """See the base class; models still improve while a step size falls."""
    whole = super().cadence(num_clients, cohort_size)
    if self.learning_rate_schedule == 'constant':
      return whole
    return whole.after(self.schedule_rounds()[-1])

  def longest_line(self) -> int:
    """Returns the maximum number of steps per momentum; 0: data decide."""
    return self.local_steps

  def schedule_rounds(self) -> list[int]:
    """Returns `learning_rate_rounds` as numbers.

    Raises:
      ValueError: If they are not increasing positive integers.
    """
    try:
      rounds = [int(text) for text in self.learning_rate_rounds.split(':')]
    except ValueError:
      rounds = []
    if (
        not rounds or rounds[0] < 1 or rounds != sorted(set(rounds))
        or rounds[-1] > LARGEST_INTEGER
    ):
      raise ValueError(
          '`learning_rate_rounds` must be increasing integers >= 1 with colons'
          f' between them with learning_rate_schedule='
          f'{self.learning_rate_schedule}, found {self.learning_rate_rounds!r}.'
      )
    return rounds


@dataclasses.dataclass(frozen=True)
class AveragedTraining(Aggregation, LocalTraining):
  """Local SGD whose results the server averages."""
