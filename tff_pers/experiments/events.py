"""Builds from flags the events of a run, or the clock of its rounds."""

import dataclasses
from typing import Any, Collection, Mapping, NamedTuple, Optional

from tff_pers.config import methods
from tff_pers.data import task as task_lib
from tff_pers.experiments import auto_rounds
from tff_pers.experiments import flags
from tff_pers.simulation import asynchrony
from tff_pers.simulation import asynchrony_clocks
from tff_pers.simulation import asynchrony_delays
from tff_pers.simulation import cohort

# Delays of event-driven runs without --delays.
DEFAULT_DELAYS = 'exponential[slow=10]'
# Flags that act only with driver=events.
_OF_EVENTS = ('in_flight', 'redispatch')
# Flags that count server updates.
COUNTS = ('rounds', 'eval_every')


class Plan(NamedTuple):
  """The virtual timing of a run.

  Attributes:
    schedule: The events; None: the run proceeds by rounds.
    clock: The clock of rounds; None: there is none, or the schedule has one.
  """

  schedule: Optional[asynchrony.Schedule] = None
  clock: Optional[asynchrony_clocks.RoundClock] = None

  @property
  def in_flight(self) -> int:
    """Number of clients at work at the same time; 0 in a run by rounds."""
    return 0 if self.schedule is None else self.schedule.in_flight


def driver_of(method: methods.Method, given: Mapping[str, Any]) -> str:
  """Returns what drives a method: `rounds` or `events`.

  Raises:
    ValueError: If the method does not support the driver.
  """
  asked = given.get('driver', flags.DEFAULTS['driver'])
  if asked == 'auto':
    return method.driver
  is_averaging = method.travels == methods.Travels()
  if asked == 'events' and method.driver != 'events' and (
      not is_averaging or 'full_participation' in method.needs
  ):
    raise ValueError(
        f'`driver` must be rounds with {method.name}, found events. Tip: events'
        ' drive methods whose clients receive and send weights and nothing'
        ' else.'
    )
  return asked


def in_events(
    task: task_lib.Task, given: Mapping[str, Any], hyperparameters: Any,
    own: Collection[str],
) -> task_lib.Task:
  """Returns the task with the numbers of an event-driven run.

  A server update counts as a round. All updates together consume as many
  messages as the task's rounds, or as many as the task says. The interval
  between evaluations is scaled accordingly. `own` are given flags that are for
  this method only, and thus count its updates: a number of rounds for all
  methods of a comparison is one of messages.
  """
  messages = task.rounds * (task.clients_per_round or task.num_clients)
  if task.updates and 'rounds' not in given:
    messages = task.updates
  rounds = -(-messages // hyperparameters.messages_per_update)
  changes: dict[str, Any] = {}
  if 'rounds' not in own:
    changes['rounds'] = rounds
  if 'eval_every' not in own:
    changes['eval_every'] = max(1, task.eval_every * rounds // task.rounds)
  return dataclasses.replace(task, **changes)


def check(
    driver: str, given: Mapping[str, Any], hyperparameters: Any, *, is_one: bool
) -> None:
  """Refuses flags that conflict.

  `is_one` says whether the flags are for this run only, so that all must act.

  Raises:
    flags.UsageError: Names the first conflict.
  """
  if driver == 'rounds':
    for name in _OF_EVENTS if is_one else ():
      if given.get(name, flags.DEFAULTS[name]) != flags.DEFAULTS[name]:
        raise flags.UsageError(
            f'`--{name}` must be left out in a run driven by rounds, found'
            f' {given[name]}. Tip: --driver=events.'
        )
    if given.get('network_delays') and not given.get('delays'):
      raise flags.UsageError(
          '`--network_delays` must be left out without --delays in a run driven'
          f" by rounds, found {given['network_delays']!r}."
      )
    return
  if given.get('rounds') == auto_rounds.AUTO:
    raise flags.UsageError(
        '`--rounds` must be a number of server updates with driver=events,'
        ' found auto.'
    )
  rule = getattr(hyperparameters, 'aggregator', 'mean')
  if rule != 'mean':
    raise flags.UsageError(
        '`--driver` must be rounds with a robust rule, which compares the'
        f' messages of a round, found events and {rule}.'
    )
  if getattr(hyperparameters, 'pretrain_rounds', 0):
    raise flags.UsageError(
        '`--driver` must be rounds with pretrain_rounds, because a message of'
        ' the first stage may arrive in the second, found events.'
    )


def plan(
    driver: str, task: task_lib.Task, given: Mapping[str, Any],
    hyperparameters: Any, names: Collection[Any],
) -> Plan:
  """Returns the events or the clock of a run.

  `names` are those of the clients as users know them, in order.

  Raises:
    flags.UsageError: If the flags do not fit.
  """
  value = lambda name: given.get(name, flags.DEFAULTS[name])
  text = value('delays') or (DEFAULT_DELAYS if driver == 'events' else '')
  if not text:
    return Plan()
  with flags.usage_errors(names=('delays', 'network_delays', 'in_flight')):
    delays = asynchrony_delays.build(
        text, value('network_delays'), names, flags.resolve_path
    )
    if driver == 'rounds':
      return Plan(clock=asynchrony_clocks.RoundClock(
          delays, cohort.uniform(task.num_clients, task.clients_per_round),
          value('seed'),
      ))
    usual = task.clients_per_round
    if task.full_participation:  # A quarter of all clients.
      usual = -(-task.num_clients // 4)
    return Plan(asynchrony.make_schedule(
        delays, task.num_clients, value('in_flight') or usual, task.rounds,
        seed=value('seed'), redispatch=value('redispatch'),
        messages_per_update=hyperparameters.messages_per_update,
    ))
